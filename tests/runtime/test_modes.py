"""Modes of a session: off that touches nothing, passive that holds at once, active that is stored first, fences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kit.agent_loops import AgentLoop, has_head, head_of, id_of, texts_of
from kit.counting_disk import CountingDisk
from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import opened, opened_in, refused, session_of, turn_held, value
from strataflow.runtime import Runtime, Session
from strataflow.runtime.host_log import JsonlEntries, MemoryEntries


def kinds(entries: MemoryEntries) -> list[str]:
    return [entry["customType"].removeprefix("state-flow-") for entry in entries.entries if entry["type"] == "custom"]


def data(entries: MemoryEntries) -> list[Any]:
    return [entry["data"] for entry in entries.entries if entry["type"] == "custom"]


@contextmanager
def damaged(root: Path, session: str, name: str = "runtime.json") -> Iterator[None]:
    """The session's own files are malformed for the body."""
    (path,) = root.glob(f"*/{session}/{name}")
    text = path.read_text()
    path.write_text("{broken")
    yield
    path.write_text(text)


@holds("L3", "L28", "case agent 140", "case store 90", "case store 91", "case agent 144", "store 6.1.2", "C11")
async def test_off_looks_at_no_storage_from_start_to_end(tmp_path: Path) -> None:
    disk = CountingDisk()
    async with opened_in(tmp_path / "s", disk=disk) as runtime:
        await wait_all_tasks_blocked(0.02)
        disk.operations.clear()
        entries = MemoryEntries()
        session = await runtime.open_session(CWD, "new", entries=entries)
        assert (session.mode, session.indicator, data(entries)) == ("off", None, [{"mode": "off"}])
        loop = AgentLoop(session)
        loop.say("system", "You are")
        assert await loop.turn("hello") == loop.native[:2]
        with refused("E_OFF"):
            await session.read_state("effective")
        with refused("E_OFF"):
            await session.patch_state(session={"working": {"a": 1}})
        assert await session.set_mode("off") == "off"
        await session.status()
        assert data(entries) == [{"mode": "off"}]
        again = MemoryEntries([*entries.entries])
        await session.aclose()
        resumed = await runtime.open_session(CWD, "new", entries=again)
        assert resumed.mode == "off"
        assert disk.operations == []


@holds("L28", "L29", "case agent 140")
async def test_off_withdraws_whatever_waits_and_returns_while_the_lock_is_held(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        entries = MemoryEntries()
        session = await runtime.open_session(CWD, "main", "active", entries=entries)
        await session.patch_state(session={"working": {"a": 1}})
        ended: list[str] = []

        async def patch() -> None:
            with refused("E_OFF"):
                await session.patch_state(session={"working": {"a": 2}})
            ended.append("patch")

        async def answer() -> None:
            with refused("E_OFF"):
                await session.accept_response("no")
            ended.append("answer")

        with turn_held(root):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(patch)
                nursery.start_soon(answer)
                await wait_all_tasks_blocked(0.02)
                assert await session.set_mode("off") == "off"
            assert sorted(ended) == ["answer", "patch"]
            count = len(entries.entries)
            await session.set_mode("off")
            assert len(entries.entries) == count
        assert await session.set_mode("passive") == "passive"
        assert await value(session, "session.working.a") == 1


@holds("L24", "case agent 138")
async def test_active_while_active_changes_nothing_also_in_the_middle_of_a_run(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root) as session, session.run("go") as run:
        first = await run.project([])
        revision, rows = (await session.status())["revision"], session._state.head
        with turn_held(root):
            assert await session.set_mode("active") == "active"
        assert ((await session.status())["revision"], session._state.head) == (revision, rows)
        assert id_of(await run.project([])) == id_of(first)
        assert head_of(first)["specification"] == "go"


@holds("L24", "L5", "store 6.1.4")
async def test_active_holds_once_it_is_stored_and_repeats_share_one_choice(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        entries = MemoryEntries()
        session = await runtime.open_session(CWD, "main", "off", entries=entries)
        async with trio.open_nursery() as nursery:
            with turn_held(root):
                for _ in range(3):
                    nursery.start_soon(session.set_mode, "active")
                await wait_all_tasks_blocked(0.02)
                assert session.mode == "off"
                with refused("E_OFF"):
                    await session.read_state("session")
        assert session.mode == "active"
        assert [entry.get("mode") for entry in data(entries)] == ["off", "active"]


@holds("L26", "store 6.1.3")
async def test_passive_holds_at_once_and_is_stored_later_once(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        entries = MemoryEntries()
        session = await runtime.open_session(CWD, "main", "active", entries=entries)
        await session.patch_state(session={"working": {"a": 1}})
        loop = AgentLoop(session)
        await loop.turn("one")
        count = len(entries.entries)
        before = await session.status()
        async with trio.open_nursery() as nursery:
            with turn_held(root):
                for _ in range(3):
                    nursery.start_soon(session.set_mode, "passive")
                await wait_all_tasks_blocked(0.02)
                assert session.mode == "passive"
                assert await value(session, "session.working.a") == 1
                request = await loop.ask()
                assert "continuation" in head_of(request)
        assert kinds(MemoryEntries(entries.entries[count:])) == ["passive-stop", "snapshot"]
        after = await session.status()
        assert (after["revision"], after["step"]) == (before["revision"], before["step"])
    async with session_of(root, "main", mode=None) as session:
        assert session.mode == "passive"


@holds("L29", "L30", "store 6.1.4")
async def test_an_active_choice_that_waits_gives_way_silently_to_a_later_one(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, mode="passive") as session:
        answers: list[str] = []

        async def activate() -> None:
            answers.append(await session.set_mode("active"))

        with turn_held(root):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(activate)
                await wait_all_tasks_blocked(0.02)
                await session.set_mode("off")
            assert answers == ["off"]
        assert session.mode == "off"
        with turn_held(root):
            with trio.move_on_after(0.03) as scope:
                await session.set_mode("active")
            assert (scope.cancelled_caught, session.mode) == (True, "off")
        assert await session.set_mode("passive") == "passive"


@holds("L27", "case agent 139", "case store 87", "case store 88", "case store 89", "store 4.2.3", "store 4.2.4")
async def test_a_choice_of_passive_that_can_not_be_stored_fences_once_until_a_mode_is_chosen(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        entries = MemoryEntries()
        session = await runtime.open_session(CWD, "main", "active", entries=entries)
        await session.patch_state(session={"working": {"a": 1}})
        loop = AgentLoop(session)
        await loop.turn("one")
        break_store(runtime)
        assert await session.set_mode("passive") == "passive"
        assert await session.set_mode("passive") == "passive"
        fences = [entry for entry in data(entries) if "persistenceError" in entry]
        assert len(fences) == 1
        assert await value(session, "session.working.a") == 1
        with refused("E_FENCED"):
            await session.patch_state(session={"working": {"a": 2}})
        request = await loop.ask()
        assert texts_of(request)[:1] == ["one"]  # what was said is kept
    async with opened(root) as runtime:
        again = MemoryEntries([*entries.entries])
        session = await runtime.open_session(CWD, "main", entries=again)
        assert session.mode == "passive"
        assert await value(session, "session.working.a") == 1
        with refused("E_FENCED"):
            await session.patch_state(session={"working": {"a": 2}})
        assert await session.set_mode("passive") == "passive"
        await session.patch_state(session={"working": {"a": 3}})


def break_store(runtime: Runtime) -> None:
    """From now on the journal refuses to append, as a full disk would."""
    from strataflow.store import StoreError

    journal = runtime._world.journal

    @attrs.define(eq=False)
    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(journal, name)

        def append(self, rows: Any, *, head: int) -> Any:
            raise StoreError("E_DISK", "no space left on device")

    runtime._world.journal = Full()  # type: ignore[assignment]


@holds("L8", "L34", "case agent 142", "case store 85", "case store 86", "store 4.2.1", "store 4.2.5")
async def test_unreadable_memory_blocks_an_active_session_until_it_is_repaired_and_selected(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "main") as session:
        await session.patch_state(session={"working": {"a": 1}}, global_={"working": {"g": 1}})
    entries = MemoryEntries([{"type": "message", "message": {"role": "user"}}])
    async with opened(root) as runtime:
        with damaged(root, "main"):
            session = await runtime.open_session(CWD, "main", "active", entries=entries)
            assert session.mode == "active"
            assert (await session.status())["blocked"] is not None
            assert session.indicator == "state-flow active (blocked)"
            async with session.run("go") as run:
                with refused("E_CORRUPT"):
                    await run.project([])
            assert await value(session, "global.working.g") == 1
            with refused("E_CORRUPT"):
                await session.read_state("session.working")
            with refused("E_CORRUPT"):
                await session.patch_state(global_={"working": {"g": 2}})
            with refused("E_CORRUPT"):
                await session.set_mode("active")
            assert session.mode == "active"
            assert data(entries) == []
        assert (await session.status())["blocked"] is not None  # nothing happens by itself
        await session.set_mode("active")
        assert await value(session, "session.working.a") == 1
        async with session.run("go") as run:
            assert has_head(await run.project([]))


@holds("L8", "store 4.2.2")
async def test_passive_goes_on_over_unreadable_memory_without_a_head(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "main", mode="passive") as session:
        await session.patch_state(session={"working": {"a": 1}})
    async with opened(root) as runtime:
        with damaged(root, "main", "config.json"):
            session = await runtime.open_session(CWD, "main", "passive")
            loop = AgentLoop(session)
            assert texts_of([{}, *await loop.turn("hello")]) == ["hello"]
            with refused("E_CORRUPT", "E_FENCED"):
                await session.patch_state(session={"working": {"a": 2}})


@holds("L2", "L4", "store 6.2.4", "case store 92", "case agent 141")
async def test_a_resumed_session_has_its_logs_mode_over_memory_as_it_is_now(tmp_path: Path) -> None:
    root = tmp_path / "s"
    old = {"boundary": "long-gone", "mode": "active", "step": 1}
    async with session_of(root, "main") as session:
        for step in range(9):
            await session.patch_state(session={"working": {"step": step}})
        await session.set_mode("passive")
    entries = MemoryEntries([{"type": "custom", "customType": "state-flow-snapshot", "data": old}])
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", entries=entries)
        assert session.mode == "active"
        assert await value(session, "session.working.step") == 8
        await session.patch_state(session={"working": {"step": 9}})
        assert data(entries)[-1]["step"] == 10


@holds("L1", "store 6.2.2")
async def test_a_new_session_takes_the_configured_mode_and_passive_creates_no_storage(tmp_path: Path) -> None:
    root = tmp_path / "s"
    root.mkdir()
    (root / "config.json").write_text(json.dumps({"mode": "passive"}))
    async with opened(root) as runtime:
        entries = MemoryEntries()
        session = await runtime.open_session(CWD, "new", entries=entries)
        assert (session.mode, data(entries)) == ("passive", [{"mode": "passive"}])
    assert list(root.glob("*/new")) == []


@holds("L6", "L25", "C26", "case agent 121")
async def test_a_conversation_from_before_is_carried_until_the_next_answer(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s", mode="passive") as session:
        loop = AgentLoop(session)
        await loop.turn("before", "old answer")
        await session.set_mode("active")
        request = await loop.turn("now")
        assert texts_of(request) == ["before", "old answer", "now"]
        assert texts_of(await loop.turn("later")) == ["later"]


@holds("C27", "C20", "case agent 122", "case agent 123", "case agent 125", "L26")
async def test_leaving_active_keeps_what_was_not_finished_and_hides_what_was(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        loop = AgentLoop(session)
        await loop.turn("finished")
        message = loop.say("user", "unfinished")
        async with session.run("unfinished", anchor=message["timestamp"]) as run:
            await loop.ask(run)
            await session.set_mode("passive")
        assert texts_of(await loop.ask()) == ["unfinished"]
        assert head_of(loop.request)["continuation"]


@holds("L4", "store 6.2.4", "C28", "case agent 124")
async def test_a_handoff_survives_a_restart_through_the_sessions_own_log(tmp_path: Path) -> None:
    root, path = tmp_path / "s", tmp_path / "main.jsonl"
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "active", entries=JsonlEntries(str(path)))
        loop = AgentLoop(session)
        await loop.turn("finished")
        await session.set_mode("passive")
        assert texts_of(await loop.ask()) == []
    async with opened(root) as runtime:
        resumed = await runtime.open_session(CWD, "main", entries=JsonlEntries(str(path)))
        assert resumed.mode == "passive"
        request = await AgentLoop(resumed, native=loop.native).ask()
        assert "continuation" in head_of(request)
        assert texts_of(request) == []


@holds("L31", "store 3.1.12")
async def test_a_log_that_can_not_be_written_takes_nothing_back(tmp_path: Path) -> None:
    class Failing(MemoryEntries):
        def append(self, custom_type: str, data: Any) -> None:
            raise OSError("read-only")

    async with opened(tmp_path / "s") as runtime:
        session = await runtime.open_session(CWD, "main", "active", entries=Failing())
        assert (await session.patch_state(session={"working": {"a": 1}})).changed
        await AgentLoop(session).turn("go")
        assert await value(session, "session.working.a") == 1
        assert "host-entry-failed" in {event.name for event in runtime.events}


@holds("T16", "store 3.1.12")
async def test_a_checkpoint_entry_follows_each_accepted_change_and_no_other_call(tmp_path: Path) -> None:
    async with opened(tmp_path / "s") as runtime:
        entries = MemoryEntries()
        session = await runtime.open_session(CWD, "main", "active", entries=entries)
        count = len(entries.entries)
        await session.patch_state(session={"working": {"a": 1}})
        await session.patch_state(session={"working": {"a": 1}})
        with pytest.raises(Exception, match="E_PLANE"):
            await session.patch_state(session={"response": {}})
        async with session.run("go") as run:
            await run.project([])
            await run.project([])
            await run.finish("done")
        added = data(MemoryEntries(entries.entries[count:]))
        assert [entry.get("specification") for entry in added] == [None, "go", None]
        assert [entry["step"] for entry in added] == [1, 1, 2]


def test_a_log_in_a_file_passes_over_a_line_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "main.jsonl"
    log = JsonlEntries(str(path))
    assert log.branch() == []
    log.append("state-flow-snapshot", {"mode": "off"})
    log.add_message("user")
    path.write_bytes(path.read_bytes() + b'{"type":"custom","cus')
    again = JsonlEntries(str(path))
    assert len(again.branch()) == 2
    again.append("state-flow-snapshot", {"mode": "passive"})
    assert [entry["type"] for entry in JsonlEntries(str(path)).branch()] == ["custom", "message", "custom"]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_the_handle_of_a_session_shows_the_mode_that_holds(tmp_path: Path) -> None:
    async with opened(tmp_path / "s") as runtime:
        handles: list[Session] = [await runtime.open_session(CWD, "main", "active") for _ in range(2)]
        await handles[0].set_mode("passive")
        assert [handle.mode for handle in handles] == ["passive", "passive"]


@holds("L33")
async def test_closing_withdraws_what_waits_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "active")

        async def write() -> None:
            with refused("E_CLOSED"):
                await session.patch_state(session={"working": {"never": 1}})

        with turn_held(root):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                await wait_all_tasks_blocked(0.02)
                nursery.start_soon(session.aclose)
    async with session_of(root, "main", mode=None) as session:
        assert (await session.read_state("session")).value == {}
