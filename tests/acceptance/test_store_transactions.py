"""Transactions of several scopes and several writers (store 3.1 to 3.3, 4.1, cases 53 to 69)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from kit.hand_stores import SHARED_FILES, HandStore
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, turn_held, value, values
from kit.stores import OpenedStore
from strataflow.runtime import Runtime, Session
from strataflow.store import NewRow, ScopePart


@contextlib.asynccontextmanager
async def two_runtimes(root: Path) -> AsyncIterator[tuple[Session, Session, Runtime]]:
    """Two writers of one store, each with a session of its own."""
    async with opened(root) as one, opened(root) as two:
        yield (
            await one.open_session("/project", "A", "active"),
            await two.open_session("/project", "B", "active"),
            one,
        )


@holds("case store 53-55", "store 3.1.2", "store 3.1.3", "store 3.3.1-3.3.3", "store 1.9.6", "P18", "case agent 70")
async def test_a_patch_works_on_the_present_values_and_keeps_what_it_does_not_name(tmp_path: Path) -> None:
    async with two_runtimes(tmp_path) as (a, b, runtime):
        first = {"working": {"x": 1}}
        assert (await a.patch_state(global_=first, cwd=first, session=first)).revision == "g1c1s1"
        await b.patch_state(session={"working": {"own": True}})
        await b.patch_state(global_={"working": {"choice": "foreign", "unrelated": "keep"}})
        await runtime.checkpoint()
        private = HandStore(tmp_path, session="B").private_bytes()
        receipt = await a.patch_state(
            global_={"working": {"choice": "original"}},
            cwd={"working": {"choice": "original"}},
            session={"working": {"choice": "original"}},
        )
        assert receipt.revision == "g3c2s2"
        assert await value(a, "global.working") == {"x": 1, "choice": "original", "unrelated": "keep"}
        assert await value(a, "global[1].working") == {"x": 1, "choice": "foreign", "unrelated": "keep"}
        await runtime.checkpoint()
        assert HandStore(tmp_path, session="B").private_bytes() == private


@holds("store 3.1.3", "case agent 71", "P9")
async def test_a_value_equal_to_a_stale_one_still_overwrites_a_newer_one(tmp_path: Path) -> None:
    async with two_runtimes(tmp_path) as (a, b, _):
        await a.patch_state(cwd={"working": {"v": "old", "list": [1, 2]}})
        await b.patch_state(cwd={"working": {"v": "new", "list": [1]}})
        assert (await a.patch_state(cwd={"working": {"v": "old"}})).changed
        assert (await b.read_state("cwd.working.v", fresh=True)).value == "old"
        with refused("E_INDEX"):
            await a.patch_state(cwd={"working": {"list": {"[1]": 3}}})


@holds("case store 56", "store 3.1.8", "T15", "T16", "P20", "P24", "case agent 54", "case agent 55")
async def test_repeating_a_patch_succeeds_and_changes_nothing_anywhere(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    patch = {"global_": {"working": {"a": [1]}}, "session": {"lazy": {"b": {"c": 2}}}}
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        first = await session.patch_state(**patch)
        await runtime.checkpoint()
        before, status = store.bytes(), await session.status()
        again = await session.patch_state(**patch)
        assert (again.changed, again.step, again.revision) == (False, first.step, first.revision)
        assert (again.transition_id, again.missing_deletions) == (None, ())
        for plane in ("intents", "contract", "working", "artifacts", "lazy"):
            gone = {plane: {"never": None}}
            assert not (await session.patch_state(global_=gone, cwd=gone, session=gone)).changed
        assert (await session.status())["history_depth"] == status["history_depth"]
        report = await runtime.checkpoint()
        assert report.files == 0
        assert store.bytes() == before


@holds("case store 57", "store 3.1.4", "store 3.1.11", "T12", "case agent 75")
async def test_a_rejected_first_patch_leaves_no_scope_behind(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path, mode="passive") as session:
        with refused("E_ARTIFACT"):
            await session.patch_state(global_={"working": {"a": 1}}, session={"artifacts": {"/x": {"kind": "k"}}})
        assert (await session.status())["step"] == 0
        assert await value(session, "effective") == {}
    assert store.bytes() == {}
    async with session_of(tmp_path, mode="passive") as session:
        receipt = await session.patch_state(session={"working": {"a": 1}})
        assert (receipt.step, receipt.revision) == (1, "g0c0s1")
    assert store.get("session", "runtime.json")["step"] == 1
    assert store.get("session", "config.json") == {"mode": "passive"}


@holds("case store 58", "case store 59", "store 3.1.1", "T7", "T8", "P22", "case agent 40", "case agent 41")
@pytest.mark.parametrize(
    "arguments, code",
    [
        ({}, "E_NO_SCOPE"),
        ({"global": {}}, "E_SCOPE_EMPTY"),
        ({"other": {"working": {}}}, "E_FIELD"),
        ({"final": True}, "E_FIELD"),
        ({"session": {"working": {"a": 1}}, "extra": 1}, "E_FIELD"),
        ([], "E_SHAPE"),
        (None, "E_SHAPE"),
        ({"cwd": 5}, "E_SCOPE_SHAPE"),
        ({"cwd": {"working": None}}, "E_PLANE_SHAPE"),
        *[({scope: {"response": value}}, "E_PLANE") for scope in ("global", "cwd", "session") for value in ("x", None)],
    ],
)
async def test_a_wrong_call_is_rejected_and_stores_nothing(tmp_path: Path, arguments: object, code: str) -> None:
    async with session_of(tmp_path) as session:
        with refused(code) as caught:
            await session.call("patch_state", arguments)
        if code == "E_PLANE":
            assert '"response"' in caught.value.message
            assert "intents, contract, working, artifacts, lazy" in caught.value.message
        assert await value(session, "effective") == {}
        assert (await session.status())["step"] == 0


@holds("case store 60", "store 3.2.2", "Ours-11")
async def test_memory_of_a_session_that_is_off_is_not_touched(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write(session={"working": {"a": 1}})
    before = store.bytes()
    async with session_of(tmp_path, mode="off") as session:
        with refused("E_OFF"):
            await session.patch_state(session={"working": {"a": 2}})
        with refused("E_OFF"):
            await session.read_state("session")
        assert store.bytes() == before
        # An explicit choice applies to an existing session, over its files as they are.
        assert await session.set_mode("active") == "active"
        assert await value(session, "session.working.a") == 1


@holds("case store 61", "store 3.2.1", "J12", "Ours-3", "P18")
async def test_another_process_in_the_same_session_fences_this_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as one, opened(tmp_path) as two:
        first = await one.open_session("/project", "s1", "active")
        await first.patch_state(session={"working": {"a": "mine"}})
        second = await two.open_session("/project", "s1", "active")
        await second.patch_state(session={"working": {"a": "theirs"}}, cwd={"working": {"c": 1}})
        with refused("E_CHANGED"):
            await first.patch_state(session={"working": {"b": 1}})
        # The view is kept, shared memory goes on, and nothing of the winner is lost.
        assert await values(first, "session.working", "cwd.working") == [{"a": "mine"}, {"c": 1}]
        assert (await first.status())["blocked"].startswith("E_CHANGED")
        with refused("E_CHANGED"):
            await first.patch_state(cwd={"working": {"c": 2}})
        await first.set_mode("active")
        assert await value(first, "session.working.a") == "theirs"
        assert (await first.patch_state(session={"working": {"b": 1}})).changed
        with refused("E_CHANGED"):
            await second.patch_state(session={"working": {"z": 1}})
    assert HandStore(tmp_path).get("session", "patches.jsonl")[-1] == {"working": {"b": 1}}


@holds("case store 62", "store 3.2.3", "store 4.1", "store 4.1.2", "store 4.1.1", "Ours-1", "J6")
@pytest.mark.parametrize("left", [(), ("meta.json",)])
async def test_a_deleted_directory_scope_begins_empty_and_others_stay(tmp_path: Path, left: tuple[str, ...]) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"working": {"old": 1}}, session={"working": {"kept": 1}})
    for name in set(SHARED_FILES) - set(left):
        store.path("cwd", name).unlink()
    async with session_of(tmp_path) as session:
        receipt = await session.patch_state(cwd={"working": {"fresh": True}}, session={"working": {"more": 1}})
        assert await values(session, "cwd", "session.working") == [
            {"working": {"fresh": True}},
            {"kept": 1, "more": 1},
        ]
        assert receipt.revision == "g0c1s2"
    assert store.get("cwd", "patches.jsonl") == [{"working": {"fresh": True}}]


@holds("case store 63", "store 3.2.3", "store 4.1", "Ours-18")
@pytest.mark.parametrize("harm", ["deleted", "malformed"])
async def test_a_scope_damaged_while_open_keeps_its_bytes_and_its_cache(tmp_path: Path, harm: str) -> None:
    store = HandStore(tmp_path)
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(cwd={"working": {"a": 1}})
        await runtime.checkpoint()
        if harm == "deleted":
            store.path("cwd", "checkpoint.json").unlink()
        else:
            store.put("cwd", "checkpoint.json", "{")
        before = {name: data for name, data in store.bytes().items() if name.startswith("--project--/")}
        await session.patch_state(cwd={"working": {"a": 2}})
        report = await runtime.checkpoint()
        assert "--project--" in report.blocked
        assert any(event.name == "checkpoint-blocked" for event in runtime.events)
        assert await value(session, "cwd.working.a") == 2
        after = {name: store.bytes().get(name) for name in before if name.count("/") == 1}
        assert after == {name: before[name] for name in after}
    async with session_of(tmp_path, "other") as session:
        with refused("E_CORRUPT"):
            await session.patch_state(cwd={"working": {"a": 3}})


@holds("case store 64", "store 4.1.1", "store 4.1.2")
async def test_evidence_left_behind_does_not_speak_for_a_new_card(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write(global_={"artifacts": {"/x": {"description": "old"}}})
    store.edit("global", "meta.json", artifacts={"/x": {"compilerRevision": "artifact-v1"}})
    store.path("global", "checkpoint.json").unlink()
    store.path("global", "patches.jsonl").unlink()
    async with session_of(tmp_path, "new") as session:
        await session.patch_state(global_={"artifacts": {"/x": {"description": "new"}}})
    assert store.get("global", "meta.json")["artifacts"] == {}
    assert store.get("global", "patches.jsonl") == [{"artifacts": {"/x": {"description": "new"}}}]


@holds("case store 65", "store 3.1.5", "store 3.1.6", "O4", "P19", "case agent 76", "case agent 82")
async def test_a_closed_intent_takes_what_it_owns_and_the_record_says_so(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    intent = {"do": [{"$ref": "cwd.working.step"}, {"$ref": "cwd.lazy.plan"}]}
    async with session_of(tmp_path) as session:
        await session.patch_state(global_={"working": {"step": "fallback"}})
        await session.patch_state(
            cwd={"intents": {"task": intent}, "working": {"step": 1, "other": 2}, "lazy": {"plan": ["p"]}}
        )
        receipt = await session.patch_state(cwd={"intents": {"task": None}})
        assert receipt.cascaded == ("cwd.lazy.plan", "cwd.working.step")
        assert await values(session, "cwd", "working.step") == [{"working": {"other": 2}}, "fallback"]
    assert store.get("cwd", "patches.jsonl")[-1] == {"intents": None, "working": {"step": None}, "lazy": None}
    async with session_of(tmp_path) as session:
        assert await value(session, "cwd") == {"working": {"other": 2}}


@holds("case store 66", "store 3.1.9", "T17", "P5", "case agent 51", "case agent 53")
async def test_deleting_what_is_absent_succeeds_with_a_hint_and_no_revision(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        receipt = await session.patch_state(cwd={"working": {"a": {"b": None}}})
        assert (receipt.changed, receipt.revision, receipt.step) == (False, "g0c0s0", 0)
        assert [attrs.asdict(item) for item in receipt.missing_deletions] == [
            {"path": "/cwd/working/a/b", "unavailable_path": "/cwd/working"}
        ]
        await session.patch_state(session={"working": {"value": 1}})
        receipt = await session.patch_state(
            cwd={"working": {"kept": True, "absent": None}}, session={"working": {"value": None}}
        )
        assert (receipt.changed, receipt.revision) == (True, "g0c1s2")
        assert len(receipt.missing_deletions) == 1
        assert await values(session, "cwd.working", "session") == [{"kept": True}, {}]


@holds("case store 67", "store 3.1.10", "store 1.9.5", "store 2.2.2", "J2")
def test_new_evidence_for_the_same_card_rewrites_meta_alone(tmp_path: Path) -> None:
    hand = HandStore(tmp_path, session="main")
    evidence = {"/x": {"sourceFingerprint": {"size": 3, "mtimeNs": "7"}, "compilerRevision": "artifact-v1"}}
    with OpenedStore.open(tmp_path, cwd="/project") as store:
        store.patch(cwd={"artifacts": {"/x": {"description": "d"}}})
        store.checkpoint()
        before, revision = hand.bytes(), store.memory.revision(store.default)
        for is_new in (True, False):
            state = store.memory.image("--project--").state
            assert state is not None
            part = ScopePart(None, state.revision, state.floor, evidence=evidence)
            row = NewRow("w", "evidence", 1, "power", store.default, store.memory.position, parts={"cwd": part})
            assert store.journal.append([row], head=store.memory.head) == "appended"
            store.follow()
            report = store.checkpoint()
            assert report.files == int(is_new)
            assert store.memory.revision(store.default) == revision
        after = hand.bytes()
        assert {name for name in after if after[name] != before[name]} == {"--project--/meta.json"}
        assert hand.get("cwd", "meta.json")["artifacts"] == evidence


@holds("case store 68", "store 3.6.8", "J12", "Ours-4", "store 2.2.4")
async def test_a_reader_with_a_lower_limit_leaves_wider_tails_alone(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path) as session:
        for number in range(6):
            await session.patch_state(
                global_={"working": {"n": number}}, cwd={"working": {"n": number}}, session={"working": {"n": number}}
            )
    before = store.bytes()
    async with session_of(tmp_path, history_limit=1, mode="passive") as session:
        assert await value(session, "session[1].working.n") == 4
        with refused("E_HISTORY_RANGE"):
            await session.read_state("session[2]")
    after = store.bytes()
    changed = {name for name in before if after[name] != before[name]}
    assert changed <= {"--project--/s1/config.json", "--project--/s1/runtime.json"}
    assert store.get("session", "config.json") == {"mode": "passive"}
    async with session_of(tmp_path) as session:
        assert await value(session, "session[5].working.n") == 0


@holds("case store 69", "store 3.5.2", "store 3.2.6", "store 2.2.4", "store 1.4.2")
async def test_activation_creates_absent_shared_pairs_empty_without_a_step(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    store.write_scope("cwd", {"working": {"a": 1}})
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        status = await session.status()
        assert (status["step"], status["revision"]) == (0, "g0c0s0")
        await runtime.checkpoint()
        assert store.get("global", "checkpoint.json") == {}
        assert store.path("global", "patches.jsonl").read_bytes() == b""
        before = store.bytes()
        await session.set_mode("active")
        assert (await runtime.checkpoint()).files == 0
        assert store.bytes() == before


@holds("P17", "P20", "store 3.1.7", "case agent 68", "case agent 69", "T14", "T18")
@pytest.mark.parametrize("mask", range(1, 8))
async def test_every_choice_of_scopes_is_one_transition(tmp_path: Path, mask: int) -> None:
    store = HandStore(tmp_path)
    names = [name for bit, name in enumerate(("global", "cwd", "session")) if mask >> bit & 1]
    async with session_of(tmp_path) as session:
        result = await session.call("patch_state", {name: {"working": {"a": 1}} for name in reversed(names)})
        assert (result["scopes"], result["step"], result["changed"]) == (names, 1, True)
        assert result["revision"] == "".join(f"{n[0]}{int(n in names)}" for n in ("global", "cwd", "session"))
        assert f" {'+'.join(names)} scope{'s' if len(names) > 1 else ''}" in result["text"]
        assert result["text"].startswith("\n")
        identities = [(await session.read_state(f"{name}.patches[0]")).transition_id for name in names]
        assert len(set(identities)) == 1
    for name in ("global", "cwd", "session"):
        patches = store.get(name, "meta.json")["temporal"]["patches"]
        assert [where["id"] for where in patches] == (identities[:1] if name in names else [])


@holds("P17", "P21", "case agent 43", "case agent 66", "T10")
async def test_one_refused_scope_refuses_the_whole_call(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(global_={"lazy": {"l": [1]}}, cwd={"lazy": {"l": [1]}})
        before = await session.status()
        with refused("E_NULL"):
            await session.patch_state(global_={"working": {"ok": 1}}, cwd={"working": {"a": [None]}})
        with refused("E_INDEX"):
            await session.patch_state(global_={"lazy": {"l": {"[0]": 2}}}, cwd={"lazy": {"l": {"[1]": 2}}})
        assert await value(session, "global") == {}
        assert await value(session, "global.lazy.l") == [1]
        after = await session.status()
        assert (after["revision"], after["step"]) == (before["revision"], before["step"])


@holds("T11", "Ours-5")
async def test_the_caller_may_change_its_arguments_while_a_call_waits(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        patch = {"working": {"list": [1]}}
        async with trio.open_nursery() as nursery:
            with turn_held(tmp_path):
                nursery.start_soon(lambda: session.patch_state(session=patch))
                await trio.testing.wait_all_tasks_blocked()
                patch["working"]["list"].append(2)
        patch["working"]["list"].append(3)
        assert await value(session, "session.working.list") == [1]
        # What is read belongs to the reader, too.
        seen = await value(session, "session.working")
        seen["list"].append(4)
        assert await value(session, "session.working.list") == [1]


@holds("store 3.3.4", "store 3.1.7")
async def test_two_sessions_of_one_process_share_what_is_shared_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        one = await runtime.open_session("/project", "one", "active")
        two = await runtime.open_session("/project", "two", "active")
        await one.patch_state(global_={"working": {"a": 1}}, session={"working": {"mine": 1}})
        assert await values(two, "global.working.a", "session") == [1, {}]
        assert (await two.status())["step"] == 0
        assert await value(two, "effective[1]") == {}


@holds("store 3.1.12", "Ours-18")
async def test_what_is_accepted_is_seen_by_its_session_at_once(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        for number in range(20):
            await session.patch_state(session={"working": {"n": number}})
            assert await value(session, "working.n") == number
