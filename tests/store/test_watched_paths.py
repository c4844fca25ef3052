"""Watched paths: what is suspect, what is told, and that neither grows while nobody asks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.conformance_journal import row
from kit.json_strategies import SCOPE_PATCHES, SCOPE_VALUES
from kit.pure_views import view
from strataflow.store import Change, Row, RunRecord, SessionAddress, WatchedPaths
from strataflow.store.algebra import CallError, ReadError, merge_pruned, net_record, prune, same
from strataflow.store.rows import ScopePart, row_from
from strataflow.store.watched_paths import ALL_PLANES

ME = SessionAddress("/project", "main", "main")
NAMES = ("global", "cwd", "session")


def scopes(**values: Any) -> dict[str, Any]:
    return {name: values.get(name, {}) for name in NAMES}


def seen(values: dict[str, Any]) -> Any:
    return view(values["global"], values["cwd"], values["session"])


def transition(seq: int, **records: Any) -> Row:
    """A row that changed these scopes."""
    parts = {name: ScopePart(record, seq, 0) for name, record in records.items()}
    return row(seq, address=ME, parts=parts, transition_id=f"t{seq}").at(seq)


def note(watched: WatchedPaths, found: Row) -> bool:
    """As the hub does: once for each scope, the narrowest last."""
    return [watched.note(scope, found) for scope in sorted(found.touches())][-1]


def test_a_row_makes_only_those_paths_suspect_that_it_may_concern() -> None:
    watched = WatchedPaths.of(["cwd.working.a", "working", "session.working"], ME, seen(scopes()))
    assert not note(watched, transition(1, cwd={"contract": {"a": 1}}))
    assert not watched.note("--elsewhere--", transition(2, cwd={"working": {"a": 1}}))
    assert note(watched, transition(3, cwd={"working": {"a": 1}}))
    change = watched.next_change(seen(scopes(cwd={"working": {"a": 1}})), "g0c1s0")
    assert change is not None
    assert (change.scope, change.paths, change.transition_id) == ("cwd", ("cwd.working.a", "working"), "t3")
    assert watched.next_change(seen(scopes(cwd={"working": {"a": 1}})), "g0c1s0") is None


def test_of_one_row_that_changed_several_scopes_the_narrowest_is_named() -> None:
    watched = WatchedPaths.of(["working.a"], ME, seen(scopes()))
    record = {"working": {"a": 1}}
    note(watched, transition(1, **{"global": record, "session": record}))
    change = watched.next_change(seen(scopes(session={"working": {"a": 1}})), "")
    assert change is not None
    assert change.scope == "session"


def test_who_surely_changed_a_path_is_named_before_who_only_may_have() -> None:
    watched = WatchedPaths.of(["working.a.b"], ME, seen(scopes()))
    note(watched, transition(1, cwd={"working": {"a": {"b": 1}}}))
    note(watched, transition(2, cwd={"working": {"a": {"c": 1}}}))
    change = watched.next_change(seen(scopes(cwd={"working": {"a": {"b": 1, "c": 1}}})), "")
    assert change is not None
    assert change.transition_id == "t1"


def test_a_row_that_can_not_be_read_makes_everything_of_its_scope_suspect() -> None:
    watched = WatchedPaths.of(["cwd.working", "session.working"], ME, seen(scopes()))
    columns = list(transition(1, cwd={"working": {"a": 1}}).content.columns(1))
    columns[12] = "no JSON"
    assert watched.note("--project--", row_from(tuple(columns)))
    change = watched.next_change(seen(scopes(cwd={"working": {"a": 1}})), "")
    assert change == Change("cwd", ("cwd.working",), "", None)


def test_where_a_history_begins_concerns_only_paths_that_look_back() -> None:
    watched = WatchedPaths.of(["cwd.working", "cwd[1].working"], ME, seen(scopes()))
    origin = row(1, address=ME, parts={}, run=RunRecord("active"), transition_id=None, kind="origin").at(1)
    assert note(watched, origin)
    assert list(watched._suspect) == ["cwd[1].working"]


def test_after_a_reload_only_what_reads_otherwise_is_told() -> None:
    before = scopes(cwd={"working": {"a": 1}, "contract": {"b": 1}})
    watched = WatchedPaths.of([], ME, seen(before))
    for scope in ("", "--project--", "--project--/main"):
        watched.note(scope, None)
    after = scopes(cwd={"working": {"a": 1.0}, "contract": {"b": 2}})
    assert watched.next_change(seen(after), "r") == Change("cwd", ("cwd.contract",), "r", None)
    assert watched.next_change(seen(after), "r") is None


def test_who_waits_longest_is_told_first() -> None:
    watched = WatchedPaths.of([], ME, seen(scopes()))
    for seq in range(1, 50):
        note(watched, transition(2 * seq, session={"working": {"a": seq}}))
        note(watched, transition(2 * seq + 1, **{"global": {"working": {"a": seq}}}))
    now = scopes(session={"working": {"a": 49}}, **{"global": {"working": {"a": 49}}})
    told = []
    for _ in range(2):
        note(watched, transition(200, session={"working": {"a": 49}}))
        change = watched.next_change(seen(now), "")
        assert change is not None
        told.append(change.scope)
    assert told == ["session", "global"]


@pytest.mark.parametrize("path", ["nowhere", "cwd[101]", "cwd.working.", ""])
def test_a_path_that_can_never_give_anything_is_refused_at_once(path: str) -> None:
    with pytest.raises(ReadError):
        WatchedPaths.of([path], ME, seen(scopes()))


PATHS = ["working", "effective", "global.working.a", "cwd", "cwd.working.a[0]", "session.working.a.b", "working.a.b"]
VALUES = st.fixed_dictionaries(dict.fromkeys(NAMES, SCOPE_VALUES))


@given(
    begun=VALUES,
    steps=st.lists(st.one_of(st.none(), st.tuples(st.sampled_from(NAMES), SCOPE_PATCHES)), max_size=12),
    texts=st.lists(st.sampled_from(PATHS), max_size=4),
)
def test_what_was_told_follows_what_is_read_and_nothing_is_told_without_a_change(
    begun: dict[str, Any], steps: list[Any], texts: list[str]
) -> None:
    now = {name: prune(value) for name, value in begun.items()}
    watched = WatchedPaths.of(texts, ME, seen(now))
    paths = list(dict.fromkeys(texts)) or list(ALL_PLANES)
    mirror = {path: watched.told(path) for path in paths}

    def ask() -> bool:
        change = watched.next_change(seen(now), "")
        for path in change.paths if change else ():
            told = watched.told(path)
            assert not told.is_same(mirror[path])
            mirror[path] = told
        return change is not None

    for seq, step in enumerate(steps, 1):
        if step is None:
            ask()
            continue
        name, patch = step
        try:
            after = merge_pruned(now[name], patch)
            record = net_record(now[name], after)
        except CallError:
            continue
        now = {**now, name: after}
        note(watched, transition(seq, **{name: record}))
        assert len(watched._suspect) <= len(paths)
    while ask():
        pass
    fresh = WatchedPaths.of(texts, ME, seen(now))
    assert all(same(mirror[path].value, fresh.told(path).value) for path in paths)
    assert all(mirror[path].is_same(fresh.told(path)) for path in paths)
