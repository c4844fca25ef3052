"""Several trees on one file: idle ones follow the end, a run keeps its own branch, and a lock keeps lines apart."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kit.session_trees import FOLDER, assistant, ids, simulated_seams, simulated_tree, user
from strataflow.runtime.simulation import SimulatedDisk, SimulatedLocks
from strataflow.store import StoreError
from strataflow.store.trace import TraceSeams, TraceTree

PATH = f"{FOLDER}/s.jsonl"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def worlds(disk: SimulatedDisk) -> tuple[TraceSeams, TraceSeams]:
    locks = SimulatedLocks(disk)
    return simulated_seams(disk, "one", locks), simulated_seams(disk, "two", locks)


@pytest.fixture
def told() -> list[tuple[str, dict[str, Any]]]:
    return []


@pytest.fixture
def pair(worlds: tuple[TraceSeams, TraceSeams], told: list[tuple[str, dict[str, Any]]]) -> tuple[TraceTree, TraceTree]:
    one = simulated_tree(worlds[0], tell=lambda kind, data: told.append((kind, data)))
    one.append_message(assistant("begin"))
    return one, simulated_tree(worlds[1])


def test_idle_trees_go_on_behind_each_other(pair: tuple[TraceTree, TraceTree], told: list[Any]) -> None:
    one, two = pair
    for number in range(4):
        (one, two)[number % 2].append_message(user(str(number)))
    assert one.refresh() == 1
    assert two.refresh() == 0
    assert ids(one.get_branch()) == ids(two.get_branch()) == ids(one.get_entries())
    assert [kind for kind, _ in told] == ["foreign_entries"] * 2
    assert told[0][1] == {
        "path": PATH,
        "count": 1,
        "first": two.get_entries()[2]["id"],
        "last": two.get_entries()[2]["id"],
        "is_branch": False,
    }


def test_a_run_keeps_its_own_branch_and_is_told_of_the_other(
    pair: tuple[TraceTree, TraceTree], told: list[Any]
) -> None:
    one, two = pair
    one.begin_run()
    first = one.append_message(user("run"))
    other = two.append_message(user("other"))
    second = one.append_message(assistant("run"))
    assert ids(one.get_branch())[1:] == [first, second]
    assert (told[0][0], told[0][1]["is_branch"]) == ("foreign_entries", True)
    assert ids(one.get_children(first)) == [other, second]
    one.end_run()
    third = two.append_message(user("last"))  # behind the end of the file, which is the run's branch
    assert ids(two.get_branch())[1:] == [first, second, third]
    assert one.append_message(user("x")) == one.get_leaf_id()
    assert ids(one.get_branch())[1:4] == [first, second, third]


def test_two_runs_at_once_are_two_branches_of_one_entry(pair: tuple[TraceTree, TraceTree]) -> None:
    one, two = pair
    one.begin_run()
    two.begin_run()
    found: dict[TraceTree, list[str]] = {one: [], two: []}
    for number in range(6):
        tree = (one, two)[number % 2]
        found[tree].append(tree.append_message(user(str(number))))
    for tree, made in found.items():
        assert ids(tree.get_branch())[1:] == made
        tree.refresh()
    assert len(one.get_children(one.get_entries()[0]["id"])) == 2
    assert ids(one.get_entries()) == ids(two.get_entries())


def test_a_tree_that_was_sent_elsewhere_stays_there(pair: tuple[TraceTree, TraceTree]) -> None:
    one, two = pair
    root = one.get_entries()[0]["id"]
    one.append_message(user("a"))
    one.branch(root)
    two.append_message(user("b"))
    branched = one.append_message(user("c"))
    assert ids(one.get_branch()) == [root, branched]
    one.reset_leaf()
    two.append_message(user("d"))
    assert one.append_message(user("root")) in ids(one.get_children(None))
    summary = one.branch_with_summary(branched, "s")
    assert ids(one.get_branch())[-2:] == [branched, summary]


def test_a_dying_writer_that_writes_last_leaves_the_branch_whole(
    pair: tuple[TraceTree, TraceTree], worlds: tuple[TraceSeams, TraceSeams]
) -> None:
    one, two = pair
    said = [one.append_message(user(str(number))) for number in range(3)]
    two.append_label_change(said[0], "last words")
    assert ids(simulated_tree(worlds[0]).get_branch())[1:4] == said


def test_ids_that_another_process_has_drawn_are_not_drawn_again(disk: SimulatedDisk) -> None:
    locks = SimulatedLocks(disk)
    one = simulated_tree(simulated_seams(disk, "same", locks))
    one.append_message(assistant("begin"))
    two = simulated_tree(simulated_seams(disk, "same", locks))  # draws what the first has drawn
    for _ in range(5):
        two.append_custom_entry("two")
        one.append_custom_entry("one")
    two.refresh()
    assert len(set(ids(two.get_entries()))) == 11


def test_an_append_waits_for_whoever_is_appending(worlds: tuple[TraceSeams, TraceSeams], disk: SimulatedDisk) -> None:
    one, two = simulated_tree(worlds[0]), worlds[1]
    one.append_message(assistant("begin"))
    lock = two.locks.open(PATH)
    assert lock.try_acquire()
    waiting = threading.Thread(target=one.append_message, args=(user("late"),))
    waiting.start()
    locks = worlds[0].locks._locks  # type: ignore[attr-defined]
    locks.wait_for_waiters(PATH, 1)
    before = disk.contents()[PATH]
    assert before.count(b"\n") == 2
    lock.close()
    waiting.join()
    assert disk.contents()[PATH].count(b"\n") == 3


@pytest.mark.parametrize("what", ["gone", "replaced", "shorter"])
def test_a_file_that_is_not_the_one_that_was_opened_is_not_written_to(
    pair: tuple[TraceTree, TraceTree], disk: SimulatedDisk, what: str
) -> None:
    one, _ = pair
    kept = one.append_message(user("a"))
    if what == "gone":
        disk.unlink(PATH)
    elif what == "replaced":
        disk.write_new(PATH + ".x", disk.contents()[PATH] + b'{"type":"x","id":"y"}\n')
        disk.rename(PATH + ".x", PATH)
    else:
        disk.cut(PATH, 10)
    before = disk.contents().get(PATH)
    for call in (one.refresh, lambda: one.append_message(user("b"))):
        with pytest.raises(StoreError, match="open the session again") as refused:
            call()
        assert refused.value.code == "E_CHANGED"
    assert disk.contents().get(PATH) == before
    assert one.get_leaf_id() == kept


def test_a_file_that_was_changed_in_place_is_not_read_as_what_it_was(
    pair: tuple[TraceTree, TraceTree], disk: SimulatedDisk
) -> None:
    one, _ = pair
    data = disk.contents()[PATH]
    disk.cut(PATH, 0)
    disk.append(PATH, b"x" * (len(data) + 100))
    with pytest.raises(StoreError, match="changed in place"):
        one.get_entries()
    disk.unlink(PATH)
    with pytest.raises(StoreError, match="changed in place"):
        one.get_branch()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_compaction_never_hides_the_branch_on_which_another_process_went_on(
    pair: tuple[TraceTree, TraceTree], elsewhere: bool
) -> None:
    one, two = pair
    begin = one.get_branch_ids()[0]
    kept = one.append_message(user("kept"))
    two.refresh()
    if elsewhere:
        two.branch(begin)
    others = two.append_message(user("others"))
    summary = one.append_compaction("begin", kept, 1)
    after = [message.get("content", message.get("summary")) for message in one.build_session_context().messages]
    assert after == (["begin", "kept"] if elsewhere else ["begin", "kept", "others"])
    assert one.get_branch_ids() == [begin, kept, *([] if elsewhere else [others]), summary]
    there = two.build_session_context(others).messages
    assert there[-1]["content"] == "others"
    assert len(there) == (2 if elsewhere else 3)
