"""What became of each call: its *fate*.

What became of a call that can change memory is its *fate*::

    stored   it has a row                  an answer, or the store in the end, told so
    current  accepted, changed nothing     it rests on all rows up to the one it was told
    repeat   asked again                   the first one's row is its own
    refused  nothing was stored            an answer told so
    unseen   nothing was stored            the store told so in the end
    open     nobody knows                  it may have happened, or not, in part or whole
"""

from __future__ import annotations

import math
from typing import Final, Literal

from ..history import Call, History

Fate = Literal["stored", "current", "repeat", "refused", "unseen", "open", "look"]
# So many accepted request ids a store remembers at least.
REMEMBERED: Final = 10_000
CHANGING: Final = frozenset({"patch", "respond", "transaction"})


def era_at(history: History, time_s: float) -> int:
    """How many power cuts were before a time."""
    return sum(cut.at_s < time_s for cut in history.cuts) if history.cuts else 0


def surviving_era(history: History, seq: int, time_s: float = math.inf) -> int:
    """The era of a row that is there at a time: the last one that can have given this number away by then."""
    for era in range(era_at(history, time_s), 0, -1):
        if seq > history.cuts[era - 1].head:
            return era
    return 0


# Call, number of the row, era, and since when it can have been stored.
StoredRow = tuple[Call, int, int, float]


def fates_of(history: History) -> tuple[dict[int, Fate], list[StoredRow]]:
    """What became of each call, and the rows that calls have."""
    fates: dict[int, Fate] = {}
    rows: list[StoredRow] = []
    asked_first: dict[str, float] = {}
    taken: dict[tuple[str, int, int], Call] = {}
    answered: dict[str | None, set[int]] = {}
    for call in history.calls:
        if call.ending == "ok" and call.seq is not None:
            answered.setdefault(call.request_id, set()).add(era_of(history, call, call.seq))
    later = accepted_after(history)
    for call in history.calls:
        if call.kind not in CHANGING:
            fates[call.number] = "look"
            continue
        name = call.request_id
        begun_s = asked_first.setdefault(name, call.begun_s) if name is not None else call.begun_s
        seq, fate = _fate(history, call, answered, later)
        era = 0
        if seq is not None:
            era = era_of(history, call, seq)
            if name is not None and taken.setdefault((name, era, seq), call) is not call:
                fate = "repeat"
        fates[call.number] = fate
        if fate == "stored" and seq is not None:
            rows.append((call, seq, era, begun_s))
    return fates, rows


def _fate(
    history: History, call: Call, answered: dict[str | None, set[int]], later: dict[int, int]
) -> tuple[int | None, Fate]:
    if call.ending == "ok":
        return call.seq, "current" if call.changed is False else "stored"
    if call.ending == "refused":
        return None, "refused"
    if call.request_id is None:
        return None, "open"
    era, told_eras = era_at(history, call.begun_s), answered.get(call.request_id, set())
    if era in told_eras or (told_eras and not history.may_lose_tail):
        return None, "repeat"  # whoever asked again was told what became of it
    if call.request_id not in history.outcomes:
        return None, "open"
    seq = history.outcomes[call.request_id]
    if seq is not None and (surviving_era(history, seq) == era or not history.may_lose_tail):
        return seq, "stored"
    if seq is not None:
        return None, "open"  # that row was given away later: to whoever asked again after a power cut
    # What a power cut took away, or what was forgotten since, may have been there for a while.
    may_be_gone = history.may_lose_tail and (not history.cuts or call.begun_s < history.cuts[-1].at_s)
    return None, "open" if may_be_gone or later[call.number] >= REMEMBERED else "unseen"


def era_of(history: History, call: Call, seq: int) -> int:
    if call.ending == "ok" and call.ended_s is not None:
        return surviving_era(history, seq, call.ended_s)
    return surviving_era(history, seq)


def accepted_after(history: History) -> dict[int, int]:
    """How many calls with a request id were accepted that began after each call."""
    found: dict[int, int] = {}
    count = 0
    for call in reversed(history.calls):
        found[call.number] = count
        count += call.kind in CHANGING and call.request_id is not None and call.ending != "refused"
    return found
