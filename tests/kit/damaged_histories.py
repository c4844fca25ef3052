"""Correct histories, damaged in one place: each damage breaks one promise, and its name is the rule that must find it.

A damage takes a chronicle (see ``perfect_histories``), changes its history and says whether it found a place to do so.
It knows what was true at every row, and changes nothing that could still be explained.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from kit.perfect_histories import ABSENT, Chronicle, State, look
from strataflow.runtime.simulation.history import Call, FinalScope, PowerCut, Read
from strataflow.store import SessionAddress
from strataflow.store.algebra import same

Json = dict[str, Any]
Damage = Callable[[Chronicle, random.Random], bool]
Keys = tuple[str, ...]

DAMAGES: dict[str, list[Damage]] = {}


def breaks(rule: str) -> Callable[[Damage], Damage]:
    """This damage must be found under that name."""

    def note(damage: Damage) -> Damage:
        DAMAGES.setdefault(rule, []).append(damage)
        return damage

    return note


# -- what is true -----------------------------------------------------------------------------------------------------


def address_of(call: Call) -> SessionAddress:
    return SessionAddress(call.cwd, call.session, call.session)


def leaves(value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*keys, key))
    else:
        yield keys, value


def patches_of(call: Call) -> list[Json]:
    if call.kind == "transaction":
        return [step for step in call.steps if not isinstance(step, Read)]
    return [call.patches]


def written(call: Call) -> list[tuple[str, Keys, Any]]:
    """The places at which a call writes strings or arrays that nobody else writes."""
    address = address_of(call)
    return [
        (address.scope(name), keys, value)  # type: ignore[arg-type]
        for patches in patches_of(call)
        for name, patch in patches.items()
        for keys, value in leaves(patch)
        if isinstance(value, str | list) and not any(key.startswith("[") for key in keys) and "$ref" not in keys
    ]


def at(value: Any, keys: Keys) -> Any:
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def with_leaf(value: Json, keys: Keys, leaf: Any) -> Json:
    """A copy with one leaf set, or removed with what becomes empty by that."""
    result = dict(value)
    if len(keys) == 1:
        new = leaf
    else:
        below = value.get(keys[0])
        new = with_leaf(below if isinstance(below, dict) else {}, keys[1:], leaf)
    if new is None or new == {}:
        result.pop(keys[0], None)
    else:
        result[keys[0]] = new
    return result


def stored(chronicle: Chronicle) -> list[tuple[int, State, Call]]:
    """The rows of calls that changed something and had an answer: place in ``states``, row, call."""
    return [
        (place, state, state.call)
        for place, state in enumerate(chronicle.states)
        if state.call is not None and state.changed and state.call.ending == "ok"
    ]


def in_the_end(chronicle: Chronicle, call: Call) -> list[tuple[str, Keys, str]]:
    """Those places of a call that still show it."""
    final = {scope.scope: scope.value for scope in chronicle.history.final}
    return [item for item in written(call) if at(final.get(item[0], {}), item[1]) == item[2]]


def end_with(chronicle: Chronicle, scope: str, keys: Keys, leaf: Any, revisions: int = 0) -> None:
    """Let a scope be found with another leaf in the end, in its files too."""
    final = chronicle.history.final
    for place, item in enumerate(final):
        if item.scope == scope:
            value = with_leaf(item.value, keys, leaf)
            final[place] = attrs.evolve(item, value=value, file_value=value, revision=item.revision + revisions)
            return
    value = with_leaf({}, keys, leaf)
    final.append(FinalScope(scope, value, revisions, value))


def pick(chance: random.Random, found: list[Any]) -> Any:
    return chance.choice(found) if found else None


def reads(chronicle: Chronicle) -> list[Call]:
    return [call for call in chronicle.history.calls if call.kind == "read" and call.ending == "ok"]


def value_at(chronicle: Chronicle, place: int, call: Call, path: str) -> Read:
    return look(chronicle.states[place].scopes, address_of(call), path, "value")


# -- rows and the end ---------------------------------------------------------------------------------------------------


@breaks("lost-write")
def an_acknowledged_write_is_not_there(chronicle: Chronicle, chance: random.Random) -> bool:
    found = [
        (place, *shown[0])
        for place, _, call in stored(chronicle)
        for shown in [in_the_end(chronicle, call)]
        if len(shown) == 1 and not _has_intents(call)
    ]
    if not found:
        return False
    place, scope, keys, value = pick(chance, found)
    before = at(chronicle.states[place - 1].scopes.get(scope, ABSENT).value, keys)
    if isinstance(before, dict) or before == value:
        return False
    end_with(chronicle, scope, keys, before)
    return True


@breaks("torn-write")
def one_part_of_a_write_is_not_there(chronicle: Chronicle, chance: random.Random) -> bool:
    found = [(place, shown) for place, _, call in stored(chronicle) if len(shown := in_the_end(chronicle, call)) > 1]
    if not found:
        return False
    place, shown = pick(chance, found)
    scope, keys, value = pick(chance, shown)
    before = at(chronicle.states[place - 1].scopes.get(scope, ABSENT).value, keys)
    if isinstance(before, dict) or before == value:
        return False
    end_with(chronicle, scope, keys, before)
    return True


@breaks("phantom-write")
def the_end_shows_what_nobody_wrote(chronicle: Chronicle, chance: random.Random) -> bool:
    scope = pick(chance, chronicle.history.final)
    if scope is not None:
        end_with(chronicle, scope.scope, ("working", "ghost"), "ghost")
    return scope is not None


@breaks("phantom-write")
def the_end_shows_a_call_that_was_refused(chronicle: Chronicle, chance: random.Random) -> bool:
    calls = [call for call in chronicle.history.calls if call.ending == "refused"]
    found = [item for call in calls for item in written(call)]
    if found:
        end_with(chronicle, *pick(chance, found))
    return bool(found)


@breaks("phantom-write")
def a_read_shows_what_nobody_wrote(chronicle: Chronicle, chance: random.Random) -> bool:
    call = pick(chance, reads(chronicle))
    if call is not None:
        call.steps = [Read("cwd.working.k", {"y": "ghost"})]
    return call is not None


@breaks("double-write")
def a_request_has_two_rows(chronicle: Chronicle, chance: random.Random) -> bool:
    found = pick(chance, stored(chronicle))
    if found is None:
        return False
    _, state, call = found
    calls, head = chronicle.history.calls, chronicle.states[-1].seq
    again = copy.deepcopy(call)
    again.number, again.begun_s, again.ended_s = len(calls) + 1, chronicle.now + 1, chronicle.now + 2
    again.seq, again.transition_id = head + 1, "again"
    calls.append(again)
    return True


@breaks("double-write")
def an_overwritten_write_is_back_with_one_revision_more(chronicle: Chronicle, chance: random.Random) -> bool:
    final = {scope.scope: scope.value for scope in chronicle.history.final}
    found = [
        item
        for _, state, call in stored(chronicle)
        for item in written(call)
        for there in [at(final.get(item[0], {}), item[1])]
        if isinstance(there, str) and there != item[2]
        if at(state.scopes.get(item[0], ABSENT).value, item[1]) == item[2]
    ]
    if found:
        end_with(chronicle, *pick(chance, found), revisions=1)
    return bool(found)


@breaks("wrong-order")
def two_calls_have_each_other_s_rows(chronicle: Chronicle, chance: random.Random) -> bool:
    rows = stored(chronicle)
    found = [
        (first, second)
        for _, _, first in rows
        for _, _, second in rows
        if first.ended_s is not None and first.ended_s < second.begun_s and not _is_shared(chronicle, first, second)
    ]
    if not found:
        return False
    first, second = pick(chance, found)
    first.seq, second.seq = second.seq, first.seq
    return True


def _is_shared(chronicle: Chronicle, *calls: Call) -> bool:
    """Whether a request of theirs was asked for more than once, so that it could be older."""
    names = [call.request_id for call in chronicle.history.calls]
    return any(names.count(call.request_id) > 1 for call in calls)


@breaks("wrong-final")
def the_end_shows_an_empty_object(chronicle: Chronicle, chance: random.Random) -> bool:
    for place, item in enumerate(chronicle.history.final):
        if "working" in item.value:
            value = {**item.value, "working": {**item.value["working"], "hollow": {}}}
            chronicle.history.final[place] = attrs.evolve(item, value=value, file_value=value)
            return True
    return False


@breaks("bad-file")
def a_file_says_something_else(chronicle: Chronicle, chance: random.Random) -> bool:
    place = pick(chance, [*range(len(chronicle.history.final))])
    if place is not None:
        item = chronicle.history.final[place]
        value = with_leaf(item.value, ("working", "other"), "other")
        chronicle.history.final[place] = attrs.evolve(item, file_value=value)
    return place is not None


@breaks("bad-file")
def a_file_can_not_be_read(chronicle: Chronicle, chance: random.Random) -> bool:
    place = pick(chance, [*range(len(chronicle.history.final))])
    if place is not None:
        item = chronicle.history.final[place]
        chronicle.history.final[place] = attrs.evolve(item, file_value=None, file_problem="no JSON")
    return place is not None


@breaks("lost-tail")
def a_power_cut_takes_what_was_acknowledged(chronicle: Chronicle, chance: random.Random) -> bool:
    history = chronicle.history
    _, _, call = pick(chance, stored(chronicle)) or (0, 0, None)
    if call is None or history.may_lose_tail or history.cuts:
        return False
    assert call.ended_s is not None
    assert call.seq is not None
    history.cuts.append(PowerCut(call.ended_s + 0.1, call.seq - 1))
    return True


# -- receipts and outcomes ----------------------------------------------------------------------------------------------


@breaks("wrong-revision")
def a_revision_is_one_too_many_or_too_few(chronicle: Chronicle, chance: random.Random) -> bool:
    found = pick(chance, stored(chronicle))
    if found is None:
        return False
    call = found[2]
    address, name = address_of(call), chance.choice(("global", "cwd", "session"))
    number = found[1].scopes.get(address.scope(name), ABSENT).revision  # type: ignore[arg-type]
    wrong = number + chance.choice((1, -1) if number else (1,))
    before = f"{name[0]}{number}"
    assert call.revision is not None
    place = call.revision.index(before)
    call.revision = f"{call.revision[:place]}{name[0]}{wrong}{call.revision[place + len(before) :]}"
    return True


@breaks("wrong-receipt")
def a_change_is_told_as_none(chronicle: Chronicle, chance: random.Random) -> bool:
    found = pick(chance, stored(chronicle))
    if found is not None:
        found[2].changed, found[2].transition_id = False, None
    return found is not None


@breaks("wrong-receipt")
def what_changed_nothing_is_told_as_a_change(chronicle: Chronicle, chance: random.Random) -> bool:
    calls = [call for call in chronicle.history.calls if call.ending == "ok" and call.changed is False]
    calls = [call for call in calls if any(patches_of(call)) and not _is_shared(chronicle, call)]
    call = pick(chance, calls)
    if call is not None:
        call.changed, call.transition_id = True, "none"
    return call is not None


@breaks("wrong-receipt")
def two_calls_are_told_one_row(chronicle: Chronicle, chance: random.Random) -> bool:
    rows = stored(chronicle)
    pairs = [(one, two) for _, _, one in rows for _, _, two in rows if one is not two]
    pair = pick(chance, [pair for pair in pairs if not _is_shared(chronicle, *pair)])
    if pair is not None:
        pair[0].seq = pair[1].seq
    return pair is not None


@breaks("outcome-lies")
def a_call_that_is_there_is_said_to_be_unseen(chronicle: Chronicle, chance: random.Random) -> bool:
    names = [
        state.call.request_id
        for state in chronicle.states
        if state.call is not None and state.call.ending == "unknown" and in_the_end(chronicle, state.call)
    ]
    answered = {call.request_id for call in chronicle.history.calls if call.ending == "ok"}
    name = pick(chance, [name for name in names if name not in answered])
    if name is not None:
        chronicle.history.outcomes[name] = None
    return name is not None


@breaks("outcome-lies")
def a_call_that_is_not_there_is_said_to_be_stored(chronicle: Chronicle, chance: random.Random) -> bool:
    history = chronicle.history
    calls = [
        call
        for call in history.calls
        if call.ending == "unknown" and call.request_id and history.outcomes.get(call.request_id, 0) is None
    ]
    calls = [call for call in calls if written(call) and not _is_shared(chronicle, call) and _is_last(call)]
    call = pick(chance, calls)
    if call is not None:
        history.outcomes[call.request_id] = chronicle.states[-1].seq + 1
    return call is not None


def _is_last(call: Call) -> bool:
    """Whether everything that a call writes would still be there after it."""
    return all(patch.get("intents") is None for patches in patches_of(call) for patch in patches.values())


@breaks("forgotten-request")
def an_acknowledged_request_is_said_to_be_unseen(chronicle: Chronicle, chance: random.Random) -> bool:
    found = pick(chance, stored(chronicle))
    if found is not None:
        chronicle.history.outcomes[found[2].request_id] = None
    return found is not None


# -- reads ---------------------------------------------------------------------------------------------------------------


@breaks("not-serializable")
def a_transaction_had_read_something_older(chronicle: Chronicle, chance: random.Random) -> bool:
    found = []
    for place, _, call in stored(chronicle):
        first = call.steps[0] if call.steps else None
        if not isinstance(first, Read) or first.projection != "value":
            continue
        for older in range(place - 1):
            read = value_at(chronicle, older, call, first.path)
            if not same(read.found, first.found) and not _has_ref(read.found):
                found.append((call, read))
    if not found:
        return False
    call, read = pick(chance, found)
    call.steps = [read, *(step for step in call.steps if not isinstance(step, Read))]
    return True


def _has_ref(value: Any) -> bool:
    return isinstance(value, dict) and ("$ref" in value or any(map(_has_ref, value.values())))


@breaks("stale-read")
def a_read_shows_what_was_before_its_process_wrote(chronicle: Chronicle, chance: random.Random) -> bool:
    found = []
    for place, _, writer in stored(chronicle):
        for call in reads(chronicle):
            if writer.process != call.process or writer.ended_s is None or writer.ended_s >= call.begun_s:
                continue
            for path in ("effective.working", "cwd.working", "global.working"):
                old = value_at(chronicle, place - 1, call, path)
                later = range(place, len(chronicle.states))
                if not any(same(old.found, value_at(chronicle, n, call, path).found) for n in later):
                    found.append((call, old))
    if not found:
        return False
    call, old = pick(chance, found)
    call.steps = [old]
    return True


@breaks("stale-read")
def a_read_shows_less_than_one_before_it(chronicle: Chronicle, chance: random.Random) -> bool:
    found = []
    paths = ("effective.working", "cwd.working", "global.working")
    for first in reads(chronicle):
        for second in reads(chronicle):
            if first.process != second.process or (first.ended_s or 0) >= second.begun_s:
                continue
            for path in paths:
                seen = [n for n in range(len(chronicle.states)) if _is_seen(chronicle, n, first)]
                if not seen:
                    continue
                old = value_at(chronicle, seen[0] - 1, second, path) if seen[0] else None
                later = range(seen[0], len(chronicle.states))
                if old and not any(same(old.found, value_at(chronicle, n, second, path).found) for n in later):
                    found.append((second, old))
    if not found:
        return False
    call, old = pick(chance, found)
    call.steps = [old]
    return True


def _is_seen(chronicle: Chronicle, place: int, call: Call) -> bool:
    """Whether a row's state is what a read shows."""
    scopes = chronicle.states[place].scopes
    for step in call.steps:
        assert isinstance(step, Read)
        if not same(look(scopes, address_of(call), step.path, step.projection).found, step.found):
            return False
    return True


@breaks("future-read")
def a_read_shows_what_was_written_after_it(chronicle: Chronicle, chance: random.Random) -> bool:
    found = []
    for place, _, writer in stored(chronicle):
        for call in reads(chronicle):
            if call.ended_s is None or writer.begun_s <= call.ended_s or _is_shared(chronicle, writer):
                continue
            new = value_at(chronicle, place, call, "effective.working")
            tokens = [value for scope, _, value in written(writer) if scope in _scopes(call)]
            if not any(token in _strings(new.found) for token in tokens):
                continue
            found.append((call, new))
    if not found:
        return False
    call, new = pick(chance, found)
    call.steps = [new]
    return True


def _scopes(call: Call) -> list[str]:
    return [scope for _, scope in address_of(call).scopes()]


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    return [value] if isinstance(value, str) else []


@breaks("leaked")
def a_read_shows_what_another_session_wrote(chronicle: Chronicle, chance: random.Random) -> bool:
    found = []
    for _, _, writer in stored(chronicle):
        for scope, keys, value in written(writer):
            for call in reads(chronicle):
                if scope and scope not in _scopes(call) and keys[0] == "working" and len(keys) > 1:
                    found.append((call, keys, value))
    if not found:
        return False
    call, keys, value = pick(chance, found)
    call.steps = [Read(f"session.working.{keys[1]}", with_leaf({}, keys[2:], value) if keys[2:] else value)]
    return True


@breaks("leaked")
def the_end_of_one_session_shows_another(chronicle: Chronicle, chance: random.Random) -> bool:
    found = [
        (other.scope, keys, value)
        for _, _, writer in stored(chronicle)
        for scope, keys, value in in_the_end(chronicle, writer)
        for other in chronicle.history.final
        if scope.count("/") and other.scope.count("/") and other.scope != scope
    ]
    if found:
        end_with(chronicle, *pick(chance, found))
    return bool(found)


@breaks("false-conflict")
def a_conflict_is_about_nothing_new(chronicle: Chronicle, chance: random.Random) -> bool:
    item = pick(chance, _conflicts(chronicle))
    if item is not None:
        item["now"] = item["read"]
    return item is not None


@breaks("false-conflict")
def a_conflict_is_about_what_was_not_read(chronicle: Chronicle, chance: random.Random) -> bool:
    item = pick(chance, _conflicts(chronicle))
    if item is not None:
        item["path"] = "cwd.lazy.never"
    return item is not None


@breaks("false-conflict")
def a_conflict_is_about_what_never_was(chronicle: Chronicle, chance: random.Random) -> bool:
    item = pick(chance, [item for item in _conflicts(chronicle) if item["projection"] == "value"])
    if item is not None:
        item["now"] = "ghost"
    return item is not None


@breaks("false-conflict")
def a_conflict_names_somebody_who_left_it_alone(chronicle: Chronicle, chance: random.Random) -> bool:
    item = pick(chance, [item for item in _conflicts(chronicle) if item["path"].startswith("cwd.working")])
    others = [
        state.seq
        for _, state, call in stored(chronicle)
        if not any("cwd" in patches for patches in patches_of(call)) and not _has_intents(call)
    ]
    if item is None or not others:
        return False
    item["transition"] = {"seq": pick(chance, others)}
    return True


def _has_intents(call: Call) -> bool:
    return any("intents" in patch for patches in patches_of(call) for patch in patches.values())


def _conflicts(chronicle: Chronicle) -> list[Json]:
    return [item for call in chronicle.history.calls for item in call.conflicts if item["projection"] != "patch"]


def damaged(seed: int, damage: Damage, calls: int = 40) -> Chronicle | None:
    """A damaged history, or None if there is no place for the damage in it."""
    chance = random.Random(f"damage {seed}")
    chronicle = Chronicle(random.Random(f"history {seed}"), has_lives=chance.random() < 0.5)
    chronicle.write(calls)
    return chronicle if damage(chronicle, chance) else None
