"""How accepted changes reach the canonical files, and what stops them (store 2.2, 2.3, cases 42 to 52, Ours-17)."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kit.faulty_disk import FaultyDisk
from kit.hand_stores import PRIVATE_FILES, HandStore
from kit.holds import holds
from kit.runtimes import opened, opened_in, real_journal, refused, session_of, turn_held, value, values
from kit.stores import OpenedStore
from strataflow.store import Durability, Ground, Journal, NewRow, StoreError

CHANGE = {"working": {"a": 1}}


@holds("case store 42", "store 2.2.6", "store 2.2.7", "Ours-17", "J5", "case agent 72")
@pytest.mark.parametrize("operation", ["rename", "write_new", "sync_file"])
async def test_a_checkpoint_that_fails_loses_nothing_and_succeeds_later(tmp_path: Path, operation: str) -> None:
    store = HandStore(tmp_path).write(session={"working": {"old": 1}})
    disk = FaultyDisk()
    async with opened_in(tmp_path, disk=disk) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(global_=CHANGE, cwd=CHANGE, session=CHANGE)
        staged = str(tmp_path / ".strataflow/staged")
        before = store.bytes()
        if operation == "rename":
            disk.refuse("rename", str(store.path("session", "patches.jsonl")), errno.EIO)
        else:
            disk.refuse_below(operation, staged, errno.ENOSPC)
        if operation == "rename":
            # Trouble in one folder is the trouble of its scope alone.
            report = await runtime.checkpoint()
            assert report.blocked["--project--/s1"].data["errno"] == "EIO"
            assert store.get("cwd", "patches.jsonl") == [CHANGE]
        else:
            with refused("E_DISK") as caught:
                await runtime.checkpoint()
            assert caught.value.data["errno"] == "ENOSPC"
        assert await value(session, "session.working") == {"old": 1, "a": 1}
        # Commits go on while files can not be written.
        await session.patch_state(session={"working": {"b": 2}})
        if operation != "rename":
            assert store.bytes() == before
        disk.lift()
        await runtime.checkpoint()
        assert list(Path(staged).iterdir()) == []
    assert store.get("session", "patches.jsonl") == [CHANGE, {"working": {"b": 2}}]
    assert store.get("cwd", "patches.jsonl") == [CHANGE]


@holds("case store 43", "store 2.2.1", "J5", "store 2.3.1", "Ours-1")
@pytest.mark.parametrize("name", PRIVATE_FILES)
def test_a_half_renamed_scope_reads_whole_and_is_finished_by_the_next(tmp_path: Path, name: str) -> None:
    root = tmp_path / "first"
    hand = HandStore(tmp_path / "second", session="main")
    store = OpenedStore.open(root)
    store.set_mode("active")
    store.patch(session=CHANGE)
    store.checkpoint()
    store.set_mode("passive")
    store.patch(global_=CHANGE, cwd=CHANGE, session={"working": {"b": 2}})
    before = HandStore(root, session="main").private_bytes()
    disk = FaultyDisk().refuse("rename", str(HandStore(root, session="main").path("session", name)), errno.EIO)
    store.ground = Ground(disk, store.ground.locks, store.ground.table, store.ground.layout)
    if name == "checkpoint.json":
        # It does not change, so it is not renamed at all.
        disk.refuse("rename", str(root / "patches.jsonl"), errno.EIO)
    with contextlib.suppress(StoreError):
        assert store.checkpoint().blocked
    if name == "runtime.json":
        # The run record is the pointer to all else and goes last.
        assert {file for _, file in disk.calls if file.startswith(str(root / "--project--/main"))}
        assert HandStore(root, session="main").get("session", "config.json") == {"mode": "passive"}
        assert HandStore(root, session="main").private_bytes()["runtime.json"] == before["runtime.json"]
    store.crash_into(hand.root)
    with OpenedStore.open(hand.root, "writer-2") as store:
        assert store.read("effective.working") == {"a": 1, "b": 2}
        assert store.view().scopes["session"].revision == 2
    assert hand.get("session", "config.json") == {"mode": "passive"}
    assert hand.get("session", "runtime.json")["step"] == 2
    assert hand.get("global", "patches.jsonl") == [CHANGE]


@holds("case store 44", "Ours-5", "store 2.2.6")
async def test_bytes_that_are_no_text_are_kept_exactly(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd=CHANGE)
    bad = b'{"working":{"a":"\xff"}}\n'
    store.put("cwd", "checkpoint.json", bad)
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        with refused("E_CORRUPT") as caught:
            await session.patch_state(cwd={"working": {"a": 2}})
        assert "UTF-8" in caught.value.message
        await runtime.checkpoint()
    assert store.path("cwd", "checkpoint.json").read_bytes() == bad


@holds("case store 45", "store 2.2.6", "store 2.3.3", "Ours-1", "J5", "J6")
async def test_another_program_that_writes_during_a_checkpoint_wins_its_scope(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    disk = FaultyDisk()
    async with opened_in(tmp_path, disk=disk) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(global_=CHANGE, cwd=CHANGE, session=CHANGE)

        def overwrite() -> None:
            store.write_scope("cwd", {"working": {"theirs": 1}}, revision=9)

        # After the list was stored and in the middle of the renames: the worst moment.
        disk.before("rename", str(store.path("global", "meta.json")), overwrite)
        await runtime.checkpoint()
        theirs = store.path("cwd", "checkpoint.json").read_bytes()
        await runtime.checkpoint()
        assert await values(session, "cwd.working", "global.working") == [{"theirs": 1}, {"a": 1}]
        assert any(event.name == "superseded" and event.data["scope"] == "--project--" for event in runtime.events)
        assert await value(session, "session.working.a") == 1
    kept = [path.read_text() for path in (tmp_path / ".strataflow/superseded").iterdir()]
    assert any('"record":{"working":{"a":1}}' in text for text in kept)
    assert store.get("cwd", "checkpoint.json") == {"working": {"theirs": 1}}
    assert store.path("cwd", "checkpoint.json").read_bytes() == theirs


@holds("case store 46", "store 2.2.7")
async def test_a_tail_that_became_a_link_is_not_written_through(tmp_path: Path) -> None:
    store, target = HandStore(tmp_path / "state-flow").write(), tmp_path / "target"
    async with opened(store.root) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        target.write_bytes(b"precious")
        store.path("cwd", "patches.jsonl").unlink()
        store.path("cwd", "patches.jsonl").symlink_to(target)
        await session.patch_state(cwd=CHANGE, global_=CHANGE)
        report = await runtime.checkpoint()
        assert "--project--" in report.blocked
    assert target.read_bytes() == b"precious"
    assert store.path("cwd", "patches.jsonl").is_symlink()
    assert list((store.root / ".strataflow/staged").iterdir()) == []
    assert store.get("global", "patches.jsonl") == [CHANGE]


@holds("case store 48", "Ours-3", "J1", "J3", "store 2.2.5")
def test_rows_staged_on_an_older_head_are_never_appended(tmp_path: Path) -> None:
    with OpenedStore.open(tmp_path) as store:
        store.patch(cwd=CHANGE)
        row = NewRow("w", "lifecycle", 1, "power", store.default, store.memory.position)
        assert store.journal.append([row, row], head=store.memory.head - 1) == "moved"
        assert store.journal.append([row], head=store.memory.head + 1) == "moved"
        assert store.journal.rows_since(store.memory.head, 10) == []


@holds("case store 48", "case store 49", "store 2.2.2", "store 2.2.3", "Ours-4", "P11")
async def test_scopes_that_did_not_change_keep_their_very_files(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        other = await runtime.open_session("/project", "s2", "active")
        await other.patch_state(session=CHANGE)
        await session.patch_state(global_=CHANGE, cwd=CHANGE, session=CHANGE)
        await runtime.checkpoint()
        inodes = {path: path.stat().st_ino for path in tmp_path.rglob("*.json*")}
        await session.patch_state(cwd={"working": {"a": 2}})
        report = await runtime.checkpoint()
        now = {path: path.stat().st_ino for path in tmp_path.rglob("*.json*")}
        replaced = {path for path in now if now[path] != inodes.get(path)}
        # The pair, the meta, and the run record, whose step has grown.
        expected = {store.path("cwd", "patches.jsonl"), store.path("cwd", "meta.json")}
        assert replaced == expected | {store.path("session", "runtime.json")}
        assert set(report.scopes) == {"--project--", "--project--/s1"}
        assert (await runtime.checkpoint()).files == 0
        assert {path: path.stat().st_ino for path in tmp_path.rglob("*.json*")} == now


@holds("case store 50", "store 2.2.4", "store 6.1.3", "store 1.5.8")
async def test_a_change_of_mode_touches_nothing_but_config(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path) as session:
        await session.patch_state(global_=CHANGE, cwd=CHANGE, session=CHANGE)
    before = store.bytes()
    async with session_of(tmp_path, mode=None) as session:
        await session.set_mode("passive")
    after = store.bytes()
    assert {name for name in after if after[name] != before[name]} == {"--project--/s1/config.json"}


@holds("case store 51", "store 2.1.9", "P21")
async def test_a_call_cancelled_before_it_is_taken_leaves_no_trace(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        with turn_held(tmp_path):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lambda: session.patch_state(session=CHANGE))
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
        assert scope.cancelled_caught
        assert await value(session, "session") == {}
        assert (await session.status())["step"] == 0
        assert (await session.patch_state(session={"working": {"b": 1}})).step == 1


class HeldJournal:
    """A journal whose next append waits until it is let go."""

    def __init__(self, real: Journal) -> None:
        self._real = real
        self.is_armed = False
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def append(self, rows: Sequence[NewRow], *, head: int) -> str:
        if self.is_armed:
            self.entered.set()
            self.let_go.wait(30)
        return self._real.append(rows, head=head)


@holds("case store 51", "store 3.1.12", "store 2.1.9")
async def test_a_call_cancelled_while_it_is_appended_stays_accepted(tmp_path: Path) -> None:
    journals: list[HeldJournal] = []

    def held(ground: Ground, level: Durability) -> Any:
        journals.append(HeldJournal(real_journal(ground, level)))
        return journals[-1]

    async with opened_in(tmp_path, journal=held) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        journals[0].is_armed = True
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: session.patch_state(session=CHANGE))
                await trio.to_thread.run_sync(journals[0].entered.wait, 30)
                scope.cancel()
        assert scope.cancelled_caught
        journals[0].let_go.set()
        # The next call waits for its turn, and so sees what came before.
        assert (await session.patch_state(session={"working": {"b": 1}})).step == 2
        assert await value(session, "session.working") == {"a": 1, "b": 1}
    assert HandStore(tmp_path).get("session", "patches.jsonl") == [CHANGE, {"working": {"b": 1}}]


@holds("case store 52", "store 2.3.4", "T36")
async def test_the_whole_flow_starts_no_process_and_opens_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    for place, name in ((subprocess, "Popen"), (os, "system"), (os, "fork"), (os, "posix_spawn"), (os, "popen")):
        monkeypatch.setattr(place, name, refuse)
    (tmp_path / ".git").mkdir()
    async with session_of(tmp_path) as session:
        await session.patch_state(global_=CHANGE, session=CHANGE)
        await session.accept_response("Done")
        await session.set_mode("passive")
    shutil.rmtree(tmp_path / ".strataflow")
    async with session_of(tmp_path) as session:
        assert await values(session, "effective.working.a", "response") == [1, "Done"]
    assert list((tmp_path / ".git").iterdir()) == []


@holds("Ours-1", "J9", "store 1.1.4", "store 4.1.1")
async def test_without_a_journal_the_canonical_files_are_the_whole_truth(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path) as session:
        for number in range(4):
            await session.patch_state(cwd={"working": {"n": number}}, session={"working": {"n": number}})
    shutil.rmtree(tmp_path / ".strataflow")
    before = store.bytes()
    async with session_of(tmp_path, mode=None) as session:
        assert (await session.status())["revision"] == "g0c4s4"
        assert [await value(session, f"effective[{n}].working.n") for n in range(4)] == [3, 2, 1, 0]
    assert store.bytes() == before


@holds("Ours-1", "J6", "J12", "store 3.2.3", "Ours-18")
async def test_files_that_others_change_between_two_openings_win_and_are_told(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path) as session:
        await session.patch_state(global_=CHANGE, session=CHANGE)
    store.put("global", "patches.jsonl", '{"working":{"a":"theirs"}}\n')
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        assert await values(session, "global.working.a", "session.working.a") == ["theirs", 1]
        with refused("E_HISTORY_ORIGIN"):
            await session.read_state("effective[1]")
        receipt = await session.patch_state(global_={"working": {"b": 2}})
        assert receipt.revision == "g2c0s1"
        assert await value(session, "effective[1].working.a") == 1
    assert store.get("global", "patches.jsonl") == [{"working": {"a": "theirs"}}, {"working": {"b": 2}}]


@holds("Ours-17", "Ours-9")
async def test_an_append_that_is_rolled_back_is_refused_and_the_next_one_works(tmp_path: Path) -> None:
    journals: list[Any] = []

    class Full(HeldJournal):
        def append(self, rows: Sequence[NewRow], *, head: int) -> str:
            if self.is_armed:
                raise StoreError("E_DISK", "journal.db: disk full; nothing was written", cause="SQLITE_FULL")
            return self._real.append(rows, head=head)

    def full(ground: Ground, level: Durability) -> Any:
        journals.append(Full(real_journal(ground, level)))
        return journals[-1]

    async with opened_in(tmp_path, journal=full) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        journals[0].is_armed = True
        with refused("E_DISK"):
            await session.patch_state(session=CHANGE)
        assert await value(session, "session") == {}
        journals[0].is_armed = False
        receipt = await session.patch_state(session=CHANGE)
        assert (receipt.step, receipt.revision) == (1, "g0c0s1")


@holds("Ours-2", "J4")
@pytest.mark.parametrize("durability", ["power", "process"])
async def test_both_levels_of_durability_survive_an_orderly_end(tmp_path: Path, durability: str) -> None:
    async with session_of(tmp_path, durability=durability) as session:
        await session.patch_state(session=CHANGE)
        assert (await session.status())["durability"] == durability
    other = "process" if durability == "power" else "power"
    async with session_of(tmp_path, durability=other) as session:
        assert await value(session, "session.working.a") == 1
    with refused("E_CONFIG"):
        async with opened(tmp_path, durability="never"):
            raise AssertionError("opened")
