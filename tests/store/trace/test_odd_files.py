"""Files that other programs left, and calls that the disk refuses: what can be read is read, nothing is destroyed."""

from __future__ import annotations

import json

import pytest

from kit.holds import holds
from kit.session_trees import CWD, FOLDER, HEADER, assistant, message_line, simulated_seams, simulated_tree, user
from kit.simulated_runtimes import fail_once
from strataflow.runtime.simulation import SimulatedDisk
from strataflow.store import CallError, ReadError, StoreError
from strataflow.store.trace import TraceTree, TreeOptions, check_session, fork_tree, list_folder, open_tree
from strataflow.store.trace.files import READ_BYTES

PATH = f"{FOLDER}/s.jsonl"
A, B = message_line("a", None), message_line("b", "a", role="assistant")


def disk_with(*lines: str, header: str = HEADER, mark: str = "") -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.plant(PATH, "file", (mark + "".join(f"{line}\n" for line in (header, *lines))).encode())
    return disk


@holds("host 1.8.1")
def test_the_mark_that_editors_put_in_front_is_no_part_of_the_header() -> None:
    disk = disk_with(A, B, mark="\ufeff")
    seams = simulated_seams(disk)
    before = disk.contents()[PATH]
    tree = simulated_tree(seams)
    assert tree.get_branch_ids() == ["a", "b"]
    added = tree.append_message(user("c"))
    assert disk.contents()[PATH].startswith(before)
    assert simulated_tree(seams).get_branch_ids() == ["a", "b", added]
    assert [info.message_count for info in list_folder(seams, FOLDER)] == [3]
    assert check_session(seams, PATH) == []


@pytest.mark.parametrize("version", ["3", True, [2]])
def test_a_version_that_is_no_number_is_not_migrated(version: object) -> None:
    disk = disk_with(A, B, header=json.dumps({**json.loads(HEADER), "version": version}))
    before = disk.contents()[PATH]
    assert simulated_tree(simulated_seams(disk)).get_branch_ids() == ["a", "b"]
    assert disk.contents()[PATH] == before


@holds("host 1.8.8")
def test_entries_without_what_their_type_should_have_are_carried_along() -> None:
    odd = '{"type":"message","id":"b","parentId":"a"}', '{"type":"message","id":"c","parentId":"b","message":7}'
    tree = simulated_tree(simulated_seams(disk_with(A, *odd, message_line("d", "c", role="assistant"))))
    tree.create_branched_session("d")
    assert tree.get_branch_ids() == ["a", "b", "c", "d"]
    assert [message["role"] for message in tree.build_session_context().messages] == ["user", "assistant"]


@pytest.mark.parametrize("time_ms", [253_402_300_800_000, -(10**15), 10**30])
def test_a_time_that_no_timestamp_can_say_is_refused_and_nothing_is_added(time_ms: int) -> None:
    tree = simulated_tree(simulated_seams(disk_with(A, B)))
    with pytest.raises(CallError, match="E_SHAPE"):
        tree.append_message(user("never"), timestamp_ms=time_ms)
    assert tree.get_branch_ids() == ["a", "b"]


def test_a_branched_session_that_the_disk_refuses_leaves_the_session_as_it_was() -> None:
    disk = disk_with(A, B)
    tree = simulated_tree(simulated_seams(disk))
    disk.before_operation = fail_once("append", ".new")
    with pytest.raises(StoreError, match="E_DISK"):
        tree.create_branched_session("b")
    assert (tree.get_session_file(), tree.get_session_id(), tree.get_leaf_id()) == (PATH, "s", "b")
    tree.append_message(assistant("c"))
    assert len(tree.get_entries()) == 3
    assert [*disk.contents()] == [PATH]


def test_a_session_branched_from_one_that_is_only_read_can_be_added_to() -> None:
    seams = simulated_seams(disk_with(A, B))
    tree = open_tree(TraceTree, seams, PATH, TreeOptions(), default_cwd="/", is_read_only=True)
    tree.create_branched_session("b")
    assert tree.get_entry(tree.append_message(user("c"))) is not None
    assert simulated_tree(seams).get_branch_ids() == ["a", "b"]


def test_an_unknown_leaf_is_refused_and_no_file_is_exported() -> None:
    disk = disk_with(A, B)
    tree = simulated_tree(simulated_seams(disk))
    with pytest.raises(ReadError, match="E_MISSING"):
        tree.export_branch("/elsewhere/b.jsonl", "nobody")
    assert [*disk.contents()] == [PATH]


@pytest.mark.parametrize("forks", [False, True])
def test_a_file_that_is_replaced_while_it_is_read_is_never_mixed_with_the_other(forks: bool) -> None:
    padding = "x" * READ_BYTES
    disk = disk_with(message_line("a", None, padding), message_line("b", "a", padding))
    disk.plant("/agent/other", "file", disk.contents()[PATH].replace(b'"b"', b'"c"'))
    seams = simulated_seams(disk)
    reads = iter(range(100))

    def replace(operation: str, path: str) -> None:
        if operation == "read_part" and path == PATH and next(reads) == 2:
            disk.rename("/agent/other", PATH)

    disk.before_operation = replace

    def forked() -> TraceTree:
        return fork_tree(TraceTree, seams, PATH, CWD, f"{FOLDER}/forks", TreeOptions())

    with pytest.raises(StoreError, match="E_CHANGED"):
        forked() if forks else simulated_tree(seams)
    assert [path for path in disk.contents() if "forks" in path] == []
