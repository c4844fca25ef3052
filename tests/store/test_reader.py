"""Readers: what they see beside running, crashed and read-only stores, and that they change nothing (J10)."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from kit.faulty_disk import FaultyDisk
from kit.holds import holds
from kit.stores import OpenedStore, all_bytes, as_stranger, leave_killed_process, reachable_folder, reader_of
from strataflow.store import JournalView, StoreError, View, read
from strataflow.store.journal_reader import JournalReader
from strataflow.store.reader import StoreReader

PRIVATE = ".strataflow"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state-flow"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    with reachable_folder() as folder:
        yield folder


def value(view: View, path: str) -> Any:
    return read(view, {"path": path}).value


def files_that_count(root: Path) -> dict[str, bytes]:
    """Everything but what SQLite may make beside a database: the ``-shm``, and a ``-wal`` without content."""
    return {name: data for name, data in all_bytes(root).items() if not name.endswith("-shm") and data + b"x" != b"x"}


# -- what does not exist ----------------------------------------------------------------------------------------


@holds("Ours-18", "store 4.1.4")
def test_a_store_that_does_not_exist_reads_as_empty(root: Path, scratch: Path) -> None:
    look = reader_of(root, scratch).look("/project", "main")
    assert value(look.view(), "effective") == {}
    assert (look.revision, len(look.boundaries()), look.errors) == ("g0c0s0", 1, {})
    assert reader_of(root, scratch).log(10) == []
    assert not root.exists()


@holds("Ours-18", "store 4.1.4", "store 4.1.3")
def test_a_session_that_does_not_exist_reads_as_empty_above_shared_memory(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(global_={"contract": {"a": 1}}, session={"working": {"b": 2}})
    view = reader_of(root, scratch).view("/project", "another")
    assert value(view, "effective") == {"contract": {"a": 1}}
    assert value(view, "session") == {}
    alone = reader_of(root, scratch).look("/project")
    assert value(alone.view(), "effective") == {"contract": {"a": 1}}
    assert (alone.address, alone.revision) == (None, "g1c0s0")


@holds("Ours-13", "Ours-18")
def test_a_folder_that_may_not_be_listed_hides_its_session_only(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(global_={"working": {"g": 1}}, cwd={"working": {"c": 2}})
    reader = reader_of(root, scratch)
    disk = FaultyDisk().refuse("list", str(root / "--project--"), errno.EACCES)
    view = attrs.evolve(reader, ground=attrs.evolve(reader.ground, disk=disk)).view("/project", "another")
    assert (value(view, "global.working.g"), value(view, "cwd.working.c")) == (1, 2)
    for path in ("session", "effective"):
        with pytest.raises(StoreError) as caught:
            value(view, path)
        assert (caught.value.code, caught.value.data["errno"]) == ("E_DISK", "EACCES")


def test_a_journal_that_nothing_was_written_to_reads_as_empty(root: Path, scratch: Path) -> None:
    (root / PRIVATE).mkdir(parents=True)
    (root / PRIVATE / "journal.db").touch()
    assert value(reader_of(root, scratch).view("/project", "main"), "effective") == {}
    assert sorted(path.name for path in (root / PRIVATE).iterdir()) == ["journal.db"]


# -- the states that -wal and -shm can be in --------------------------------------------------------------------


@holds("J10", "Ours-18")
def test_a_reader_beside_a_running_store_sees_what_is_only_in_the_journal(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
        store.checkpoint()
        store.patch(cwd={"working": {"n": 2}}, session={"intents": {"i": "x"}})
        before = all_bytes(root)
        look = reader_of(root, scratch).look("/project", "main")
        assert value(look.view(), "effective") == {"working": {"n": 2}, "intents": {"i": "x"}}
        assert value(look.view(), "effective[1].working") == {"n": 1}
        assert look.boundaries() == store.memory.boundaries(store.default)
        assert look.revision == store.memory.revision(store.default)
        changed = {name for name, data in all_bytes(root).items() if before.get(name) != data}
        assert {name for name in changed if not name.endswith("-shm")} == set()
        # The writer goes on undisturbed, and the next look sees it.
        store.patch(cwd={"working": {"n": 3}})
        assert value(reader_of(root, scratch).view("/project", "main"), "cwd.working.n") == 3


@holds("J10", "Ours-18")
def test_a_closed_store_is_read_without_leaving_a_trace(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
    before = all_bytes(root)
    assert not any(name.endswith("-wal") for name in before)
    assert value(reader_of(root, scratch).view("/project", "main"), "effective.working.n") == 1
    assert all_bytes(root) == before


@holds("J10", "J2")
def test_rows_of_a_killed_process_are_seen_although_no_file_holds_them(root: Path, scratch: Path) -> None:
    leave_killed_process(root, "store.patch(cwd={'working': {'n': 7}})")
    before = files_that_count(root)
    assert "--project--/checkpoint.json" not in before
    assert value(reader_of(root, scratch).view("/project", "main"), "effective.working.n") == 7
    assert files_that_count(root) == before


@holds("J10")
@pytest.mark.parametrize("keeps_shm", [True, False])
def test_a_crashed_store_is_read_with_and_without_its_shared_memory_file(
    root: Path, tmp_path: Path, scratch: Path, keeps_shm: bool
) -> None:
    store = OpenedStore.open(root)
    store.patch(cwd={"working": {"n": 1}})
    crashed = store.crash_into(tmp_path / "crashed")
    if not keeps_shm:
        (crashed / PRIVATE / "journal.db-shm").unlink()
    before = files_that_count(crashed)
    assert value(reader_of(crashed, scratch).view("/project", "main"), "effective.working.n") == 1
    assert files_that_count(crashed) == before


@holds("J10", "Ours-18")
@pytest.mark.parametrize("left", ["-wal and -shm", "-wal", "nothing"])
def test_a_store_that_may_not_be_written_is_read_whatever_lies_there(open_to_all: Path, left: str) -> None:
    root = open_to_all / "state-flow"
    store = OpenedStore.open(root)
    store.patch(cwd={"working": {"n": 1}})
    store.checkpoint()
    store.patch(session={"working": {"n": 2}})
    crashed = store.crash_into(open_to_all / "crashed")
    if left == "-wal":
        (crashed / PRIVATE / "journal.db-shm").unlink()
    elif left == "nothing":
        OpenedStore.open(crashed).close()
    before = all_bytes(crashed)
    with as_stranger(crashed):
        reader = reader_of(crashed, open_to_all / "scratch")
        view = reader.view("/project", "main")
        assert value(view, "effective.working.n") == 2
        assert value(view, "effective[1].working.n") == 1
        assert [entry.seq for entry in reader.log(10)] == [1, 2]
    assert all_bytes(crashed) == before
    assert list((open_to_all / "scratch").iterdir()) == []


def test_a_journal_whose_creation_was_cut_short_is_read_from_a_copy(root: Path, tmp_path: Path, scratch: Path) -> None:
    (root / PRIVATE).mkdir(parents=True)
    (root / PRIVATE / "journal.db").touch()
    (root / PRIVATE / "journal.db-journal").write_bytes(b"no rollback journal, but something")
    before = all_bytes(root)
    assert value(reader_of(root, scratch).view("/project", "main"), "effective") == {}
    assert all_bytes(root) == before
    assert list(scratch.iterdir()) == []


def test_an_unreadable_journal_is_an_error_and_never_an_empty_store(open_to_all: Path) -> None:
    root = open_to_all / "state-flow"
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
    with as_stranger(root, hidden=[root / PRIVATE / "journal.db"]):
        with pytest.raises(StoreError, match=r"journal\.db") as caught:
            reader_of(root, open_to_all / "scratch").view("/project", "main")
    assert caught.value.code == "E_DISK"


@holds("Ours-1")
def test_a_damaged_journal_is_refused_and_names_the_remedy(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
    (root / PRIVATE / "journal.db").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with pytest.raises(StoreError, match="rebuild") as caught:
        reader_of(root, scratch).view("/project", "main")
    assert caught.value.code == "E_CORRUPT"


def test_a_symlink_in_place_of_the_journal_is_refused(root: Path, tmp_path: Path, scratch: Path) -> None:
    (root / PRIVATE).mkdir(parents=True)
    (root / PRIVATE / "journal.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symlink"):
        reader_of(root, scratch).view("/project", "main")


@holds("J10")
def test_files_that_change_under_every_look_end_in_busy(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
    reader = reader_of(root, scratch)
    assert isinstance(reader.journal, JournalReader)
    database = root / PRIVATE / "journal.db"
    looks = []

    def question(_sqlite: object) -> int:
        looks.append(1)
        os.utime(database, ns=(0, len(looks)))
        return 1

    with pytest.raises(StoreError, match="changing") as caught:
        reader.journal._ask(question)
    assert (caught.value.code, len(looks)) == ("E_BUSY", 5)


# -- checkpoints in the making ----------------------------------------------------------------------------------


@holds("J10", "J5", "store 2.3.1")
@pytest.mark.parametrize("count", range(8))
def test_a_half_renamed_checkpoint_is_read_through_its_list(root: Path, scratch: Path, count: int) -> None:
    store = OpenedStore.open(root)
    store.patch(cwd={"working": {"n": 1}})
    store.checkpoint()
    store.patch(global_={"contract": {"c": 1}}, cwd={"working": {"n": 2}}, session={"working": {"s": 2}})
    assert len(store.die_in_checkpoint(count).moves) == 7
    before = all_bytes(root)
    look = reader_of(root, scratch).look("/project", "main")
    assert not look.errors
    assert value(look.view(), "effective") == {"contract": {"c": 1}, "working": {"n": 2, "s": 2}}
    assert value(look.view(), "effective[1]") == {"working": {"n": 1}}
    assert look.revision == "g1c2s1"
    assert all_bytes(root) == before
    # The next opener comes to the same.
    with OpenedStore.open(root, "writer-2") as store:
        assert store.read("effective") == {"contract": {"c": 1}, "working": {"n": 2, "s": 2}}
        assert store.memory.revision(store.default) == "g1c2s1"


@holds("J10", "Ours-18")
def test_checkpoints_that_never_rest_end_in_busy_after_five_rounds(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
    quiet = reader_of(root, scratch)

    class Restless(JournalReader):
        rounds = 0

        def view(self, after: int | None, scopes: object = ()) -> JournalView:
            Restless.rounds += 1
            found = super().view(after, scopes)  # type: ignore[arg-type]
            return JournalView(
                found.head,
                found.position,
                found.pruned_through,
                found.checkpointed_through,
                found.synced_through,
                found.bases if Restless.rounds % 2 else {},
                found.prepared,
                found.rows,
            )

    ground = quiet.ground
    restless = StoreReader(ground, Restless(ground.disk, ground.layout, str(scratch), lambda: None))
    with pytest.raises(StoreError, match="ask again") as caught:
        restless.look("/project")
    assert (caught.value.code, Restless.rounds) == ("E_BUSY", 6)


# -- files of others --------------------------------------------------------------------------------------------


@holds("J6", "Ours-1")
def test_bytes_that_somebody_else_wrote_are_the_value(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}}, session={"working": {"s": 1}})
        store.checkpoint()
        store.patch(cwd={"working": {"n": 2}}, session={"working": {"s": 2}})
        (root / "--project--" / "checkpoint.json").write_bytes(b'{"working":{"theirs":true}}\n')
        look = reader_of(root, scratch).look("/project", "main")
        assert value(look.view(), "cwd") == {"working": {"theirs": True, "n": 1}}
        assert value(look.view(), "session") == {"working": {"s": 2}}
        assert len(look.boundaries()) == 1
        store.abandon()
    with OpenedStore.open(root, "writer-2") as store:
        assert store.read("cwd") == {"working": {"theirs": True, "n": 1}}
        assert len(store.memory.boundaries(store.default)) == 1
    assert len(reader_of(root, scratch).look("/project", "main").boundaries()) == 1


def test_a_damaged_scope_takes_nothing_else_with_it(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(global_={"contract": {"g": 1}}, cwd={"working": {"n": 1}}, session={"working": {"s": 1}})
    (root / "--project--" / "patches.jsonl").write_bytes(b'{"working":\n')
    view = reader_of(root, scratch).view("/project", "main")
    assert value(view, "global.contract.g") == 1
    assert value(view, "session.working.s") == 1
    for path in ("cwd", "effective"):
        with pytest.raises(StoreError, match="line 1") as caught:
            value(view, path)
        assert caught.value.code == "E_CORRUPT"


@holds("store 3.2.6")
def test_global_memory_missing_beside_a_directory_is_refused(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
    (root / "checkpoint.json").unlink()
    (root / "patches.jsonl").unlink()
    view = reader_of(root, scratch).view("/project", "main")
    with pytest.raises(StoreError, match="missing"):
        value(view, "effective")
    assert value(view, "cwd.working.n") == 1


def test_a_folder_that_belongs_to_another_directory_is_refused(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root, cwd="/a-b/c") as store:
        store.patch(cwd={"working": {"n": 1}})
    view = reader_of(root, scratch).view("/a/b-c", "main")
    with pytest.raises(StoreError, match="belongs to"):
        value(view, "cwd")


def test_a_session_is_found_by_the_end_of_its_folder_name_only_if_one_fits(root: Path, scratch: Path) -> None:
    for name in ("2026_x", "2027_x"):
        (root / "--project--" / name).mkdir(parents=True)
    with pytest.raises(StoreError, match="any of") as caught:
        reader_of(root, scratch).view("/project", "x")
    assert caught.value.code == "E_BRANCH"
    (root / "--project--" / "2027_x").rmdir()
    found = reader_of(root, scratch).look("/project", "x")
    assert found.address is not None
    assert found.address.key == "2026_x"


# -- log --------------------------------------------------------------------------------------------------------


def test_the_log_tells_accepted_transitions_with_the_newest_last(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.set_mode("active")
        first = store.patch(cwd={"working": {"n": 1}}, session={"intents": {"i": "x"}})
        other = store.session("b", "/other")
        store.patch(other, global_={"contract": {"c": 1}})
        last = store.respond("Done.")
        entries = reader_of(root, scratch).log(10)
    assert [entry.transition_id for entry in entries][::2] == [first.transition_id, last.transition_id]
    assert entries[0].patches == {"cwd": {"working": {"n": 1}}, "session": {"intents": {"i": "x"}}}
    assert (entries[1].cwd, entries[1].session_id, list(entries[1].patches)) == ("/other", "b", ["global"])
    assert entries[0].time_ms < entries[1].time_ms < entries[2].time_ms
    assert json.loads(json.dumps(entries[2].to_json()))["patches"] == {"session": {"response": "Done."}}
    reader = reader_of(root, scratch)
    assert [entry.seq for entry in reader.log(2)] == [entry.seq for entry in entries[1:]]
    assert [entry.session_id for entry in reader.log(10, cwd="/project")] == ["main", "main"]
    assert [entry.cwd for entry in reader.log(10, session_id="b")] == ["/other"]


def test_the_log_marks_what_gave_way_to_bytes_of_others(root: Path, scratch: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}})
        store.checkpoint()
        store.patch(cwd={"working": {"n": 2}}, session={"working": {"s": 2}})
        (root / "--project--" / "checkpoint.json").write_bytes(b'{"working":{"theirs":true}}\n')
        store.checkpoint()
        store.abandon()
    entries = reader_of(root, scratch).log(10)
    assert [entry.superseded for entry in entries] == [(), ("cwd",)]
    assert entries[1].patches == {"cwd": {"working": {"n": 2}}, "session": {"working": {"s": 2}}}


# -- modes of files ---------------------------------------------------------------------------------------------


def test_nothing_that_the_store_makes_can_be_read_by_others(root: Path) -> None:
    with OpenedStore.open(root) as store:
        store.patch(cwd={"working": {"n": 1}}, session={"working": {"s": 1}})
        store.checkpoint()
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
    assert {path for path, mode in modes.items() if mode & 0o077} == set()
