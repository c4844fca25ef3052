"""Laws of transactions. Goal: a committed transaction is what its function would have done at its place in the order.

Method: programs of several sessions are interleaved step by step with each other and with plain patches. Whenever one
commits, the same program is run on its own, at once, on a second store that holds everything committed before it. It
must see the same and leave the same memory. Whenever one conflicts, the same program, run now, must see something else.
A slow model, which knows nothing of logs, follows the values.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.json_strategies import CALLS
from kit.naive_model import NaiveModel
from kit.tiny_stores import CWD, TinyStore
from kit.transaction_programs import SESSIONS, STEPS, STEPS_WITH_PAST, Program, Running
from strataflow.store import CallError, ConflictError, SessionAddress, StrataflowError
from strataflow.store.algebra import replay, same

PROGRAMS = st.lists(STEPS_WITH_PAST, min_size=1, max_size=5)


def run_alone(store: TinyStore, session: SessionAddress, program: Program) -> list[Any]:
    """Run a program on a store where nobody else is, and commit it. What it saw."""
    running = Running(session, program, store.begin(session))
    saw = running.to_end()
    store.finish(session, running.attempt)
    return saw


def looks_alike(left: list[Any], right: list[Any], *, members: int) -> bool:
    """Whether a function that saw one could not tell it from the other, by the first so many members of each look."""
    lists = [[list(item[:members]) if isinstance(item, tuple) else item for item in saw] for saw in (left, right)]
    return same(*lists)


# Two stores give their transitions different ids.
WITH_ID, WITHOUT_ID = 5, 4


class Pair:
    """A store under test, and one on which everything that was accepted is done again, one after the other."""

    def __init__(self) -> None:
        self.tested, self.serial = TinyStore(), TinyStore()
        self.sessions = {key: self.tested.open(key) for key in SESSIONS}
        for key in SESSIONS:
            self.serial.open(key)
            for store in (self.tested, self.serial):
                # The history of a session without private memory begins when somebody looks at it first.
                store.memory.view(self.sessions[key])

    def begin(self, key: str, program: Program) -> Running:
        return Running(self.sessions[key], program, self.tested.begin(self.sessions[key]))

    def patch(self, key: str, call: Any) -> None:
        session = self.sessions[key]
        try:
            self.tested.patch(session, **call)
        except CallError:
            return
        self.serial.patch(session, **call)

    def finish(self, running: Running) -> bool:
        """End a program. Whether it committed."""
        try:
            receipt = self.tested.finish(running.session, running.attempt)
        except ConflictError:
            again = Running(running.session, running.program, self.tested.begin(running.session)).to_end()
            is_false_alarm = looks_alike(again, running.saw, members=WITH_ID)
            assert not is_false_alarm
            return False
        rows = self.serial.rows
        saw = run_alone(self.serial, running.session, running.program)
        assert looks_alike(saw, running.saw, members=WITHOUT_ID)
        assert self.serial.rows - rows == receipt.changed
        self.compare()
        return True

    def compare(self) -> None:
        for session in self.sessions.values():
            assert same(self.tested.values(session), self.serial.values(session))
            assert self.tested.memory.revision(session) == self.serial.memory.revision(session)


@settings(max_examples=60)
@given(st.data())
def test_a_committed_transaction_equals_running_its_function_at_its_place_in_the_order(data: st.DataObject) -> None:
    pair = Pair()
    running: list[Running] = []
    for _ in range(data.draw(st.integers(3, 25))):
        act = data.draw(st.sampled_from(["begin", "step", "step", "step", "end", "patch"]))
        if act == "begin" or not running:
            running.append(pair.begin(data.draw(st.sampled_from(SESSIONS)), data.draw(PROGRAMS)))
        elif act == "patch":
            pair.patch(data.draw(st.sampled_from(SESSIONS)), data.draw(CALLS))
        else:
            chosen = data.draw(st.sampled_from(running))
            if act == "step" and not chosen.is_done:
                chosen.step()
            elif chosen.is_done or act == "end":
                chosen.to_end()
                running.remove(chosen)
                pair.finish(chosen)
    for left in running:
        left.to_end()
        pair.finish(left)
    pair.compare()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(SESSIONS), PROGRAMS), min_size=1, max_size=5))
def test_transactions_that_begin_at_once_all_commit_when_run_again(
    programs: list[tuple[str, Program]],
) -> None:
    pair = Pair()
    waiting = [pair.begin(key, program) for key, program in programs]
    for attempts in range(1, len(programs) + 1):
        for running in waiting:
            running.to_end()
        lost = [running for running in waiting if not pair.finish(running)]
        assert len(lost) < len(waiting), "of those that compete one always wins"
        waiting = [
            Running(lost_one.session, lost_one.program, pair.tested.begin(lost_one.session)) for lost_one in lost
        ]
        if not waiting:
            break
        assert attempts < len(programs)
    assert waiting == []


# The slow model knows neither index forms nor what refuses a patch.
_KEYS = st.sampled_from(["a", "b", "c"])
_LEAVES = st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["x", "y"]), st.lists(st.integers(0, 3), max_size=2))
_TREES = st.recursive(_LEAVES, lambda below: st.dictionaries(_KEYS, below, max_size=3), max_leaves=6)
_PLAIN_PATCHES = st.dictionaries(
    st.sampled_from(["global", "cwd", "session"]),
    st.dictionaries(st.sampled_from(["working", "lazy"]), st.dictionaries(_KEYS, _TREES, max_size=3), min_size=1),
    min_size=1,
)


@given(st.lists(st.tuples(st.sampled_from(SESSIONS), st.lists(_PLAIN_PATCHES, min_size=1, max_size=4)), max_size=6))
def test_the_patches_of_a_transaction_leave_what_a_slow_model_says(calls: list[tuple[str, list[Any]]]) -> None:
    store, model = TinyStore(), NaiveModel(7)
    sessions = {key: store.open(key) for key in SESSIONS}
    for key, patches in calls:
        attempt = store.begin(sessions[key])
        for patch in patches:
            attempt.patch(patch)
            model.patch(CWD, key, patch)
        rows = store.rows
        receipt = store.finish(sessions[key], attempt)
        assert store.rows - rows == int(receipt.changed)
        for name, session in sessions.items():
            assert same(store.values(session), model.state(CWD, name))


@given(st.lists(CALLS, max_size=3), st.lists(STEPS, min_size=1, max_size=6), st.lists(CALLS, max_size=4))
def test_a_log_that_is_run_again_on_the_same_moment_gives_what_it_gave(
    before: list[Any], program: Program, later: list[Any]
) -> None:
    store = TinyStore()
    session = store.open()
    for call in before:
        _patch(store, session, call)
    running = Running(session, program, store.begin(session))
    running.to_end()
    for call in later:
        _patch(store, session, call)  # reaches the store, not the moment
    work, conflicts = running.attempt.again(running.attempt.moment)
    assert conflicts == []
    first, second = running.attempt.work.finished(), work.finished()
    assert same([*first.values.values()], [*second.values.values()])
    assert same([*first.records.values()], [*second.records.values()])
    assert first.missing_deletions == second.missing_deletions


@given(st.lists(CALLS, max_size=3), st.lists(CALLS, min_size=1, max_size=5))
def test_one_net_record_leads_to_what_all_patches_together_did(before: list[Any], patches: list[Any]) -> None:
    store = TinyStore()
    session = store.open()
    for call in before:
        _patch(store, session, call)
    attempt = store.begin(session)
    for patch in patches:
        try:
            attempt.patch(patch)
        except CallError:
            continue
    staged = attempt.work.finished()
    for name, record in staged.records.items():
        assert record
        assert same(replay(attempt.moment.view.scopes[name].value, record), staged.values[name])
    store.finish(session, attempt)
    for name, value in zip(("global", "cwd", "session"), store.values(session), strict=True):
        assert same(attempt.read(name).value, _known(value))


def _known(value: Any) -> Any:
    """What the root of a scope shows of it: everything but the plane that must be asked for by name."""
    return {plane: content for plane, content in value.items() if plane != "lazy"}


def _patch(store: TinyStore, session: SessionAddress, call: Any) -> None:
    try:
        store.patch(session, **call)
    except StrataflowError:
        return
