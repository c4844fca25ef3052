"""The power fails, or the process is killed, before every single operation on a session file.

Goal: the file opens; every acknowledged entry is there, once, with its parent; beside them only what was under way.

Method: a story is run again and again on a simulated disk, each time stopped one operation later, until a run completes
untouched. What was not synced is lost, kept or torn. Then the session is opened on what was found, held against the
list of what was acknowledged, written to, and opened once more.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

import attrs
import pytest

from kit.session_trees import CWD, FOLDER, HEADER, assistant, ids, message_line, simulated_seams, simulated_tree, user
from strataflow.runtime.simulation import CrashMode, PowerCut, SimulatedDisk
from strataflow.store import StoreError
from strataflow.store.trace import TraceTree, TreeOptions, check_session, fork_tree, mend_session

PATH = f"{FOLDER}/s.jsonl"
FATES: list[tuple[CrashMode, int]] = [("lose", 0), ("keep", 0), *[("torn", seed) for seed in range(6)]]


@attrs.define
class Notes:
    """What was told: by file, the ids that were acknowledged and those that were begun."""

    acknowledged: dict[str, list[str]] = attrs.field(factory=dict)
    begun: dict[str, list[str]] = attrs.field(factory=dict)

    def append(self, tree: TraceTree, entry_id: str, role: str = "user") -> None:
        path = str(tree.get_session_file())
        self.begun.setdefault(path, []).append(entry_id)
        text = f"{entry_id} " * 60  # over a block of the disk
        tree.append_message(user(text) if role == "user" else assistant(text), entry_id=entry_id)
        self.saved(path, *self.begun[path])

    def saved(self, path: str, *entries: str) -> None:
        known = self.acknowledged.setdefault(path, [])
        known += [each for each in entries if each not in known]


Story = Callable[[SimulatedDisk, Notes], None]


def begin_and_append(disk: SimulatedDisk, notes: Notes) -> None:
    tree = simulated_tree(simulated_seams(disk))
    notes.begun[PATH] = [tree.append_message(user("first"), entry_id="u1")]
    notes.append(tree, "a1", "assistant")
    for number in range(2, 5):
        notes.append(tree, f"u{number}")
    notes.begun[PATH].append("compaction")
    tree.append_compaction("S" * 2000, "u3", 1, entry_id="compaction")
    notes.saved(PATH, "compaction")
    tree.branch("u2")
    notes.append(tree, "b1")


def append_behind_a_torn_tail(disk: SimulatedDisk, notes: Notes) -> None:
    disk.plant(PATH, "file", f"{HEADER}\n{message_line('old', None)}\n{message_line('half', 'old')[:40]}".encode())
    notes.saved(PATH, "old")
    notes.begun[PATH] = ["old"]
    tree = simulated_tree(simulated_seams(disk))
    notes.append(tree, "n1")
    notes.append(tree, "n2")


def fork(disk: SimulatedDisk, notes: Notes) -> None:
    lines = [HEADER, *(message_line(f"e{number}", None) for number in range(20))]
    disk.plant(PATH, "file", "".join(f"{line}\n" for line in lines).encode())
    notes.begun[PATH] = [f"e{number}" for number in range(20)]
    notes.saved(PATH, *notes.begun[PATH])
    for number in range(2):
        seams = simulated_seams(disk, f"fork {number}")
        tree = fork_tree(TraceTree, seams, PATH, CWD, f"{FOLDER}/forks", TreeOptions(), session_id=f"fork{number}")
        path = str(tree.get_session_file())
        notes.begun[path] = list(notes.begun[PATH])
        notes.saved(path, *notes.begun[PATH])
        notes.append(tree, "mine")


def branch_off(disk: SimulatedDisk, notes: Notes) -> None:
    tree = simulated_tree(simulated_seams(disk))
    notes.begun[PATH] = []
    for entry_id in ("a", "b", "c"):
        notes.append(tree, entry_id, "assistant")
    path = str(tree.create_branched_session("b", session_id="branched"))
    notes.begun[path] = ["a", "b"]
    notes.saved(path, "a", "b")
    notes.append(tree, "d")


def migrate(disk: SimulatedDisk, notes: Notes) -> None:
    lines = [message_line(f"e{number}", None, role="hookMessage") for number in range(20)]
    text = "\n".join([HEADER.replace('"version":3', '"version":2'), *lines]) + "\n"
    disk.plant(PATH, "file", text.encode(), mode=0o640)
    notes.begun[PATH] = [f"e{number}" for number in range(20)]
    notes.saved(PATH, *notes.begun[PATH])
    notes.append(simulated_tree(simulated_seams(disk)), "new")


def repair(disk: SimulatedDisk, notes: Notes) -> None:
    disk.plant(PATH, "file", f"{HEADER}\n{message_line('a', None)}\n{{bad\n{message_line('b', 'x')}\n".encode())
    target = f"{FOLDER}/repaired.jsonl"
    notes.saved(PATH, "a", "b")
    notes.begun |= {PATH: ["a", "b"], target: ["a", "b"]}
    mend_session(simulated_seams(disk), PATH, target)
    notes.saved(target, "a", "b")


STORIES: list[Story] = [begin_and_append, append_behind_a_torn_tail, fork, branch_off, migrate, repair]


def every_stop(story: Story) -> Iterator[tuple[int, SimulatedDisk, Notes]]:
    """The story stopped before its first operation, before its second, and so on to its end."""
    operation = 0
    while True:
        operation += 1
        disk, notes = SimulatedDisk(operation), Notes()
        disk.plant(FOLDER)
        disk.cut_power_before(operation)
        try:
            story(disk, notes)
        except PowerCut:
            yield operation, disk, notes
        else:
            yield operation, disk, notes
            return


def look(tree: TraceTree, begun: list[str], acknowledged: list[str], where: object) -> None:
    found = ids(tree.get_entries())
    assert len(set(found)) == len(found), where
    assert set(acknowledged) <= set(found) <= set(begun), where
    assert {entry["parentId"] for entry in tree.get_entries()} - {None, "x"} <= set(found), where
    assert tree.get_header()["cwd"] == CWD


def check(disk: SimulatedDisk, notes: Notes, where: object) -> None:
    for path, begun in notes.begun.items():
        acknowledged = notes.acknowledged.get(path, [])
        if path not in disk.contents():
            assert not acknowledged, (where, path)
            continue
        tree = simulated_tree(simulated_seams(disk, "after"), path)
        look(tree, begun, acknowledged, (where, path))
        tree.append_message(assistant("later"), entry_id="later")
        again = simulated_tree(simulated_seams(disk, "again"), path)
        look(again, [*begun, "later"], [*acknowledged, "later"], (where, path))
        assert again.get_leaf_id() == "later"
        codes = {finding.code for finding in check_session(simulated_seams(disk), path)}
        allowed = {"bad-line", "torn-aside"} | ({"orphan"} if b'"parentId":"x"' in disk.contents()[path] else set())
        assert codes <= allowed, (where, path, codes)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_no_acknowledged_entry_is_lost_wherever_the_power_fails(story: Story) -> None:
    stops = 0
    for operation, disk, notes in every_stop(story):
        stops += 1
        for mode, seed in FATES:
            check(disk.crash(mode, seed), notes, (operation, mode, seed))
    assert stops > 10


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_refused_operation_leaves_what_was_acknowledged_and_is_told(story: Story, code: int) -> None:
    operation, told = 0, 0
    while True:
        operation += 1
        disk, notes = SimulatedDisk(operation), Notes()
        disk.plant(FOLDER)
        disk.fail_operation(operation, code)
        try:
            story(disk, notes)
        except StoreError as error:
            told += error.code == "E_DISK"
        if operation > disk.operations:
            break
        check(disk, notes, (operation, code))
    assert told > 8


def test_other_names_are_left_behind_by_a_crash_only_as_files_that_nobody_lists() -> None:
    for _, disk, _notes in every_stop(fork):
        names = disk.crash("keep").contents()
        assert all(name.endswith((".jsonl", ".new")) for name in names)
