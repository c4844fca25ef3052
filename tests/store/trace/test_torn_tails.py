"""A file that ends in half a line, wherever it was cut: nothing is glued to it, nothing of it is lost."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kit.session_trees import FOLDER, HEADER, assistant, ids, message_line, simulated_seams, simulated_tree, user
from strataflow.runtime.simulation import SimulatedDisk
from strataflow.runtime.simulation.disk import ShortWrite
from strataflow.runtime.simulation.inodes import FailedSync
from strataflow.store import StoreError

PATH = f"{FOLDER}/s.jsonl"
TORN = f"{PATH}.torn"
WHOLE = f"{HEADER}\n{message_line('aaaa0001', None, 'eins')}\n".encode()
LAST = (message_line("aaaa0002", "aaaa0001", "zwölf 世界") + "\n").encode()


def planted(data: bytes) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.plant(PATH, "file", data)
    return disk


@pytest.mark.parametrize("cut", range(len(LAST)))
def test_a_last_line_cut_anywhere_is_set_aside_before_the_first_append(cut: int) -> None:
    disk = planted(WHOLE + LAST[:cut])
    told: list[tuple[str, dict[str, Any]]] = []
    tree = simulated_tree(simulated_seams(disk), tell=lambda *event: told.append(event))
    is_whole = cut == len(LAST) - 1  # but for its line break
    assert ids(tree.get_entries()) == ["aaaa0001", "aaaa0002"][: 1 + is_whole]
    assert disk.contents()[PATH] == WHOLE + LAST[:cut]  # opening changes nothing
    added = tree.append_message(user("next"))
    again = simulated_tree(simulated_seams(disk))
    assert ids(again.get_branch()) == [*ids(tree.get_entries())[:-1], added]
    if cut and not is_whole:
        assert disk.contents()[TORN] == LAST[:cut] + b"\n"
        assert told == [("torn_tail", {"path": PATH, "bytes": cut, "aside": TORN})]
    else:
        assert TORN not in disk.contents()


@pytest.mark.parametrize("tail", [b"\x00" * 700, b"null", b"5", b"{}", b'{"type":"message"', b"[1", b"\xf0\x9f\x98"])
def test_a_tail_that_is_no_entry_is_set_aside_whatever_it_is(tail: bytes) -> None:
    disk = planted(WHOLE + tail)
    simulated_tree(simulated_seams(disk)).append_message(user("next"))
    assert disk.contents()[TORN] == tail + b"\n"
    assert disk.contents()[PATH].startswith(WHOLE + b'{"type":"message"')


@pytest.mark.parametrize("middle", [b"\n", b"   \n", b"{bad\n", b"\x00\x00\n", b'{"id":"x"}\n'])
def test_a_bad_line_in_the_middle_stays_where_it_is(middle: bytes) -> None:
    disk = planted(WHOLE + middle + LAST)
    tree = simulated_tree(simulated_seams(disk))
    tree.append_message(user("next"))
    assert ids(tree.get_branch())[:2] == ["aaaa0001", "aaaa0002"]
    assert disk.contents()[PATH].startswith(WHOLE + middle + LAST)
    assert TORN not in disk.contents()


def test_a_second_tail_is_set_aside_behind_the_first() -> None:
    disk = planted(WHOLE + b"{one")
    tree = simulated_tree(simulated_seams(disk))
    tree.append_message(user("a"))
    disk.append(PATH, b"{two")
    tree.append_message(user("b"))
    assert disk.contents()[TORN] == b"{one\n{two\n"
    assert len(simulated_tree(simulated_seams(disk)).get_branch()) == 3


@pytest.mark.parametrize("taken", range(0, 180, 7))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_refused_append_leaves_the_file_as_it_was_and_can_be_tried_again(taken: int, code: int) -> None:
    disk = planted(WHOLE)
    tree = simulated_tree(simulated_seams(disk))

    def full(operation: str, path: str) -> None:
        if operation == "append" and path == PATH and disk.operations > armed:
            raise ShortWrite(code, taken)

    armed = disk.operations + 3  # not the lock's own, which adds nothing
    disk.before_operation = full
    leaf = tree.get_leaf_id()
    with pytest.raises(StoreError) as refused:
        tree.append_message(user("a"))
    assert (refused.value.code, tree.get_leaf_id()) == ("E_DISK", leaf)
    assert disk.contents()[PATH] == WHOLE
    disk.before_operation = None
    added = tree.append_message(user("a"))
    assert ids(simulated_tree(simulated_seams(disk)).get_branch()) == ["aaaa0001", added]


@pytest.mark.parametrize("leaves", ["stays", "reverts", "zeros"])
def test_an_entry_whose_sync_failed_is_taken_back_so_that_the_next_is_safe(leaves: FailedSync) -> None:
    disk = planted(WHOLE)
    disk.failed_sync = leaves
    tree = simulated_tree(simulated_seams(disk))
    disk.fail_operation(disk.operations + 8, errno.EIO)  # the sync of the first append
    refusals, added = 0, []
    for number in range(3):
        try:
            added.append(tree.append_message(user(f"{number}" * 600)))
        except StoreError:
            refusals += 1
    assert (refusals, len(added)) == (1, 2)
    for seed in range(20):
        found = simulated_tree(simulated_seams(disk.crash("torn", seed)))
        assert ids(found.get_branch()) == ["aaaa0001", *added]


def test_after_a_write_of_unknown_fate_nothing_is_written_until_the_file_is_opened_anew() -> None:
    disk = planted(WHOLE)
    tree = simulated_tree(simulated_seams(disk))

    def fail(operation: str, _path: str) -> None:
        if operation in ("sync_file", "cut"):
            raise OSError(errno.EIO, "Input/output error")

    disk.before_operation = fail
    with pytest.raises(StoreError) as refused:
        tree.append_message(user("a"))
    assert refused.value.code == "E_DISK"
    disk.before_operation = None
    with pytest.raises(StoreError, match="open the session again") as refused:
        tree.append_message(user("b"))
    assert refused.value.code == "E_BROKEN"
    simulated_tree(simulated_seams(disk)).append_message(user("b"))


def test_a_compaction_that_cannot_be_written_leaves_nothing() -> None:
    disk = planted(WHOLE)
    tree = simulated_tree(simulated_seams(disk))
    disk.capacity_bytes = len(WHOLE) + 50
    with pytest.raises(StoreError):
        tree.append_compaction("S" * 200, "aaaa0001", 1)
    assert disk.contents()[PATH] == WHOLE
    assert ids(tree.build_context_entries()) == ["aaaa0001"]


def test_a_first_file_that_cannot_be_written_is_not_there_and_can_be_tried_again() -> None:
    disk = SimulatedDisk()
    disk.plant(FOLDER)
    tree = simulated_tree(simulated_seams(disk))
    tree.append_message(user("a"))
    disk.capacity_bytes = 100
    with pytest.raises(StoreError):
        tree.append_message(assistant("b"))
    assert disk.contents() == {}
    assert len(tree.get_entries()) == 1
    disk.capacity_bytes = None
    tree.append_message(assistant("b"))
    assert list(disk.contents()) == [PATH]
    assert len(simulated_tree(simulated_seams(disk)).get_branch()) == 2
