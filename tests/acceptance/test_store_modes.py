"""Modes, answers and new sessions (store 3.4, 3.5, 6.1, 6.2, cases 70 to 73, Ours-11, T1 to T4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from kit.hand_stores import HandStore
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, turn_held, value, values


@holds("store 3.4.1", "store 3.4.3", "P22", "L21")
async def test_an_answer_is_stored_in_the_session_and_ends_the_run(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write(session={"response": "Same"})
    store.write_run(specification="do it", bootstrap=True)
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1")
        receipt = await session.accept_response("Same")
        assert (receipt.changed, receipt.step, receipt.revision) == (False, 0, "g0c0s0")
        await runtime.checkpoint()
        run = store.get("session", "runtime.json")
        assert "specification" not in run
        assert run["bootstrap"] is False
        assert (await session.accept_response("New")).changed
    assert store.get("session", "patches.jsonl") == [{"response": "New"}]


@holds("case store 70", "case store 71", "store 3.4.4", "P23", "case agent 25")
async def test_an_empty_answer_counts_only_over_one_that_is_not(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write(session={"response": "Previous", "working": {"a": 1}})
    async with session_of(tmp_path) as session:
        receipt = await session.accept_response("")
        assert (receipt.changed, receipt.step, receipt.revision) == (True, 1, "g0c0s1")
        assert await value(session, "session.response") is None
        assert not (await session.accept_response("")).changed
    assert store.get("session", "patches.jsonl") == [{"response": ""}]


@holds("case store 72", "store 3.4.4", "P25")
async def test_an_empty_answer_over_none_leaves_a_broader_answer_effective(tmp_path: Path) -> None:
    HandStore(tmp_path).write(global_={"response": "from long ago"}, session={"working": {"a": 1}})
    async with session_of(tmp_path) as session:
        assert not (await session.accept_response("")).changed
        assert await value(session, "effective.response") == "from long ago"
        with refused("E_MISSING"):
            await session.read_state("session.response", projection="keys")


@holds("case store 73", "store 3.4.5")
async def test_a_cancelled_answer_keeps_the_old_one_and_the_run(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write(session={"response": "Old"})
    store.write_run(specification="do it")
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1")
        with turn_held(tmp_path):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(session.accept_response, "New")
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            assert scope.cancelled_caught
        assert (await session.patch_state(session={"working": {"a": 1}})).step == 1
        assert await value(session, "session.response") == "Old"
        await runtime.checkpoint()
        assert store.get("session", "runtime.json")["specification"] == "do it"
        assert (await session.accept_response("New")).changed


@holds("store 3.4.6", "P11", "P13")
async def test_accepting_an_answer_tidies_the_session_alone(tmp_path: Path) -> None:
    empties = {"working": {"a": {}, "b": 1}}
    store = HandStore(tmp_path).write(empties, empties, empties)
    async with session_of(tmp_path) as session:
        await session.accept_response("Done")
        assert await values(session, "session.working", "cwd.working", "global.working") == [
            {"b": 1},
            empties["working"],
            empties["working"],
        ]
    assert store.get("session", "patches.jsonl") == [{"response": "Done", "working": {"a": None}}]
    assert store.get("cwd", "patches.jsonl") == []


@holds("store 3.4.1", "T3", "case agent 30")
async def test_answers_are_kept_in_active_mode_only(tmp_path: Path) -> None:
    async with session_of(tmp_path, mode="passive") as session:
        await session.patch_state(session={"working": {"a": 1}})
        with refused("E_OFF"):
            await session.accept_response("Done")
        await session.set_mode("off")
        for call in (
            session.patch_state(session={"working": {"a": 2}}),
            session.read_state("session"),
            session.accept_response("Done"),
            session.call("patch_state", {}),
            session.call("read_state", {}),
        ):
            with refused("E_OFF"):
                await call
        await session.set_mode("active")
        assert (await session.accept_response("Done")).changed
        with refused("E_JSON"):
            await session.accept_response("\ud800")


@holds("store 6.2.1", "store 6.2.2", "store 6.1.1", "store 6.2.3", "Ours-11", "case store 90")
@pytest.mark.parametrize("configured", [None, "off", "passive", "active"])
async def test_a_new_session_takes_the_configured_mode_and_creates_files_only_if_active(
    tmp_path: Path, configured: str | None
) -> None:
    if configured is not None:
        (tmp_path / "config.json").write_text(json.dumps({"mode": configured}))
    store = HandStore(tmp_path)
    async with session_of(tmp_path, mode=None) as session:
        assert session.mode == (configured or "off")
    files = store.bytes()
    files.pop("config.json", None)
    if configured == "active":
        assert store.get("session", "config.json") == {"mode": "active"}
        assert store.get("session", "runtime.json")["step"] == 0
        assert store.get("session", "checkpoint.json") == {}
    else:
        assert files == {}


@holds("Ours-11", "store 6.1.1", "store 7.5")
async def test_an_explicit_mode_goes_before_a_stored_and_a_configured_one(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    (tmp_path / "config.json").write_text('{"mode":"passive"}')
    async with session_of(tmp_path, mode=None) as session:
        assert session.mode == "active"
    async with session_of(tmp_path, mode="off") as session:
        assert session.mode == "off"
    assert store.get("session", "config.json") == {"mode": "active"}
    async with session_of(tmp_path, mode="passive") as session:
        assert session.mode == "passive"
    assert store.get("session", "config.json") == {"mode": "passive"}
    async with opened(tmp_path) as runtime:
        with refused("E_SHAPE"):
            await runtime.open_session("/project", "s1", "on")  # type: ignore[arg-type]
        session = await runtime.open_session("/project", "s1")
        for mode in ("on", None, True, ["off"]):
            with refused("E_SHAPE"):
                await session.set_mode(mode)  # type: ignore[arg-type]
        assert session.mode == "passive"


@holds("store 6.1.2", "T1", "T3", "L3")
async def test_off_reads_no_store_even_a_malformed_one(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    for scope in ("global", "cwd", "session"):
        store.put(scope, "meta.json", "{")
    before = store.bytes()
    async with session_of(tmp_path, mode="off") as session:
        status = await session.status()
        assert status["mode"] == "off"
        assert "blocked" not in status
        with refused("E_OFF"):
            await session.read_state("global")
    assert store.bytes() == before


@holds("store 6.1.3", "store 6.1.4", "store 3.5.1")
async def test_selecting_a_mode_moves_no_step_and_no_revision(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(session={"working": {"a": 1}})
        await runtime.checkpoint()
        before, status = store.bytes(), await session.status()
        assert await session.set_mode("active") == "active"
        assert (await runtime.checkpoint()).files == 0
        assert await session.set_mode("passive") == "passive"
        after = await session.status()
        assert (after["step"], after["revision"]) == (status["step"], status["revision"])
        assert (await session.call("set_mode", {"mode": "active"})) == {"mode": "active"}
        await runtime.checkpoint()
        assert store.bytes() == before


@holds("store 3.5.1", "L25", "store 6.1.4")
async def test_activation_drops_an_unfinished_run_and_passive_keeps_it(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_run(specification="unfinished")
    async with session_of(tmp_path, mode="passive"):
        pass
    assert store.get("session", "runtime.json")["specification"] == "unfinished"
    async with session_of(tmp_path, mode="active"):
        pass
    assert "specification" not in store.get("session", "runtime.json")


@holds("store 6.2.4", "store 4.1.3", "store 3.6.11")
async def test_a_session_resumes_with_its_present_files(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"working": {"a": 1}}, session={"working": {"b": 1}})
        await session.accept_response("Done")
    async with session_of(tmp_path, mode=None) as session:
        status = await session.status()
        assert (status["mode"], status["step"], status["revision"]) == ("active", 2, "g0c1s2")
        assert await values(session, "effective.working", "session.response") == [{"a": 1, "b": 1}, "Done"]


@holds("store 6.2.3", "store 3.3.2")
async def test_a_new_session_has_an_empty_layer_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        first = await runtime.open_session("/project", "one", "active")
        await first.patch_state(global_={"working": {"g": 1}}, session={"working": {"mine": 1}})
        second = await runtime.open_session("/project", "two", "active")
        elsewhere = await runtime.open_session("/other", "one", "active")
        assert await values(second, "session", "effective") == [{}, {"working": {"g": 1}}]
        assert await values(elsewhere, "session", "effective") == [{}, {"working": {"g": 1}}]
        # A fresh session has no history before its own creation.
        with refused("E_HISTORY_ORIGIN"):
            await second.read_state("global[1]")


@holds("store 6.1.1")
async def test_several_handles_of_one_session_are_the_same_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        one = await runtime.open_session("/project", "s1", "passive")
        two = await runtime.open_session("/project", "s1")
        await one.patch_state(session={"working": {"a": 1}})
        assert two.mode == "passive"
        assert await value(two, "session.working.a") == 1
        three = await runtime.open_session("/project", "s1", "active")
        assert (one.mode, three.mode) == ("active", "active")
        assert (one.cwd, one.session_id) == ("/project", "s1")


@holds("Ours-9")
async def test_unknown_calls_and_arguments_are_refused_by_code(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        with refused("E_REQUEST"):
            await session.call("begin", {})
        for name, arguments, code in (
            ("accept_response", {}, "E_SHAPE"),
            ("accept_response", [], "E_SHAPE"),
            ("accept_response", {"text": 5}, "E_JSON"),
            ("accept_response", {"text": "x", "more": 1}, "E_FIELD"),
            ("set_mode", {"mode": "on"}, "E_SHAPE"),
            ("status", {"x": 1}, "E_SHAPE"),
            ("read_state", {"path": "cwd", "offset": 1}, "E_READ_SHAPE"),
        ):
            with refused(code) as caught:
                await session.call(name, arguments)
            assert str(caught.value).startswith(f"{code}: ")
        assert (await session.call("status", {}))["mode"] == "active"
