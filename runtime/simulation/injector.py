"""Decides when faults strike: draws them from the rates, or takes them from the places, and keeps count.

A fault is *armed* with the number from which on it may strike, and *due* at the first occasion after that which suits
it (a failing sync needs a sync). What has struck is noted as an exact place: the same run with these places and
without rates is the same run.

The generator here is nobody else's, so that a plan without rates changes nothing but the faults themselves.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import final

import attrs

from .disk import ShortWrite
from .fault_plan import KINDS, Counted, Fault, FaultPlan

_CODES = {"eio": errno.EIO, "eio-sync": errno.EIO, "enospc": errno.ENOSPC, "eacces": errno.EACCES, "eintr": errno.EINTR}
_SYNCS = frozenset({"sync_file", "sync_folder"})
_WRITES = frozenset({"write_new", "append"})
_ROOM = _WRITES | {"make_folder"}
_NEVER = 1 << 62

# How far ahead of a call its fault may strike, at most: some tens of operations are one call, some hundreds an opening.
_AHEAD: Mapping[Counted, int] = {"operation": 300, "lock": 12, "append": 6, "call": 1, "thread": 20}


def _detail(kind: str, chance: random.Random) -> str:
    match kind:
        case "power":
            return f"{chance.choice(('lose', 'keep', 'torn', 'torn'))}:{chance.randrange(1_000_000)}"
        case "enospc":
            return str(chance.choice((1, 1, 3, 20)))
        case "short":
            return str(chance.choice((0, 1, 30, 511, 512, 700)))
        case "readonly":
            return f"{chance.choice((0.05, 1.0, 5.0)):g}"
        case "slow":
            seconds = chance.choice((0.0, 0.0, 0.0, 0.001, 0.002, 0.05, 0.5, 3.0))
            return f"{seconds:g}:{chance.randint(0, chance.choice((1, 3, 8, 20, 40)))}"
        case "freeze":
            return f"{chance.choice((0.01, 0.2, 1.5, 8.0)):g}:{chance.choice(('thaw', 'thaw', 'kill'))}"
        case "cancel":
            return str(chance.choice((0, 1, 2, 3, 4, 5, 6, 8, 12)))
        case "stop":
            return f"{chance.choice((0, 1, 2, 4, 8, 20, 50))}:{chance.randrange(8)}"
        case "jump":
            return str(chance.choice((-1, 1)) * chance.choice((1_000, 60_000, 3_600_000, 10**9)))
        case "foreign":
            return str(chance.randrange(1_000_000))
    return ""


@final
@attrs.define(eq=False)
class Injector:
    """One per world.

    Attributes:
      note: puts a fault into the trace.
      spares_log: no sync of the journal's log fails.
    """

    plan: FaultPlan
    seed: int
    note: Callable[[Fault], None]
    spares_log: bool = False
    is_on: bool = True
    struck: list[Fault] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)
    _numbers: dict[Counted, int] = attrs.field(init=False)
    # The faults that wait for their number, and the smallest of these numbers.
    _armed: dict[Counted, list[Fault]] = attrs.field(init=False)
    _next: dict[Counted, int] = attrs.field(init=False)
    _chance: random.Random = attrs.field(init=False)
    _full: int = 0

    def __attrs_post_init__(self) -> None:
        self._chance = random.Random(f"faults {self.seed}")
        self._numbers = dict.fromkeys(_AHEAD, 0)
        self._armed = {counted: [] for counted in _AHEAD}
        self._next = dict.fromkeys(_AHEAD, _NEVER)
        for fault in self.plan.places:
            self._arm(fault)

    def _arm(self, fault: Fault) -> None:
        counted = KINDS[fault.kind]
        self._armed[counted].append(fault)
        self._next[counted] = min(self._next[counted], fault.at)

    def draw(self) -> None:
        """A client calls: the rates may arm faults."""
        chance = self._chance
        for kind, rate in self.plan.rates.items():
            if chance.random() < rate:
                counted = KINDS[kind]
                # As many soon as late: the span is drawn first.
                ahead = chance.randint(1, chance.randint(1, _AHEAD[counted]))
                self._arm(Fault(kind, self._numbers[counted] + ahead, _detail(kind, chance)))

    def take(self, counted: Counted, suits: Callable[[Fault], bool] | None = None) -> Fault | None:
        """One more of what is counted: the fault that strikes it, if any."""
        self._numbers[counted] += 1
        return self._due(counted, suits) if self._numbers[counted] >= self._next[counted] else None

    def _due(self, counted: Counted, suits: Callable[[Fault], bool] | None) -> Fault | None:
        number, armed = self._numbers[counted], self._armed[counted]
        if not self.is_on:
            return None
        for place, fault in enumerate(armed):
            if fault.at <= number and (suits is None or suits(fault)):
                del armed[place]
                self._next[counted] = min((other.at for other in armed), default=_NEVER)
                fault = attrs.evolve(fault, at=number, detail=fault.detail or _detail(fault.kind, self._chance))
                self.struck.append(fault)
                self.counts[fault.kind] += 1
                self.note(fault)
                return fault
        return None

    def on_operation(self, name: str, path: str) -> Fault | None:
        """An operation of the disk: what concerns more than this operation is returned, other faults are raised.

        Raises:
          OSError: the operation fails.
        """
        if self._full and name in _ROOM and self.is_on:
            self._full -= 1
            self._numbers["operation"] += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def suits(fault: Fault) -> bool:
            match fault.kind:
                case "kill" | "power" | "readonly":
                    return True
                case "short":
                    return name in _WRITES
                case "eio-sync":
                    return name in _SYNCS and not (self.spares_log and path.endswith("-wal"))
                case "enospc":
                    return name in _ROOM
                case "eintr":
                    return name not in ("stat", "make_folder")
            return name not in _SYNCS

        fault = self.take("operation", suits)
        if fault is None or fault.kind in ("kill", "power", "readonly"):
            return fault
        if fault.kind == "short":
            raise ShortWrite(errno.EIO, int(fault.detail))
        if fault.kind == "enospc":
            self._full = int(fault.detail) - 1
        code = _CODES[fault.kind]
        raise OSError(code, os.strerror(code))
