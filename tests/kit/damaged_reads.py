"""Damages of reads, transactions and conflicts; see ``damaged_histories``."""

from __future__ import annotations

import random
from typing import Any

from kit.damages import (
    Json,
    address_of,
    breaks,
    end_with,
    has_intents,
    in_the_end,
    is_shared,
    patches_of,
    pick,
    reads,
    stored,
    value_at,
    with_leaf,
    written,
)
from kit.perfect_histories import Chronicle, look
from strataflow.runtime.simulation.history import Call, Read
from strataflow.store.algebra import same


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
            if call.ended_s is None or writer.begun_s <= call.ended_s or is_shared(chronicle, writer):
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
        if not any("cwd" in patches for patches in patches_of(call)) and not has_intents(call)
    ]
    if item is None or not others:
        return False
    item["transition"] = {"seq": pick(chance, others)}
    return True


def _conflicts(chronicle: Chronicle) -> list[Json]:
    return [item for call in chronicle.history.calls for item in call.conflicts if item["projection"] != "patch"]
