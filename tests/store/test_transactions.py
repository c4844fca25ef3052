"""A transaction's log: what it notes, what conflicts and what never does, and who may not write."""

from __future__ import annotations

import contextlib

import pytest

from kit.tiny_stores import TinyStore, conflicts_of
from strataflow.store import (
    CallError,
    ConflictError,
    ReadError,
    SessionAddress,
    StoreError,
    check_patch_arguments,
    moment_of,
)
from strataflow.store import transactions as module


@pytest.fixture
def store() -> TinyStore:
    return TinyStore()


@pytest.fixture
def main(store: TinyStore) -> SessionAddress:
    address = store.open("main")
    store.patch(address, cwd={"working": {"n": 1, "list": [1, 2, 3], "tree": {"a": 1, "b": {"c": 2}}}})
    return address


# -- what conflicts ----------------------------------------------------------------------------------------------------


def test_a_value_that_changed_conflicts_with_both_values(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.n")
    store.patch(main, cwd={"working": {"n": 2}})
    assert conflicts_of(store, main, attempt) == [("cwd.working.n", "value", 1, 2)]


def test_a_conflict_stores_nothing_and_can_be_met_again(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.patch({"global": {"working": {"seen": attempt.read("cwd.working.n").value}}})
    store.patch(main, cwd={"working": {"n": 2}})
    before, rows = store.values(main), store.rows
    for _ in range(2):
        assert conflicts_of(store, main, attempt)
    assert (store.values(main), store.rows) == (before, rows)


def test_a_value_that_was_changed_back_does_not_conflict(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working")
    store.patch(main, cwd={"working": {"n": 2}})
    store.patch(main, cwd={"working": {"n": 1}})
    assert conflicts_of(store, main, attempt) == []


@pytest.mark.parametrize("path", ["cwd.working.later", "cwd.working.list[3]", "cwd.working.n[0]", "session.lazy"])
def test_what_was_absent_and_now_exists_conflicts(store: TinyStore, main: SessionAddress, path: str) -> None:
    attempt = store.begin(main)
    with contextlib.suppress(ReadError):
        assert attempt.read(path).value is None  # an absent plane is null, not an error
    store.patch(main, cwd={"working": {"later": 1, "list": [1, 2, 3, 4], "n": [7]}}, session={"lazy": {"x": 1}})
    ((where, projection, read, now),) = conflicts_of(store, main, attempt)
    assert (where, projection, read) == (path, "value", None)
    assert now is not None


def test_another_way_of_not_being_there_is_a_conflict_too(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    with pytest.raises(ReadError, match="E_MISSING"):
        attempt.read("cwd.working.tree.b.x[0]")
    store.patch(main, cwd={"working": {"tree": {"b": {"x": {"y": 1}}}}})
    assert conflicts_of(store, main, attempt) == [("cwd.working.tree.b.x[0]", "value", None, None)]


def test_what_stays_absent_does_not_conflict_whoever_mentions_it(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    with pytest.raises(ReadError, match="E_MISSING"):
        attempt.read("cwd.working.later")
    store.patch(main, global_={"contract": {"note": "look at $cwd.working.later"}})
    assert conflicts_of(store, main, attempt) == []


def test_a_dangling_hint_is_advice_and_counts_as_nothing_there(store: TinyStore, main: SessionAddress) -> None:
    store.patch(main, global_={"contract": {"note": "look at $cwd.working.later"}})
    attempt = store.begin(main)
    found = attempt.read("cwd.working.later")
    assert (found.value, found.hint[0]["paths"]) == (None, ["global.contract.note"])
    store.patch(main, global_={"contract": {"note": None, "other": "$cwd.working.later"}})
    assert conflicts_of(store, main, attempt) == []
    store.patch(main, cwd={"working": {"later": 1}})
    assert conflicts_of(store, main, attempt) == [("cwd.working.later", "value", None, 1)]


def test_keys_conflict_when_the_key_set_changes_and_not_when_values_do(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.tree", "keys")
    store.patch(main, cwd={"working": {"tree": {"a": 9, "b": {"c": 8}}}})
    assert conflicts_of(store, main, attempt) == []
    store.patch(main, cwd={"working": {"tree": {"d": 1}}})
    ((path, projection, read, now),) = conflicts_of(store, main, attempt)
    assert (path, projection) == ("cwd.working.tree", "keys")
    assert read == {"meta": {"type": "object", "size": 2}, "keys": {"a": "number", "b": "object"}}
    assert now == {"meta": {"type": "object", "size": 3}, "keys": {"a": "number", "b": "object", "d": "number"}}


def test_keys_conflict_when_the_kind_of_a_member_changes(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.tree", "keys")
    store.patch(main, cwd={"working": {"tree": {"a": "one"}}})
    assert len(conflicts_of(store, main, attempt)) == 1


def test_an_element_of_a_list_conflicts_alone(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.list[0]")
    attempt.read("cwd.working.list[1:3]")
    store.patch(main, cwd={"working": {"list": {"[2]": 30}}})
    assert conflicts_of(store, main, attempt) == [("cwd.working.list[1:3]", "value", [2, 3], [2, 30])]


def test_the_effective_view_conflicts_with_whatever_shows_through(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    assert attempt.read("working.n").value == 1
    store.patch(main, global_={"working": {"n": 100}})  # hidden by the directory's
    assert conflicts_of(store, main, attempt) == []
    store.patch(main, session={"working": {"n": 5}})
    assert conflicts_of(store, main, attempt) == [("working.n", "value", 1, 5)]


def test_unrelated_writes_in_the_same_scope_never_conflict(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.tree.a")
    attempt.read("cwd.working.list")
    attempt.read("cwd.working", "keys")
    attempt.patch({"cwd": {"working": {"mine": True}}})
    store.patch(
        main, cwd={"working": {"n": 7, "tree": {"b": {"c": 3}}}, "contract": {"new": 1}}, global_={"lazy": {"x": 1}}
    )
    assert conflicts_of(store, main, attempt) == []
    assert store.read(main, "cwd.working.mine") is True
    assert store.read(main, "cwd.working.n") == 7


def test_every_conflict_of_a_transaction_is_named_once(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    for _ in range(3):
        attempt.read("cwd.working.n")
        attempt.patch({"session": {"working": {"step": len(attempt.log)}}})
    attempt.read("cwd.working.list")
    attempt.read("cwd.working.tree")
    store.patch(main, cwd={"working": {"n": 2, "tree": {"a": 2}}})
    assert [path for path, *_ in conflicts_of(store, main, attempt)] == ["cwd.working.n", "cwd.working.tree"]


def test_the_text_of_a_conflict_names_three_paths_and_counts_the_rest(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    for number in range(5):
        with pytest.raises(ReadError):
            attempt.read(f"cwd.lazy.k{number}")
    store.patch(main, cwd={"lazy": {f"k{number}": 1 for number in range(5)}})
    with pytest.raises(ConflictError, match=r'"cwd.lazy.k0", "cwd.lazy.k1", "cwd.lazy.k2" and 2 more') as caught:
        store.finish(main, attempt)
    assert (caught.value.code, len(caught.value.conflicts)) == ("E_CONFLICT", 5)


# -- the past ----------------------------------------------------------------------------------------------------------


def test_an_offset_conflicts_when_it_means_another_value_now(store: TinyStore, main: SessionAddress) -> None:
    store.patch(main, cwd={"working": {"n": 2}})
    attempt = store.begin(main)
    assert attempt.read("cwd[1].working.n").value == 1
    assert attempt.read("cwd[1].working.list[0]").value == 1
    store.patch(main, global_={"lazy": {"x": 1}})  # shifts what an offset means
    assert conflicts_of(store, main, attempt) == [("cwd[1].working.n", "value", 1, 2)]


def test_a_stored_record_conflicts_when_a_newer_one_takes_its_place(store: TinyStore, main: SessionAddress) -> None:
    store.patch(main, cwd={"working": {"n": 2}})
    attempt = store.begin(main)
    found = attempt.read("cwd.patches[0]")
    assert found.patch == {"working": {"n": 2}}
    store.patch(main, global_={"lazy": {"x": 1}})
    assert conflicts_of(store, main, attempt) == []
    store.patch(main, cwd={"working": {"n": 3}})
    store.patch(main, cwd={"working": {"n": 2}})  # the same record, but not the same transition
    assert [path for path, *_ in conflicts_of(store, main, attempt)] == ["cwd.patches[0]"]


def test_own_patches_are_seen_in_the_present_and_not_in_the_past(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.patch({"cwd": {"working": {"n": 50}}, "session": {"working": {"s": 1}}})
    assert attempt.read("cwd.working.n").value == 50
    assert attempt.read("cwd[0].working.n").value == 50
    assert attempt.read("working.s").value == 1
    assert attempt.read("cwd.patches[0]").patch["working"]["n"] == 1
    with pytest.raises(ReadError, match="E_MISSING"):
        attempt.read("cwd[1].working.n")
    assert store.read(main, "cwd.working.n") == 1


def test_a_snapshot_keeps_its_history_while_the_store_goes_on(store: TinyStore, main: SessionAddress) -> None:
    store.patch(main, cwd={"working": {"n": 2}})
    attempt = store.begin(main)
    for number in range(3, 20):
        store.patch(main, cwd={"working": {"n": number}})
    assert attempt.read("cwd.working.n").value == 2
    assert attempt.read("cwd[1].working.n").value == 1


# -- the log -----------------------------------------------------------------------------------------------------------


def test_a_read_that_is_repeated_is_logged_once_until_a_patch(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    for _ in range(100):
        attempt.read("cwd.working.n")
        attempt.read("cwd.working", "keys")
    assert len(attempt.log) == 2
    attempt.patch({"cwd": {"working": {"n": 2}}})
    attempt.read("cwd.working.n")
    assert len(attempt.log) == 4


def test_a_transaction_has_a_bounded_number_of_steps(
    store: TinyStore, main: SessionAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRANSACTION_STEPS_MAX", 3)
    attempt = store.begin(main)
    for number in range(3):
        attempt.patch({"session": {"lazy": {f"k{number}": 1}}})
    for step in (lambda: attempt.patch({"session": {"lazy": {"more": 1}}}), lambda: attempt.read("cwd.working.n")):
        with pytest.raises(CallError, match="E_SHAPE"):
            step()
    assert store.finish(main, attempt).changed
    assert store.values(main)[2] == {"lazy": {"k0": 1, "k1": 1, "k2": 1}}


def test_a_moment_that_nothing_touched_is_not_looked_at_again(
    store: TinyStore, main: SessionAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SessionAddress("/elsewhere", "main", "main")
    attempt = store.begin(main)
    attempt.read("cwd.working")
    attempt.patch({"session": {"lazy": {"x": 1}}})
    monkeypatch.setattr(module.Attempt, "again", lambda self, moment: pytest.fail("run again"))
    assert store.finish(main, attempt).changed
    assert other  # another directory's memory would be no reason either


def test_a_session_that_began_its_history_meanwhile_is_another_moment(store: TinyStore) -> None:
    address = store.open("fresh")
    attempt = store.begin(address)
    with pytest.raises(ReadError, match="E_HISTORY_ORIGIN"):
        attempt.read("session[1]")
    store.commit(lambda draft: draft.stage_mode(address, "active"))
    store.patch(address, session={"working": {"x": 1}})
    assert conflicts_of(store, address, attempt) == [("session[1]", "value", None, {})]


# -- who only reads, who may not write ---------------------------------------------------------------------------------


def test_a_transaction_that_only_reads_is_judged_too_and_leaves_no_row(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.n")
    rows = store.rows
    receipt = store.finish(main, attempt)
    assert (receipt.changed, receipt.scopes, receipt.text, store.rows) == (False, (), "", rows)
    store.patch(main, cwd={"working": {"n": 2}})
    assert conflicts_of(store, main, attempt)


def test_a_fenced_session_begins_and_ends_no_transaction(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.n")
    stranger = TinyStore(memory=type(store.memory)("stranger"))
    stranger.open("main")
    stranger.memory.head, stranger.memory.position = store.memory.head, store.memory.position
    draft = stranger.draft()
    draft.stage_patch(main, check_patch_arguments({"session": {"working": {"theirs": 1}}}))
    store.memory.follow([row.at(store.memory.head + 1) for row in draft.rows])
    for use in (lambda: store.begin(main), lambda: store.finish(main, attempt)):
        with pytest.raises(StoreError, match="E_CHANGED"):
            use()


def test_a_scope_that_can_not_be_read_fails_its_reads_alone(store: TinyStore, main: SessionAddress) -> None:
    store.patch(main, global_={"working": {"m": 1}})
    store.memory.errors[""] = StoreError("E_CORRUPT", "global is damaged")
    attempt = store.begin(main)
    assert attempt.read("cwd.working.n").value == 1
    for path in ("global.working", "effective.working.m"):  # what was there before is not shown beside the present
        with pytest.raises(StoreError, match="E_CORRUPT"):
            attempt.read(path)
    with pytest.raises(StoreError, match="E_CORRUPT"):
        attempt.patch({"cwd": {"working": {"n": 2}}})
    assert store.finish(main, attempt).changed is False
    del store.memory.errors[""]
    unread = {"global.working", "effective.working.m", "cwd"}
    assert {path for path, *_ in conflicts_of(store, main, attempt)} == unread


def test_a_session_that_is_gone_is_never_taken_for_an_empty_one(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("session.working")
    store.memory.release(main)
    with pytest.raises(StoreError, match="E_CLOSED"):
        store.finish(main, attempt)


def test_files_that_are_not_read_yet_end_a_transaction_as_busy(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working")
    store.memory.stale.add("--project--")
    with pytest.raises(StoreError, match="E_BUSY"):
        store.finish(main, attempt)


# -- request ids, and attempts that were given up ----------------------------------------------------------------------


def test_a_request_id_that_was_accepted_gives_its_receipt_whatever_was_read(
    store: TinyStore, main: SessionAddress
) -> None:
    draft = store.draft()
    first = draft.stage_patch(main, check_patch_arguments({"cwd": {"working": {"n": 2}}}), "r1")
    attempt = store.begin(main)
    attempt.read("cwd.working.n")
    attempt.patch({"cwd": {"working": {"n": 100}}})
    assert module.stage_transaction(draft, main, attempt, "r1") == first
    with pytest.raises(ConflictError):
        module.stage_transaction(draft, main, attempt, "r2")
    assert len(draft.rows) == 1


def test_a_transaction_with_a_request_id_is_remembered_though_it_changes_nothing(
    store: TinyStore, main: SessionAddress
) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.n")
    draft = store.draft()
    receipt = module.stage_transaction(draft, main, attempt, "r1")
    assert [row.request_id for row in draft.rows] == ["r1"]
    assert not receipt.changed


def test_of_a_conflict_that_is_remembered_only_the_paths_are_kept(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    attempt.read("cwd.working.list")
    store.patch(main, cwd={"working": {"list": [0]}})
    draft = store.draft()
    with pytest.raises(ConflictError) as caught:
        module.stage_transaction(draft, main, attempt, "r1")
    assert caught.value.conflicts[0].read == [1, 2, 3]
    kept = draft.requests.find("r1")
    assert isinstance(kept, ConflictError)
    assert kept.data["conflicts"] == [{"path": "cwd.working.list", "projection": "value", "transition": None}]
    assert (kept.conflicts[0].path, kept.conflicts[0].read) == ("cwd.working.list", None)


def test_reads_of_an_attempt_that_was_given_up_still_count(store: TinyStore, main: SessionAddress) -> None:
    first, second = store.begin(main), store.begin(main)
    first.patch({"cwd": {"working": {"n": 77}}})
    first.read("cwd.working.tree.a")
    second.patch({"session": {"working": {"instead": 1}}})
    store.patch(main, global_={"lazy": {"x": 1}})
    assert store.finish(main, second, given_up=[first]).scopes == ("session",)
    assert store.read(main, "cwd.working.n") == 1
    store.patch(main, cwd={"working": {"tree": {"a": 2}}})
    with pytest.raises(ConflictError) as caught:
        store.finish(main, second, given_up=[first])
    assert [conflict.path for conflict in caught.value.conflicts] == ["cwd.working.tree.a"]


def test_an_attempt_holds_as_long_as_its_function_would_see_the_same(store: TinyStore, main: SessionAddress) -> None:
    attempt = store.begin(main)
    assert not attempt.has_read
    attempt.read("cwd.working.list[0]")
    assert attempt.has_read
    store.patch(main, cwd={"working": {"list": {"[1]": 20}}})
    assert attempt.holds_at(moment_of(store.memory, main))
    store.patch(main, cwd={"working": {"list": {"[0]": 10}}})
    assert not attempt.holds_at(moment_of(store.memory, main))
