"""The facts of a history in the order that receipts give: which call has which row, and which rows a read could see.

Rows of the journal have one order. A power cut may take the newest away and their numbers are given away again, so a
row is named by its *era* (how many power cuts were before it) and its number. All that moves the store on, calls that
were accepted, foreign writes that won and power cuts, becomes one list of *events*; the state after the event at
position p, counted from 1, is what a read at p sees.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import attrs

from ..history import Call, History, Superseded
from .fates import CHANGING, Fate, era_at, era_of, fates_of, surviving_era


@attrs.frozen(eq=False)
class Event:
    """Something that moved the store on. ``begun_s``: nobody can have seen it before. Exactly one member is set of
    ``call``, ``superseded`` and ``back_to``, the position to which a power cut threw the store back."""

    position: int
    era: int
    seq: int
    begun_s: float
    call: Call | None = None
    superseded: Superseded | None = None
    back_to: int | None = None


@attrs.define(eq=False)
class Bounds:
    """What was known when: the newest position that everything after a time must have seen, and which calls say so."""

    _times: list[float] = attrs.field(factory=list)
    _known: list[tuple[int, tuple[int, ...]]] = attrs.field(factory=list)

    @classmethod
    def of(cls, entries: Iterable[tuple[float, int, tuple[int, ...]]]) -> Bounds:
        """From times, positions and numbers of calls."""
        found = cls()
        newest: tuple[int, tuple[int, ...]] = (0, ())
        for time_s, position, numbers in sorted(entries):
            newest = max(newest, (position, numbers), key=lambda known: known[0])
            found._times.append(time_s)
            found._known.append(newest)
        return found

    def before(self, time_s: float) -> tuple[int, tuple[int, ...]]:
        """The newest position that was known before a time."""
        count = bisect_left(self._times, time_s)
        return self._known[count - 1] if count else (0, ())


@attrs.define(eq=False)
class Facts:
    """See above. ``era_rows`` are the rows of each era, in order, with their positions."""

    history: History
    fates: dict[int, Fate]
    events: list[Event]
    position_of: dict[int, int]
    _era_rows: list[tuple[list[int], list[int]]]
    _starts: list[int]

    @functools.cached_property
    def calls(self) -> dict[int, Call]:
        """All calls by number."""
        return {call.number: call for call in self.history.calls}

    @functools.cached_property
    def changing(self) -> list[Call]:
        """All calls that can change memory, as they began."""
        return [call for call in self.history.calls if call.kind in CHANGING]

    def position_at(self, call: Call) -> int:
        """The position that an answer rests on."""
        own = self.position_of.get(call.number)
        if own is not None:
            return own
        era = era_of(self.history, call, call.seq or 0)
        seqs, positions = self._era_rows[era]
        count = bisect_right(seqs, call.seq or 0)
        return positions[count - 1] if count else self._starts[era]

    def is_standing(self, own: int, position: int) -> bool:
        """Whether no power cut between took what the event at ``own`` did."""
        return all(back_to >= own or not own < cut <= position for cut, back_to in self.cut_positions)

    @functools.cached_property
    def cut_positions(self) -> list[tuple[int, int]]:
        """The power cuts: where, and where to."""
        return [(event.position, event.back_to) for event in self.events if event.back_to is not None]

    @functools.cached_property
    def superseded(self) -> list[Event]:
        """Foreign writes that won."""
        return [event for event in self.events if event.superseded is not None]

    @functools.cached_property
    def kept_positions(self) -> frozenset[int]:
        """The positions that a power cut threw the store back to."""
        return frozenset(back_to for _, back_to in self.cut_positions)

    @functools.cached_property
    def _together(self) -> dict[tuple[str, str, str], list[str]]:
        """By directory, session and process: the other processes that used the session in the same time."""
        users: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
        for call in self.history.calls:
            found = users.setdefault((call.cwd, call.session), {})
            first, last = found.get(call.process, (call.begun_s, call.begun_s))
            found[call.process] = first, max(last, call.begun_s if call.ended_s is None else call.ended_s)
        together: dict[tuple[str, str, str], list[str]] = {}
        for session, spans in users.items():
            current: list[tuple[float, str]] = []
            for process, (first, last) in sorted(spans.items(), key=lambda span: span[1]):
                current = [(until, other) for until, other in current if until > first]
                for _, other in current:
                    together.setdefault((*session, process), []).append(other)
                    together.setdefault((*session, other), []).append(process)
                current.append((last, process))
        return together

    def others_at(self, call: Call) -> list[str]:
        """The other processes that used the call's session while its own did."""
        return self._together.get((call.cwd, call.session, call.process), [])

    @functools.cached_property
    def _first_opens(self) -> frozenset[int]:
        found: dict[tuple[str, str, str], int] = {}
        for call in self.history.calls:
            if call.kind == "open":
                found.setdefault((call.process, call.cwd, call.session), call.number)
        return frozenset(found.values())

    def is_looking(self, call: Call) -> bool:
        """Whether a call made its process follow all the others: the first opening of a session there does."""
        return call.number in self._first_opens and call.ending == "ok"

    @functools.cached_property
    def by_row(self) -> dict[tuple[int, int], Call]:
        """The calls that have a row, by era and number."""
        return {(event.era, event.seq): event.call for event in self.events if event.call is not None}

    @functools.cached_property
    def given_up_at(self) -> dict[str | None, float]:
        """By request id: when the last process that had asked was gone; nothing of it is stored after that."""
        gone = {life.process: life.ended_s for life in self.history.lives if life.ended_s is not None}
        found: dict[str | None, float] = {}
        for call in self.changing:
            end_s = gone.get(call.process, math.inf)
            found[call.request_id] = max(end_s, found.get(call.request_id, 0.0))
        return found

    @functools.cached_property
    def _repeats(self) -> dict[int, list[Call]]:
        found: dict[int, list[Call]] = {}
        for call in self.changing:
            if self.fates[call.number] == "repeat" and call.ending == "ok" and call.seq is not None:
                found.setdefault(self.position_at(call), []).append(call)
        return found

    def repeats_at(self, position: int) -> list[Call]:
        """The calls that were told once more what has this position."""
        return self._repeats.get(position, [])

    def begun_of(self, call: Call) -> float:
        """Since when a call can have been stored: since its request was first asked."""
        return call.begun_s if call.request_id is None else self._asked_first[call.request_id]

    @functools.cached_property
    def _asked_first(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for call in self.changing:
            if call.request_id is not None:
                found[call.request_id] = min(call.begun_s, found.get(call.request_id, math.inf))
        return found

    # -- what a read could see --------------------------------------------------------------------------------------

    @functools.cached_property
    def _begun(self) -> list[float]:
        newest, found = -math.inf, []
        for event in self.events:
            newest = max(newest, event.begun_s)
            found.append(newest)
        return found

    def newest_at(self, time_s: float | None) -> int:
        """The last position that can have been seen at a time (None: at the end)."""
        return len(self.events) if time_s is None else bisect_right(self._begun, time_s)

    @functools.cached_property
    def acknowledged(self) -> Bounds:
        """What somebody had been told."""
        return Bounds.of((ended_s, position, numbers) for _, ended_s, position, numbers in self._told)

    @functools.cached_property
    def _told(self) -> list[tuple[str, float, int, tuple[int, ...]]]:
        return [
            (call.process, call.ended_s, self.position_at(call), (call.number,))
            for call in self.changing
            if call.ending == "ok" and call.ended_s is not None and call.seq is not None
        ]

    @functools.cached_property
    def _by_process(self) -> dict[str, Bounds]:
        """What each process must have known: what it was told, and all that was acknowledged before it looked.

        A process looks when it opens the store, and when it opens a session that it does not have open.
        """
        entries: dict[str, list[tuple[float, int, tuple[int, ...]]]] = {}
        for process, ended_s, position, numbers in self._told:
            entries.setdefault(process, []).append((ended_s, position, numbers))
        for life in self.history.lives:
            entries.setdefault(life.process, []).append((-math.inf, *self.acknowledged.before(life.begun_s)))
        for call in self.history.calls:
            if self.is_looking(call) and call.ended_s is not None:
                position, numbers = self.acknowledged.before(call.begun_s)
                entries.setdefault(call.process, []).append((call.ended_s, position, (*numbers, call.number)))
        return {process: Bounds.of(found) for process, found in entries.items()}

    def oldest_at(self, call: Call) -> tuple[int, tuple[int, ...]]:
        """The first position that a call's reads may have seen, and the calls that say so."""
        nothing: tuple[int, tuple[int, ...]] = (0, ())
        bounds = self._by_process.get(call.process)
        found = [bounds.before(call.begun_s) if bounds else nothing]
        if call.fresh:
            found.append(self.acknowledged.before(call.begun_s))
        if self.history.cuts:
            found.append((self._starts[era_at(self.history, call.begun_s)], ()))
        return max(found, key=lambda known: known[0])


def facts_of(history: History) -> Facts:
    """Sort a history out."""
    history = attrs.evolve(history, cuts=sorted(history.cuts, key=lambda cut: cut.at_s))
    fates, rows = fates_of(history)
    eras: list[list[tuple[int, float, Call | None, Superseded | None]]] = [[] for _ in range(len(history.cuts) + 1)]
    for call, seq, era, begun_s in rows:
        eras[era].append((seq, begun_s, call, None))
    for item in history.superseded:
        era = surviving_era(history, item.seq, math.inf if item.lost_at_s is None else item.lost_at_s)
        eras[era].append((item.seq, -math.inf, None, item))
    events: list[Event] = []
    era_rows: list[tuple[list[int], list[int]]] = []
    starts, standing = [0], [(0, 0)]
    for era, found in enumerate(eras):
        era_rows.append(([], []))
        for seq, begun_s, call_, item_ in sorted(found, key=lambda row: row[:2]):
            events.append(Event(len(events) + 1, era, seq, begun_s, call_, item_))
            era_rows[-1][0].append(seq)
            era_rows[-1][1].append(len(events))
            standing.append((seq, len(events)))
        if era < len(history.cuts):
            cut = history.cuts[era]
            while standing[-1][0] > cut.head:
                standing.pop()
            events.append(Event(len(events) + 1, era, cut.head, cut.at_s, back_to=standing[-1][1]))
            starts.append(len(events))
            standing[-1] = (standing[-1][0], len(events))
    position_of = {event.call.number: event.position for event in events if event.call is not None}
    return Facts(history, fates, events, position_of, era_rows, starts)
