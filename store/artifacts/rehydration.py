"""Rehydration: which sources are worth reading again before work goes on, within limits (A36, A37).

A route is one source that somebody might read, and why. The plan says of each whether it is read, or its card is
enough, or it is put off; routes are taken by path. Nothing is looked at here, and nothing is made up: sizes and
intents are the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, final, get_args

import attrs

from ..algebra import SCOPES, CallError, ScopeName, shown

RehydrationPhase = Literal["new-bootstrap", "resume-bootstrap", "step"]
ReadIntent = Literal[
    "routine",
    "new-session",
    "relevant-gap",
    "exact-source",
    "exact-edit",
    "contradiction-or-failure",
    "explicit-request",
    "maintenance",
]
DeferralReason = Literal["new-session-scope", "read-count-limit", "source-byte-limit"]

READS_DEFAULT: Final = 1
READ_BYTES_DEFAULT: Final = 64 << 10

_PHASES = get_args(RehydrationPhase)
_INTENTS = get_args(ReadIntent)
_CARD_IS_ENOUGH = ("routine", "new-session")


@final
@attrs.frozen
class RehydrationRoute:
    """One source that may be read.

    Attributes:
      path: of the source.
      scope: whose card it has.
      size_bytes: of the source.
      intent: why somebody would read it.
      must_compile: its card must be compiled anew, so it has to be read.
      card_suffices: the card says all that is asked for; counts for the intent ``relevant-gap`` alone.
    """

    path: str
    scope: ScopeName
    size_bytes: int
    intent: ReadIntent = "routine"
    must_compile: bool = False
    card_suffices: bool = False


@final
@attrs.frozen
class Deferral:
    """A route that is put off, and why."""

    path: str
    reason: DeferralReason


@final
@attrs.frozen
class RehydrationPlan:
    """``reads``: paths to be read, ``materialized``: paths whose card is enough, ``deferred``: the rest. By path."""

    reads: tuple[str, ...] = ()
    materialized: tuple[str, ...] = ()
    deferred: tuple[Deferral, ...] = ()


def plan_rehydration(
    phase: RehydrationPhase,
    routes: Iterable[RehydrationRoute],
    *,
    reads_max: int = READS_DEFAULT,
    bytes_max: int = READ_BYTES_DEFAULT,
) -> RehydrationPlan:
    """Plan which sources to read. ``routes`` is left as it is.

    Args:
      reads_max: how many sources.
      bytes_max: how many bytes of them together. A route that does not fit is put off; a later, smaller one may fit.

    Raises:
      CallError: E_SHAPE: an unknown phase, scope or intent, a size or limit that is no count, a path that stands twice.
    """
    if phase not in _PHASES:
        raise CallError("E_SHAPE", f"phase {shown(phase)} is not one of {', '.join(_PHASES)}")
    _check_count("reads_max", reads_max)
    _check_count("bytes_max", bytes_max)
    reads: list[str] = []
    materialized: list[str] = []
    deferred: list[Deferral] = []
    used = 0
    for route in _ordered(routes):
        if phase == "new-bootstrap" and route.scope == "session":
            deferred.append(Deferral(route.path, "new-session-scope"))
        elif not _is_wanted(route):
            materialized.append(route.path)
        elif len(reads) >= reads_max:
            deferred.append(Deferral(route.path, "read-count-limit"))
        elif used + route.size_bytes > bytes_max:
            deferred.append(Deferral(route.path, "source-byte-limit"))
        else:
            reads.append(route.path)
            used += route.size_bytes
    return RehydrationPlan(tuple(reads), tuple(materialized), tuple(deferred))


def _is_wanted(route: RehydrationRoute) -> bool:
    if route.must_compile:
        return True
    if route.intent == "relevant-gap":
        return not route.card_suffices
    return route.intent not in _CARD_IS_ENOUGH


def _ordered(routes: Iterable[RehydrationRoute]) -> list[RehydrationRoute]:
    found: dict[str, RehydrationRoute] = {}
    for route in routes:
        if route.path in found:
            raise CallError("E_SHAPE", f"{shown(route.path)} is given twice")
        if route.scope not in SCOPES or route.intent not in _INTENTS:
            raise CallError("E_SHAPE", f"{shown(route.path)}: {route.scope} is no scope, or {route.intent} no intent")
        _check_count(f"the size of {shown(route.path)}", route.size_bytes)
        found[route.path] = route
    return [found[path] for path in sorted(found)]


def _check_count(name: str, value: object) -> None:
    if type(value) is not int or value < 0:
        raise CallError("E_SHAPE", f"{name} is a number from 0 on, not {shown(value)}")
