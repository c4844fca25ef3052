"""What every ``Journal`` must do, on SQLite or simulated. A test class inherits the checks and gives a ``world``."""

from __future__ import annotations

from typing import Any, Protocol

import attrs
import pytest

from kit.holds import holds
from strataflow.store import (
    Base,
    Boundary,
    CheckpointList,
    Disk,
    Durability,
    Journal,
    Layout,
    Lineage,
    NewRow,
    Participant,
    PiLockRecord,
    ProcessIdentity,
    RunRecord,
    ScopePart,
    SessionAddress,
    StoreError,
)

MAIN = SessionAddress("/project", "main", "main")
OTHER = SessionAddress("/elsewhere", "ü", "key")
CWD, SESSION = MAIN.scope("cwd"), MAIN.scope("session")
NEVER_IN_FILES = {"checkpoint.json": "missing", "patches.jsonl": "missing", "meta.json": "missing"}


class JournalWorld(Protocol):
    """A store folder on which journals can be opened, several at a time."""

    disk: Disk
    layout: Layout

    def open(self, level: Durability = "power") -> Journal: ...


def row(number: int = 1, *scopes: str, address: SessionAddress | None = MAIN, **more: Any) -> NewRow:
    """A transition at position ``number`` that changes some scopes of a session."""
    parts = {name: ScopePart({"working": {"n": number}}, number, 0) for name in scopes or ("global",)}
    boundary = Boundary(f"t{number}", None, number)
    filled = {"kind": "transition", "boundary": boundary, "parts": parts, "transition_id": boundary.id} | more
    return NewRow(writer="w", time_ms=number, level="power", address=address, position=number, **filled)


def asked(number: int, request_id: str, *scopes: str, **more: Any) -> NewRow:
    """A row of a call with a request id, and the receipt it got."""
    return row(number, *scopes, request_id=request_id, more={"receipt": {"changed": True, "seq": number}}, **more)


def fill(journal: Journal, *rows: NewRow) -> None:
    """Append rows one by one."""
    for added in rows:
        assert journal.append([added], head=journal.view(0).head) == "appended"


def finished(through: int, **bases: int) -> CheckpointList:
    """A list without moves that says up to which row each scope's files go."""
    names = {"cwd": CWD, "session": SESSION, "global_": ""}
    after = {names[name]: Base({"f": f"sha256:{name}"}, done, 0) for name, done in bases.items()}
    return CheckpointList(through, dict.fromkeys(after, NEVER_IN_FILES), after, ())


class JournalConformance:
    @holds("J1")
    def test_an_empty_journal_takes_its_first_row_on_head_zero(self, world: JournalWorld) -> None:
        journal = world.open()
        assert journal.view(None).head == 0
        assert journal.append([row()], head=0) == "appended"  # J1: max() of nothing is no number
        assert journal.view(None).head == 1
        journal.close()

    @holds("J1")
    def test_rows_staged_on_another_head_are_not_appended(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, row(1))
        for head in (0, 2):
            assert journal.append([row(2), row(3)], head=head) == "moved"
        assert [found.seq for found in journal.rows_since(0, 9)] == [1]
        journal.close()

    @holds("J2")
    def test_a_batch_is_appended_whole_and_in_its_order(self, world: JournalWorld) -> None:
        journal = world.open()
        assert journal.append([row(n) for n in range(1, 41)], head=0) == "appended"
        assert [found.content.position for found in journal.rows_since(0, 99)] == list(range(1, 41))
        assert journal.append([row(41)], head=40) == "appended"
        journal.close()

    @holds("J2")
    def test_rows_come_back_as_they_were_given(self, world: JournalWorld) -> None:
        journal = world.open()
        base, lineage = Boundary("b", None, 0), Lineage((Boundary("o", None, 3), Boundary("p", "o", 4)), 4)
        given = [
            row(1, "global", "cwd", "session", run=RunRecord("active", 7, True, "ask"), lineage=lineage),
            row(2, parts={"cwd": ScopePart(None, 3, 2, base, {"a.md": {"sourceHash": "x"}, "b": None})}),
            row(3, address=OTHER, request_id="r", more={"unknown": [1, {"é": "\0"}]}),
            row(4, address=None, kind="superseded", parts={}, transition_id=None, more={"superseded": CWD}),
            row(5, parts={}, boundary=None, transition_id=None, kind="lifecycle", run=RunRecord("passive")),
            attrs.evolve(row(6), level="process", time_ms=-5, writer=""),
        ]
        fill(journal, *given)
        again = world.open()
        for opened in (journal, again):
            assert [found.content for found in opened.rows_since(0, 99)] == given
        assert journal.view(3).rows == tuple(again.rows_since(3, 99))
        again.close()
        journal.close()

    def test_journals_of_one_store_see_each_other_at_once(self, world: JournalWorld) -> None:
        mine, theirs = world.open(), world.open("process")
        fill(mine, row(1))
        assert theirs.append([row(2)], head=0) == "moved"
        assert theirs.append([row(2)], head=1) == "appended"
        assert [found.seq for found in mine.rows_since(0, 9)] == [1, 2]
        assert theirs.view(None).position == 2
        mine.close()
        fill(theirs, row(3))
        theirs.close()

    def test_a_journal_that_is_closed_refuses_to_be_used(self, world: JournalWorld) -> None:
        journal, other = world.open(), world.open()
        journal.close()
        journal.close()
        for use in (lambda: journal.view(None), lambda: journal.append([row(1)], head=0), journal.sync):
            with pytest.raises(StoreError) as caught:
                use()
            assert caught.value.code == "E_DISK"
        fill(other, row(1))
        other.close()

    def test_rows_since_gives_at_most_the_limit_oldest_first(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, *[row(n) for n in range(1, 8)])
        assert [found.seq for found in journal.rows_since(2, 3)] == [3, 4, 5]
        assert journal.rows_since(7, 3) == []
        journal.close()

    def test_what_was_appended_is_there_after_closing_all(self, world: JournalWorld) -> None:
        for number in range(1, 4):
            journal = world.open("process")
            fill(journal, row(number))
            journal.close()
        journal = world.open()
        assert [found.content.position for found in journal.rows_since(0, 9)] == [1, 2, 3]
        journal.close()

    def test_a_view_without_a_number_gives_the_rows_beyond_the_files(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, *[row(n) for n in range(1, 6)])
        assert len(journal.view(None).rows) == 5
        done = finished(3, global_=3)
        journal.prepare(done)
        assert journal.view(None).checkpointed_through == 0
        journal.finish(done)
        view = journal.view(None, ["", CWD])
        assert ([found.seq for found in view.rows], view.checkpointed_through) == ([4, 5], 3)
        assert view.bases == {"": done.after[""]}
        journal.close()

    @holds("J5")
    def test_a_prepared_list_is_kept_for_strangers_until_it_is_finished(self, world: JournalWorld) -> None:
        mine, theirs = world.open(), world.open()
        fill(mine, row(1))
        lineage = Lineage((Boundary("o", None, 1),), 1)
        after = {"": Base({"f": "x"}, 1, 2, None), SESSION: Base({"g": "y"}, 1, 0, lineage, "w", 1)}
        done = CheckpointList(1, {"": {"f": "missing"}, SESSION: {"g": "z"}}, after, ())
        mine.prepare(done)
        mine.close()
        assert theirs.view(None).prepared == done
        theirs.finish(done)
        assert theirs.view(None, after).prepared is None
        assert theirs.view(None, after).bases == after
        theirs.close()

    def test_the_checkpointed_row_never_goes_back(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, *[row(n) for n in range(1, 5)])
        for through in (3, 0, 2):
            journal.prepare(finished(through))
            journal.finish(finished(through))
            assert journal.view(None).checkpointed_through == 3
        journal.close()

    def test_bases_are_noted_only_where_nothing_is_known(self, world: JournalWorld) -> None:
        journal = world.open()
        first, second = Base({"f": "1"}, 0, 0), Base({"f": "2"}, 0, 0)
        journal.note_bases({"": first})
        journal.note_bases({"": second, CWD: second})
        assert journal.view(None, ["", CWD]).bases == {"": first, CWD: second}
        journal.close()

    def test_the_scopes_are_told_whose_files_hold_more_than_a_row(self, world: JournalWorld) -> None:
        journal = world.open()
        journal.note_bases({"": Base({"f": "1"}, 5, 0), CWD: Base({"f": "2"}, 7, 0), SESSION: Base({"f": "3"}, 0, 0)})
        assert journal.changed_since(0) == {"": 5, CWD: 7}
        assert journal.changed_since(5) == {CWD: 7}
        assert journal.changed_since(7) == {}
        journal.close()

    @holds("J1")
    def test_pruning_never_takes_the_newest_row_nor_what_is_not_in_files(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, *[row(n) for n in range(1, 6)])
        assert journal.prune(0) == 0
        journal.prepare(finished(5))
        journal.finish(finished(5))
        assert journal.prune(0) == 4  # J1: all but the newest, which holds the number
        view = journal.view(0)
        assert ([found.seq for found in view.rows], view.pruned_through, view.head) == ([5], 4, 5)
        fill(journal, row(6))
        assert journal.rows_since(0, 9)[-1].seq == 6
        assert journal.prune(0) == 1
        view = journal.view(0)
        assert ([found.seq for found in view.rows], view.pruned_through) == ([6], 5)
        assert journal.prune(0) == 0
        journal.close()

    @holds("J1")
    def test_pruning_keeps_the_newest_rows_of_each_scope(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, row(1, "cwd"), *[row(n, "global") for n in range(2, 6)], row(6, "session"))
        journal.prepare(finished(6))
        journal.finish(finished(6))
        assert journal.prune(2) == 2
        assert [found.seq for found in journal.rows_since(0, 9)] == [1, 4, 5, 6]
        assert journal.view(0).pruned_through == 3
        journal.close()

    @holds("Ours-12")
    @pytest.mark.parametrize("request_id", ["r", "a b'\"%_;--", "ü\U0001f600", "\0", "r\0s", "x" * 200, "NULL"])
    def test_an_accepted_request_is_found_by_exactly_its_id(self, world: JournalWorld, request_id: str) -> None:
        mine, theirs = world.open(), world.open("process")
        assert mine.outcome_of(request_id) is None
        mine.append([row(1), asked(2, request_id), row(3)], head=0)
        for journal in (mine, theirs):
            assert journal.outcome_of(request_id) == {"changed": True, "seq": 2}
            for other in ("", "R", request_id + " ", request_id + "\0", request_id.upper() + "'"):
                assert journal.outcome_of(other) is None
        theirs.close()
        mine.close()
        again = world.open()
        assert again.outcome_of(request_id) == {"changed": True, "seq": 2}
        again.close()

    @holds("Ours-12")
    def test_pruning_keeps_the_receipts_of_the_newest_requests(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, *[asked(n, f"r{n}") if n % 2 else row(n) for n in range(1, 12)])
        journal.prepare(finished(11))
        journal.finish(finished(11))
        assert journal.prune(0, 3) == 10  # r1 to r9 leave with their rows, r11 stays in the newest
        again = world.open()
        for opened in (journal, again):
            found = {n: opened.outcome_of(f"r{n}") for n in range(1, 12)}
            told = {n: receipt for n, receipt in found.items() if receipt is not None}
            assert told == {n: {"changed": True, "seq": n} for n in (5, 7, 9, 11)}
        again.close()
        fill(journal, asked(12, "r12"), row(13))
        journal.prepare(finished(13))
        journal.finish(finished(13))
        assert journal.prune(0, 3) == 2
        assert [n for n in range(1, 14) if journal.outcome_of(f"r{n}")] == [9, 11, 12]
        assert journal.prune(0, 0) == 0
        assert journal.quick_check() == []
        journal.close()

    @holds("Ours-12")
    def test_pruning_forgets_no_request_while_there_are_fewer_than_the_limit(self, world: JournalWorld) -> None:
        journal = world.open()
        ids = [f"request {n}" for n in range(300)]
        for n, name in enumerate(ids, 1):
            journal.append([asked(n, name, ("global", "cwd", "session")[n % 3])], head=n - 1)
            if n % 50 == 0:
                journal.prepare(finished(n))
                journal.finish(finished(n))
                journal.prune(n % 7)
        assert journal.view(0).pruned_through > 250
        assert [journal.outcome_of(name) for name in ids] == [{"changed": True, "seq": n} for n in range(1, 301)]
        journal.close()

    @holds("Ours-12")
    def test_a_request_without_a_readable_receipt_counts_as_accepted_all_the_same(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, row(1, request_id="r"), row(2))
        assert journal.outcome_of("r") == {}
        journal.prepare(finished(2))
        journal.finish(finished(2))
        assert journal.prune(0) == 1
        assert journal.outcome_of("r") == {}
        journal.close()

    @holds("Ours-12", "J6")
    def test_superseding_a_scope_leaves_its_requests_accepted(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, asked(1, "r", "cwd"))
        note = row(2, address=None, kind="superseded", parts={}, transition_id=None, more={"superseded": CWD})
        assert journal.supersede(CWD, Base({"f": "2"}, 0, 0), note, head=1) is True
        assert journal.outcome_of("r") == {"changed": True, "seq": 1}
        journal.close()

    @holds("J6")
    def test_superseding_marks_the_parts_of_one_scope_only(self, world: JournalWorld) -> None:
        journal = world.open()
        fill(journal, row(1, "cwd"), row(2, "global", "cwd", "session"), row(3, "cwd", address=OTHER), row(4, "cwd"))
        journal.note_bases({CWD: Base({"f": "1"}, 1, 0)})
        note = row(5, address=None, kind="superseded", parts={}, transition_id=None, more={"superseded": CWD})
        base = Base({"f": "2"}, 0, 0)
        assert journal.supersede(CWD, base, note, head=3) is False
        assert journal.rows_of(CWD, 1) == [found for found in journal.rows_since(0, 9) if found.seq in (2, 4)]
        assert journal.supersede(CWD, base, note, head=4) is True
        marks = {found.seq: set(found.superseded) for found in journal.rows_since(0, 9)}
        assert marks == {1: set(), 2: {"cwd"}, 3: set(), 4: {"cwd"}, 5: set()}
        assert journal.rows_since(4, 9)[0].content == note
        assert journal.view(None, [CWD]).bases[CWD] == attrs.evolve(base, through=5)
        assert journal.rows_of(CWD, 1) == []
        assert [found.seq for found in journal.rows_of(SESSION, 0)] == [2]
        journal.close()

    def test_rows_of_a_scope_are_not_those_of_a_longer_name(self, world: JournalWorld) -> None:
        journal = world.open()
        longer = SessionAddress("/project", "main2", "main2")
        fill(journal, row(1, "session"), row(2, "session", address=longer), row(3, "cwd", address=longer))
        assert [found.seq for found in journal.rows_of(SESSION, 0)] == [1]
        assert [found.seq for found in journal.rows_of(CWD, 0)] == [3]
        journal.close()

    @holds("J4")
    def test_a_sync_names_the_newest_row_it_made_certain(self, world: JournalWorld) -> None:
        journal = world.open("process")
        fill(journal, row(1), row(2))
        assert journal.view(0).synced_through == 0
        assert journal.sync() == 2
        fill(journal, row(3))
        assert journal.view(0).synced_through == 2
        journal.close()

    @holds("J8")
    def test_members_and_facts_come_back_as_they_were_given(self, world: JournalWorld) -> None:
        journal = world.open()
        members = journal.members
        assert (members.participants(), members.share_with_pi(), members.pi_locks()) == ([], None, [])
        process = ProcessIdentity(7, 2**40, "boot")
        for shared in (True, False, None):
            members.set_participants([Participant("a", process), Participant("b", process)], shared)
            assert members.share_with_pi() is shared
        members.set_pi_locks([PiLockRecord(1, 2**50, process)])
        members.set_facts(device=5, inode=None)
        other = world.open()
        assert other.members.participants() == [Participant("a", process), Participant("b", process)]
        assert other.members.pi_locks() == [PiLockRecord(1, 2**50, process)]
        assert (other.members.fact("device"), other.members.fact("inode"), other.members.fact("none")) == (
            5,
            None,
            None,
        )
        members.set_participants([], None)
        assert other.members.participants() == []
        other.close()
        journal.close()

    def test_the_log_tells_the_newest_transitions_oldest_first(self, world: JournalWorld) -> None:
        journal = world.open()
        lifecycle = row(2, parts={}, boundary=None, transition_id=None, kind="lifecycle", run=RunRecord("passive"))
        fill(journal, row(1), lifecycle, row(3), row(4))
        assert [found.seq for found in journal.log(2)] == [3, 4]
        assert [found.seq for found in journal.log(9)] == [1, 3, 4]
        journal.close()

    def test_the_log_of_scopes_tells_their_transitions_the_newest_first(self, world: JournalWorld) -> None:
        journal = world.open()
        lifecycle = row(2, parts={}, boundary=None, transition_id=None, kind="lifecycle", run=RunRecord("passive"))
        fill(journal, row(1, "global"), lifecycle, row(3, "cwd"), row(4, "global", "cwd"), row(5, "session"))
        cwd, session = MAIN.scope("cwd"), MAIN.scope("session")
        assert [found.seq for found in journal.log_of([""], 9)] == [4, 1]
        assert [found.seq for found in journal.log_of([cwd], 9)] == [4, 3]
        assert [found.seq for found in journal.log_of(["", cwd], 9)] == [4, 3, 1]
        assert [found.seq for found in journal.log_of(["", cwd], 2)] == [4, 3]
        assert [found.seq for found in journal.log_of(["", cwd], 9, 4)] == [3, 1]
        assert 5 in [found.seq for found in journal.log_of([session], 9)]
        assert journal.log_of(["--nobody--"], 9) == []
        journal.close()

    @holds("J9")
    @pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "turn.lock"])
    def test_a_file_that_was_removed_or_replaced_is_noticed(self, world: JournalWorld, name: str) -> None:
        journal = world.open()
        fill(journal, row(1))
        assert journal.is_on_its_ground()
        path = world.layout.private(name)
        world.disk.unlink(path)
        assert not journal.is_on_its_ground()  # J9
        world.disk.write_new(path, b"")
        assert not journal.is_on_its_ground()
        journal.close()

    def test_sizes_grow_with_what_is_appended(self, world: JournalWorld) -> None:
        journal = world.open()
        before = (journal.size_bytes(), journal.appended_bytes)
        fill(journal, row(1, more={"x": "y" * 5000}))
        assert journal.size_bytes() > before[0]
        assert 5000 < journal.appended_bytes - before[1] < 7000
        assert journal.quick_check() == []
        journal.close()
