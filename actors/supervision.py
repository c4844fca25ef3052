"""Supervision as data: what a child is, and a pure function that says what to do when one life of it ends.

    how its life ended     permanent    transient    temporary
    RETURNED               restart      done         done
    FAILED                 restart      restart      done

A restart is granted while the budget lasts: fewer than ``restarts`` of them began within the last ``within_s``
seconds. Otherwise the supervisor gives up, which ends everything it keeps: starting again for ever would hide a fault
and repeat its damage.

Invariants:
  D1  ``decide`` depends on nothing but its arguments.
  D2  In any window of ``within_s`` seconds at most ``restarts`` restarts are granted.
  D3  A delay is finite, at most ``RESTART_DELAY_S_MAX``, and never shrinks while failures crowd together.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Generic, Literal, TypeVar, final

import attrs

from .limits import (
    RESTART_DELAY_FIRST_S,
    RESTART_DELAY_S_MAX,
    RESTART_WINDOW_S,
    RESTARTS_DEFAULT,
    SHUTDOWN_S,
)

RestartPolicy = Literal["permanent", "transient", "temporary"]
StartT = TypeVar("StartT")


class Outcome(enum.Enum):
    """How one life of a child ended. A child that its supervisor stops is not judged at all."""

    RETURNED = "returned"
    FAILED = "failed"


@final
@attrs.frozen
class Budget:
    """At most ``restarts`` restarts in any ``within_s`` seconds."""

    restarts: int = RESTARTS_DEFAULT
    within_s: float = RESTART_WINDOW_S

    def __attrs_post_init__(self) -> None:
        assert self.restarts >= 0, self
        assert 0 < self.within_s < math.inf, self


@final
@attrs.frozen
class ChildSpec(Generic[StartT]):
    """One child of a supervisor.

    Attributes:
      name: unique among the living children of one supervisor; appears in errors and statistics.
      start: makes the child of one life; what it must be is the supervisor's business, so this module needs no trio.
      restart: the column of the table above.
      budget: how many restarts are granted.
      shutdown_s: seconds it may use to finish what it accepted before it is cancelled.
    """

    name: str
    start: StartT
    restart: RestartPolicy = "permanent"
    budget: Budget = attrs.Factory(Budget)
    shutdown_s: float = SHUTDOWN_S

    def __attrs_post_init__(self) -> None:
        assert self.restart in ("permanent", "transient", "temporary"), self
        assert 0 <= self.shutdown_s < math.inf, self


@final
@attrs.frozen
class Restart:
    """Begin another life after ``delay_s`` seconds."""

    delay_s: float


@final
@attrs.frozen
class GiveUp:
    """The budget is used up: the supervisor fails."""


@final
@attrs.frozen
class Done:
    """The child has ended for good, and that is all right."""


Decision = Restart | GiveUp | Done


def recent(history: Sequence[float], budget: Budget, now: float) -> tuple[float, ...]:
    """The restarts of ``history`` (times in seconds) that still count against ``budget``."""
    return tuple(moment for moment in history if now - moment < budget.within_s)


def decide(spec: ChildSpec[StartT], history: Sequence[float], outcome: Outcome, now: float) -> Decision:
    """What to do after one life of ``spec`` ended with ``outcome`` at ``now``.

    ``history`` holds the moments at which earlier restarts were granted, in seconds of the clock of ``now``.
    """
    if spec.restart == "temporary" or (spec.restart == "transient" and outcome is Outcome.RETURNED):
        return Done()
    count = len(recent(history, spec.budget, now))
    if count >= spec.budget.restarts:
        return GiveUp()  # D2
    return Restart(_delay_s(count))


def _delay_s(count: int) -> float:
    """The wait before a restart that follows ``count`` recent ones (D3)."""
    if count == 0:
        return 0.0
    # ldexp instead of 2.0 ** n: a budget of thousands must not overflow; the exponent is cut for the same reason.
    return min(RESTART_DELAY_S_MAX, math.ldexp(RESTART_DELAY_FIRST_S, min(count - 1, 64)))
