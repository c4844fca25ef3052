"""Sights: answers that show a state, each to be explained by one position that its process can have seen.

A process moves forward only. So each sight is given the oldest position that explains it, and what the same process
saw later must be explained by that position or a newer one::

    waiting --all earlier sights of its process are done--> ready --oldest reached--> active --explained--> done
                                                                                        +--newest passed--> unexplained
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import count
from typing import Any

import attrs

from ....store import Json
from ..history import Call, Read
from .facts import Facts
from .model import Names, misread_in, patched, scope_names, steps_of
from .paths import Trio, parse
from .replay import Replay
from .values import Difference, Unfit, same

Misread = tuple[Read, Difference]


@attrs.define(eq=False)
class Sight:
    """What a call saw between the positions ``oldest`` and ``newest``; ``sources`` are calls that say why not older.

    ``steps`` are reads and, in a transaction, its own patches between them. ``is_now``: what a refusal says of the
    present, instead of what its transaction had read.
    """

    call: Call
    steps: list[Read | Json]
    names: Names
    oldest: int
    newest: int
    sources: tuple[int, ...] = ()
    is_now: bool = False
    is_done: bool = False
    is_ready: bool = False
    is_new: bool = True

    @property
    def ended_s(self) -> float:
        """Until when it was looking."""
        return math.inf if self.call.ended_s is None else self.call.ended_s

    def misread(self, values: Trio, raw: tuple[int, ...], replay: Replay | None = None) -> Iterator[Misread]:
        """The leaves that do not fit these values, of which those with an index in ``raw`` are to be pruned."""
        gone: list[tuple[int, tuple[str, ...]]] = []
        for step in self.steps:
            if isinstance(step, Read):
                past = None if replay is None else lambda offset: replay.past(self.call.process, self.names, offset)
                for difference in misread_in(step, values, past):
                    yield step, difference
            else:
                try:
                    values = patched(values, step, raw, gone)
                except Unfit:
                    return  # it did not get any further on this state, so it can have seen another one only

    def is_explained(self, replay: Replay) -> bool:
        """Whether the state of the replay, as its process may see it, explains it."""
        raw = replay.raw(self.names)
        for values in replay.shown_to(self.call.process, self.names, self.oldest):
            if next(self.misread(values, raw, replay), None) is None:
                return True
        return False


def sights_of(facts: Facts) -> list[Sight]:
    """All answers that show a state which no row pins down."""
    found: list[Sight] = []
    for call in facts.history.calls:
        is_look = call.kind == "read"
        if not call.steps or not (is_look or facts.fates[call.number] in ("refused", "unseen", "open")):
            continue
        if is_look and call.ended_s is None:
            continue
        oldest, sources = facts.oldest_at(call)
        newest = facts.newest_at(call.ended_s)
        names = scope_names(call.cwd, call.session)
        if is_look or any(isinstance(step, Read) for step in call.steps):
            found.append(Sight(call, steps_of(call), names, oldest, newest, sources))
        if call.conflicts:
            found.append(Sight(call, _steps_now(call), names, oldest, newest, sources, True))
    return found


def _steps_now(call: Call) -> list[Read | Json]:
    """The steps of a transaction that was refused, with what its reads would find by then where that is told."""
    steps: list[Read | Json] = []
    for step in call.steps:
        if not isinstance(step, Read):
            steps.append(step)
            continue
        for item in call.conflicts:
            # The same path may have been read twice, with patches in between: what was read tells which it is.
            is_told = item["path"] == step.path and item["projection"] == step.projection and "now" in item
            if is_told and same(said(item, "read") if "read" in item else None, step.found):
                now = said(item, "now")
                steps.append(Read(step.path, now, now is None, step.projection))
                break
    return steps


def offset_max(sights: list[Sight]) -> int:
    """The farthest that any of them looks back."""
    paths = [parse(step.path) for sight in sights for step in sight.steps if isinstance(step, Read)]
    return max((path.offset for path in paths if path is not None), default=0)


def said(item: Json, member: str) -> Any:
    """What a conflict says of a moment, in the form of a read."""
    value = item[member]
    return value["keys"] if item["projection"] == "keys" and isinstance(value, dict) else value


@attrs.define(eq=False)
class Queue:
    """All sights on their way; ``unexplained`` are those that no position explains."""

    unexplained: list[Sight] = attrs.field(factory=list, init=False)
    _waiting: dict[str, list[Sight]] = attrs.field(factory=dict, init=False)
    _first: dict[str, int] = attrs.field(factory=dict, init=False)
    _done: dict[str, list[tuple[float, int, tuple[int, ...]]]] = attrs.field(factory=dict, init=False)
    _ready: list[tuple[int, int, Sight]] = attrs.field(factory=list, init=False)
    _active: list[Sight] = attrs.field(factory=list, init=False)
    _tick: Iterator[int] = attrs.field(factory=count, init=False)

    @classmethod
    def of(cls, sights: list[Sight]) -> Queue:
        """A queue in which nothing has happened yet."""
        queue = cls()
        for sight in sorted(sights, key=lambda sight: sight.call.begun_s):
            queue._waiting.setdefault(sight.call.process, []).append(sight)
        for process in queue._waiting:
            queue._first[process], queue._done[process] = 0, []
            queue._release(process)
        return queue

    def look(self, replay: Replay) -> None:
        """Try to explain what is active by the state of the replay."""
        position, touched = replay.position, replay.touched
        tried: set[int] = set()
        while True:
            while self._ready and self._ready[0][0] <= position:
                self._active.append(heapq.heappop(self._ready)[2])
            done: list[tuple[Sight, bool]] = []
            for sight in self._active:
                is_other = sight.is_new or (
                    id(sight) not in tried and (touched is None or not touched.isdisjoint(sight.names))
                )
                is_explained = is_other and sight.is_explained(replay)
                tried.add(id(sight))
                sight.is_new = False
                if is_explained or position >= sight.newest:
                    done.append((sight, is_explained))
            for sight, is_explained in done:
                self._finish(sight, position, is_explained)
            if not done:
                return

    def _finish(self, sight: Sight, position: int, is_explained: bool) -> None:
        self._active.remove(sight)
        sight.is_done = True
        sources = sight.sources
        if not is_explained:
            self.unexplained.append(sight)
            position = sight.oldest
        elif position > sight.oldest:
            sources = (sight.call.number,)
        process = sight.call.process
        self._done[process].append((sight.ended_s, position, sources))
        self._release(process)

    def _release(self, process: str) -> None:
        """Make ready what has nothing before it that is not done."""
        waiting, first = self._waiting[process], self._first[process]
        while first < len(waiting) and waiting[first].is_done:
            first += 1
        self._first[process] = first
        if first == len(waiting):
            return
        self._fold(process, waiting[first].call.begun_s)
        limit_s = math.inf
        for sight in waiting[first:]:
            if sight.call.begun_s > limit_s:
                break
            if not sight.is_ready:
                sight.is_ready = True
                for ended_s, position, sources in self._done[process]:
                    if ended_s < sight.call.begun_s and position > sight.oldest:
                        sight.oldest, sight.sources = position, sources
                heapq.heappush(self._ready, (sight.oldest, next(self._tick), sight))
            if not sight.is_done:
                limit_s = min(limit_s, sight.ended_s)

    def _fold(self, process: str, time_s: float) -> None:
        """What all that follows comes after counts as one."""
        done = self._done[process]
        old = [entry for entry in done if entry[0] < time_s]
        if len(old) > 1:
            self._done[process] = [
                (max(entry[0] for entry in old), *max(old, key=lambda entry: entry[1])[1:]),
                *(entry for entry in done if entry[0] >= time_s),
            ]
