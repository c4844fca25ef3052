"""Request ids through the runtime: asking again returns the first outcome, whoever asks, and whatever for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.holds import holds
from kit.runtimes import opened, refused, session_of, value
from strataflow.runtime import CallError, Outcome, Runtime, StoreError
from strataflow.runtime.requests import REQUEST_ID_CHARS_MAX
from strataflow.store import checkpoint as write_checkpoint
from strataflow.store import compact

SET = {"working": {"n": 1}}
OTHERWISE = {"working": {"n": 2}}
# Refused while ``list`` has one element, possible when it has three.
NO_SUCH_ELEMENT = {"working": {"list": {"[2]": 0}}}


async def outcome(runtime: Runtime, request_id: str) -> tuple[str, str | None]:
    """The state of a request, and the code of a refusal."""
    found = await runtime.outcome(request_id)
    assert (found.receipt is not None) == (found.state == "accepted")
    assert (found.error is not None) == (found.state == "refused")
    return found.state, found.error.code if found.error else None


@holds("Ours-12")
async def test_an_accepted_call_is_carried_out_once_whoever_asks_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "one", "active")
        first = await session.patch_state(global_=SET, session=SET, request_id="r")
        other = await runtime.open_session("/elsewhere", "two", "passive")
        assert await session.patch_state(global_=SET, session=SET, request_id="r") == first
        assert await other.patch_state(global_=OTHERWISE, request_id="r") == first
        assert await other.accept_response("no answer", request_id="r") == first
        assert await runtime.outcome("r") == Outcome("accepted", receipt=first)
        async with opened(tmp_path) as second:
            third = await second.open_session("/project", "three", "active")
            assert await third.patch_state(global_=OTHERWISE, request_id="r") == first
            assert await value(third, "global.working.n") == 1
    async with opened(tmp_path, durability="power") as runtime:
        assert await runtime.outcome("r") == Outcome("accepted", receipt=first)
        session = await runtime.open_session("/project", "one")
        assert await session.patch_state(global_=OTHERWISE, request_id="r") == first
        assert (await session.status())["revision"] == "g1c0s1"
        assert (await session.patch_state(global_=OTHERWISE, request_id="r2")).changed


@holds("Ours-12")
async def test_an_answer_is_accepted_once(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        first = await session.accept_response("done", request_id="answer")
        assert await session.accept_response("later", request_id="answer") == first
        assert await value(session, "session.response") == "done"
        assert await session.call("accept_response", {"text": "later"}, request_id="answer") == {
            "changed": True,
            "step": 1,
            "revision": "g0c0s1",
        }


@holds("Ours-12")
async def test_a_call_that_changed_nothing_changes_nothing_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(global_=SET)
        first = await session.patch_state(global_=SET, request_id="r")
        assert (first.changed, first.transition_id) == (False, None)
        await session.patch_state(global_=OTHERWISE)
        assert await session.patch_state(global_=SET, request_id="r") == first
        assert await value(session, "global.working.n") == 2
    async with session_of(tmp_path, "main") as session:
        assert await session.patch_state(global_=SET, request_id="r") == first


@holds("Ours-12")
async def test_a_refusal_is_given_again_by_its_process_and_judged_anew_by_another(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(global_={"working": {"list": [0]}})
        with refused("E_INDEX") as first:
            await session.patch_state(global_=NO_SUCH_ELEMENT, request_id="r")
        await session.patch_state(global_={"working": {"list": [0, 1, 2]}})
        with refused("E_INDEX") as again:
            await session.patch_state(global_=NO_SUCH_ELEMENT, request_id="r")
        assert (again.value.message, again.value.data) == (first.value.message, first.value.data)
        found = await runtime.outcome("r")
        assert (found.state, str(found.error)) == ("refused", str(first.value))
        async with opened(tmp_path) as second:
            assert await outcome(second, "r") == ("unseen", None)
            other = await second.open_session("/project", "other", "active")
            receipt = await other.patch_state(global_=NO_SUCH_ELEMENT, request_id="r")
            assert receipt.changed
        # What is durable counts, also where it was refused before.
        assert await runtime.outcome("r") == Outcome("accepted", receipt=receipt)
        assert await session.patch_state(global_=NO_SUCH_ELEMENT, request_id="r") == receipt


ARGUMENTS: list[tuple[str, Any, str]] = [
    ("patch_state", {"global": {"notes": {}}}, "E_PLANE"),
    ("patch_state", {"nowhere": {}}, "E_FIELD"),
    ("patch_state", {"global": {"working": {"x": float("nan")}}}, "E_JSON"),
    ("patch_state", {}, "E_NO_SCOPE"),
    ("patch_state", [], "E_SHAPE"),
    ("accept_response", {"text": 3}, "E_JSON"),
    ("accept_response", {}, "E_SHAPE"),
    ("accept_response", {"text": "a", "more": 1}, "E_FIELD"),
]


@holds("Ours-12")
@pytest.mark.parametrize("name, arguments, code", ARGUMENTS, ids=[code for _, _, code in ARGUMENTS])
async def test_a_call_at_fault_has_the_outcome_of_its_id_and_is_remembered(
    tmp_path: Path, name: str, arguments: Any, code: str
) -> None:
    good = {"patch_state": {"global": SET}, "accept_response": {"text": "done"}}[name]
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        with refused(code):
            await session.call(name, arguments, request_id="faulty")
        assert await outcome(runtime, "faulty") == ("refused", code)
        with refused(code):
            await session.call(name, good, request_id="faulty")
        first = await session.call(name, good, request_id="r")
        assert await session.call(name, arguments, request_id="r") == first
        assert await outcome(runtime, "r") == ("accepted", None)


@holds("Ours-12")
async def test_a_session_that_is_off_answers_for_what_was_accepted_before(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        first = await session.patch_state(global_=SET, request_id="r")
        await session.set_mode("off")
        assert await session.patch_state(global_=OTHERWISE, request_id="r") == first
        with refused("E_OFF"):
            await session.patch_state(global_=OTHERWISE)
        with refused("E_OFF"):
            await session.patch_state(global_=OTHERWISE, request_id="s")
        await session.set_mode("passive")
        for request_id in ("s", "t"):
            with refused("E_OFF"):
                await session.accept_response("no", request_id=request_id)
        await session.set_mode("active")
        assert await outcome(runtime, "s") == ("refused", "E_OFF")
        with refused("E_OFF"):
            await session.patch_state(global_=OTHERWISE, request_id="s")
        assert await session.accept_response("no", request_id="r") == first


async def test_what_the_store_could_not_do_may_be_asked_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(session=SET)
        async with session_of(tmp_path, "main", cwd="/project") as stranger:
            await stranger.patch_state(session=OTHERWISE)
        with refused("E_CHANGED"):
            await session.patch_state(session=SET, request_id="r")
        assert await outcome(runtime, "r") == ("unseen", None)
        await session.set_mode("active")
        assert (await session.patch_state(session=SET, request_id="r")).changed
    with refused("E_CLOSED"):
        await session.patch_state(session=SET, request_id="later")
    with refused("E_CLOSED"):
        await runtime.outcome("r")
    async with opened(tmp_path) as runtime:
        assert await outcome(runtime, "later") == ("unseen", None)


@pytest.mark.parametrize("error", [CallError("E_ABORTED", "withdrawn"), StoreError("E_BUSY", "not now")])
async def test_a_call_that_was_withdrawn_was_never_seen(tmp_path: Path, error: Exception) -> None:
    def withdraw() -> None:
        raise error

    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        for name, arguments in (("patch_state", {"global": SET}), ("accept_response", {"text": "done"})):
            with refused("E_ABORTED", "E_BUSY"):
                await session.call(name, arguments, admit=withdraw, request_id=name)
            assert await outcome(runtime, name) == ("unseen", None)
            assert (await session.call(name, arguments, request_id=name))["changed"]


class Text(str):
    """No plain text."""


NO_IDS: list[Any] = ["", "x" * 201, "\ud800", "a\udfff", 7, 1.5, True, b"r", ["r"], Text("r"), object()]


@holds("Ours-12")
@pytest.mark.parametrize("request_id", NO_IDS, ids=[ascii(item)[:12] for item in NO_IDS])
async def test_what_can_not_be_a_request_id_is_refused_before_anything_else(tmp_path: Path, request_id: Any) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        with refused("E_SHAPE"):
            await session.patch_state(global_=SET, request_id=request_id)
        with refused("E_SHAPE"):
            await session.accept_response("done", request_id=request_id)
        with refused("E_SHAPE") as caught:
            await runtime.outcome(request_id)
        assert len(str(caught.value)) < 200
        assert (await session.status())["revision"] == "g0c0s0"


async def test_the_outcome_of_no_request_id_can_not_be_asked(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        with refused("E_SHAPE"):
            await runtime.outcome(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("request_id", ["r", " ", "\0", "\U0001f600" * REQUEST_ID_CHARS_MAX, "'; drop table rows"])
async def test_every_text_of_one_to_two_hundred_characters_is_a_request_id(tmp_path: Path, request_id: str) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        assert await outcome(runtime, request_id) == ("unseen", None)
        first = await session.patch_state(global_=SET, request_id=request_id)
        assert await session.patch_state(global_=OTHERWISE, request_id=request_id) == first
        assert (await runtime.outcome(request_id)).receipt == first


@pytest.mark.parametrize("name", ["read_state", "status", "set_mode", "cancel", "outcome"])
async def test_other_calls_take_no_request_id(tmp_path: Path, name: str) -> None:
    async with session_of(tmp_path) as session:
        with refused("E_REQUEST"):
            await session.call(name, {}, request_id="r")


@holds("Ours-12")
async def test_outcomes_as_json_have_the_members_of_their_state(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        first = await session.patch_state(global_=SET, request_id="r")
        with refused("E_PLANE") as caught:
            await session.patch_state(global_={"notes": {}}, request_id="s")
        error = {"code": "E_PLANE", "message": caught.value.message, "data": {"scope": "global", "plane": "notes"}}
        assert (await runtime.outcome("r")).to_json() == {"state": "accepted", "receipt": first.to_json()}
        assert (await runtime.outcome("s")).to_json() == {"state": "refused", "error": error}
        assert (await runtime.outcome("t")).to_json() == {"state": "unseen"}
        assert compact((await runtime.outcome("s")).to_json())


@holds("Ours-12")
async def test_pruning_forgets_the_oldest_requests_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(write_checkpoint.__globals__, "HISTORY_LIMIT_MAX", 2)
    monkeypatch.setitem(write_checkpoint.__globals__, "REQUESTS_KEPT", 5)
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "main", "active")
        receipts = []
        for number in range(20):
            change = {"working": {"n": number}}
            receipts.append(await session.patch_state(global_=change, session=change, request_id=f"r{number}"))
            if number % 3 == 0:
                await runtime.checkpoint()
        await runtime.checkpoint()
        # Two rows stay besides the newest; before them the last five.
        for number in range(12, 20):
            assert (await runtime.outcome(f"r{number}")).receipt == receipts[number]
        for number in range(12):
            assert await outcome(runtime, f"r{number}") == ("unseen", None)
        assert (await session.patch_state(global_=SET, session=SET, request_id="r15")) == receipts[15]
        assert await value(session, "global.working.n") == 19
