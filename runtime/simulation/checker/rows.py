"""Faults that show in answers and rows alone, whatever the values: order, double rows, lost tails, what was told.

Each is proven by the calls it names and by nothing else, so none of them needs to be made smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from ..history import Call, Read, Violation
from .facts import Facts
from .fates import REMEMBERED, accepted_after, era_at, surviving_era
from .model import scope_names
from .paths import parse
from .sights import said
from .values import is_above, same
from .writers import Writers, asked_leaves

# What the same request id must be told again.
_OUTCOME: Final = ("seq", "changed", "revision", "transition_id")


def row_faults(facts: Facts, writers: Writers) -> list[Violation]:
    """All of them."""
    rules = (_rows_of_two, _requests, _outcomes, _order, _tails, _transitions)
    found = [violation for rule in rules for violation in rule(facts)]
    return found + [violation for call in facts.changing for violation in _conflicts(facts, writers, call)]


def _rows_of_two(facts: Facts) -> Iterator[Violation]:
    """One row holds one call."""
    taken: dict[tuple[int, int], Call] = {}
    for event in facts.events:
        call = event.call
        if call is None:
            continue
        other = taken.setdefault((event.era, event.seq), call)
        if other is not call:
            rule = "wrong-receipt" if call.ending == other.ending == "ok" else "outcome-lies"
            text = f"calls {other.number} and {call.number} are both said to be row {event.seq}"
            yield Violation(rule, text, (other.number, call.number))


def _requests(facts: Facts) -> Iterator[Violation]:
    """A request id is one row, and what it was told first is what it is told always."""
    first: dict[str, Call] = {}
    for call in facts.changing:
        name = call.request_id
        if name is None or call.ending != "ok" or call.seq is None:
            continue
        other = first.setdefault(name, call)
        if other is call or _is_lost(facts, other, call):
            first[name] = call
        elif other.seq != call.seq:
            text = f"request {name} was stored twice: rows {other.seq} and {call.seq}"
            yield Violation("double-write", text, (other.number, call.number))
        elif any(getattr(other, told) != getattr(call, told) for told in _OUTCOME):
            text = f"request {name} was told something else when it was asked for again"
            yield Violation("wrong-receipt", text, (other.number, call.number))


def _is_lost(facts: Facts, call: Call, later: Call) -> bool:
    """Whether a power cut took a call's row before another call began."""
    cuts = facts.history.cuts
    ended_s = math.inf if call.ended_s is None else call.ended_s
    return any(ended_s <= cut.at_s <= later.begun_s and (call.seq or 0) > cut.head for cut in cuts)


def _outcomes(facts: Facts) -> Iterator[Violation]:
    """What the store says of a request in the end, against what its callers were told."""
    history = facts.history
    told = {call.request_id: call for call in facts.changing if call.ending == "ok" and call.seq is not None}
    later = accepted_after(history)
    unanswered = [call for call in facts.changing if call.ending == "unknown"]
    asked_in = {(call.request_id, era_at(history, call.begun_s)) for call in unanswered}
    unknown = {call.request_id for call in unanswered}
    for call in facts.changing:
        name = call.request_id
        if name is None or name not in history.outcomes:
            continue
        row = history.outcomes[name]
        answered = told.get(name)
        if call.ending == "refused" and row is not None and answered is None and name not in unknown:
            yield Violation("phantom-write", f"call {call.number} was refused, but is row {row}", (call.number,))
        elif call is answered and any(
            (call.seq or 0) > cut.head and (call.ended_s or 0) <= cut.at_s for cut in history.cuts
        ):
            continue  # a power cut took that row: it may have been asked for again, or not
        elif call is answered and row is None:
            if later[call.number] < REMEMBERED and not (history.may_lose_tail and not history.cuts):
                text = f"request {name} was row {call.seq}, and the store says that it never saw it"
                yield Violation("forgotten-request", text, (call.number,))
        elif call is answered and row is not None and row != call.seq:
            text = f"request {name} was told row {call.seq}, and the store says row {row}"
            yield Violation("double-write", text, (call.number,))
        elif call.ending != "unknown" or row is None or answered is not None:
            continue
        elif (name, surviving_era(history, row)) not in asked_in:
            text = f"row {row} is said to be call {call.number}, but was given away at another time"
            yield Violation("outcome-lies", text, (call.number,))


def _order(facts: Facts) -> Iterator[Violation]:
    """What ended before something else began has the earlier row."""
    ended = sorted(
        (call for call in facts.changing if _end_of(facts, call) < math.inf and _has_position(facts, call)),
        key=lambda call: _end_of(facts, call),
    )
    newest: Call | None = None
    index = 0
    for call in sorted(facts.changing, key=facts.begun_of):
        while index < len(ended) and _end_of(facts, ended[index]) < facts.begun_of(call):
            if newest is None or facts.position_at(ended[index]) > facts.position_at(newest):
                newest = ended[index]
            index += 1
        fate = facts.fates[call.number]
        if newest is None or fate not in ("stored", "current"):
            continue
        own, other = facts.position_at(call), facts.position_at(newest)
        if own < other or (own == other and fate == "stored"):
            rule = "wrong-order" if call.ending == newest.ending == "ok" else "outcome-lies"
            text = f"call {newest.number} had ended before call {call.number} began, but has the later row"
            yield Violation(rule, text, (newest.number, call.number))


def _has_position(facts: Facts, call: Call) -> bool:
    return facts.fates[call.number] in ("stored", "current") and (call.ending != "ok" or call.seq is not None)


def _end_of(facts: Facts, call: Call) -> float:
    """Until when a call can have been stored."""
    if call.ending == "ok" and call.ended_s is not None:
        return call.ended_s
    return facts.given_up_at.get(call.request_id, math.inf)


def _tails(facts: Facts) -> Iterator[Violation]:
    """A power cut takes nothing that was acknowledged, but from a store that was told to accept that."""
    history = facts.history
    levels = {life.process: life.level for life in history.lives}
    for call in facts.changing:
        if call.ending != "ok" or not call.changed or call.seq is None or call.ended_s is None:
            continue
        lost = [cut for cut in history.cuts if call.ended_s <= cut.at_s and call.seq > cut.head]
        if lost and not (history.may_lose_tail and levels.get(call.process, "process") == "process"):
            text = f"row {call.seq} was acknowledged, and after a power cut the newest row is {lost[0].head}"
            yield Violation("lost-tail", text, (call.number,))


def _transitions(facts: Facts) -> Iterator[Violation]:
    """A change has an id of its own; what changed nothing has none."""
    known: dict[str, Call] = {}
    for call in facts.changing:
        if call.ending != "ok" or call.changed is None:
            continue
        name = call.transition_id
        if call.changed and name is None and call.revision is not None:
            yield Violation("wrong-receipt", f"call {call.number} changed something without an id", (call.number,))
        elif not call.changed and name is not None:
            yield Violation("wrong-receipt", f"call {call.number} changed nothing and has an id", (call.number,))
        elif name is not None and facts.fates[call.number] == "stored":
            other = known.setdefault(name, call)
            if other is not call and other.seq != call.seq:
                text = f"calls {other.number} and {call.number} were given one transition id"
                yield Violation("wrong-receipt", text, (other.number, call.number))


# -- conflicts ---------------------------------------------------------------------------------------------------------


def _conflicts(facts: Facts, writers: Writers, call: Call) -> Iterator[Violation]:
    """A conflict is about something that was read, and that is another thing now, by the one who is named."""
    reads = [step for step in call.steps if isinstance(step, Read)]
    for item in call.conflicts:
        path, projection = item["path"], item["projection"]
        if projection == "patch" or "read" not in item or "now" not in item:
            continue
        found, now = said(item, "read"), said(item, "now")
        own = [read for read in reads if read.path == path and read.projection == projection]
        text = ""
        if same(found, now):
            text = f"call {call.number} was refused for {path}, which is what it was"
        elif not own and not call.is_choice:
            text = f"call {call.number} was refused for {path}, which it had not read"
        elif own and not any(same(None if read.is_absent else read.found, found) for read in own):
            text = f"call {call.number} was refused for {path}, of which it had read something else"
        if text:
            yield Violation("false-conflict", text, (call.number,))
            continue
        named = (item.get("transition") or {}).get("seq")
        other = facts.by_row.get((era_at(facts.history, call.begun_s), named)) if named is not None else None
        if other is not None and not _touches(writers, other, call, path):
            text = f"call {call.number} was refused for {path}; call {other.number} is named, which left it alone"
            yield Violation("false-conflict", text, (call.number, other.number))


def _touches(writers: Writers, other: Call, call: Call, text: str) -> bool:
    path = parse(text)
    if path is None or any(step.get("intents") for step in _all_patches(writers, other)):
        return True
    scopes = [scope_names(call.cwd, call.session)[index] for index in path.scopes]
    return any(
        scope in scopes and (is_above(path.place, keys) or is_above(keys, path.place))
        for (scope, keys), _ in asked_leaves(writers.patches_of(other))
    )


def _all_patches(writers: Writers, call: Call) -> list[dict[str, object]]:
    return [patch for patches in writers.patches_of(call).values() for patch in patches]
