"""Which faults a simulated world injects: by chance, so many for each call, or at exact places.

A rate is the chance that a call of a client brings a fault of this kind about: soon after the call has begun, at a
moment that the seed chooses. So faults come as often as there is work, recovery meets them too, and when nobody calls
any more they stop.

A place is a kind and a number: that of the operation, lock, append or call at which it strikes (see ``KINDS``). The
faults that a run has injected are told as places, which repeat them without chance; a smaller set of them is how a
failing run is made smaller.

As text: ``kill=0.02,power=0.005`` for rates, ``kill@517,power@903:torn:7`` for places, both mixed, ``none`` or
``default``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, final

import attrs

from ...store import ConfigError, Json, shown

# What the numbers of places count: operations of the disk, locks that were obtained, appends to the journal, calls of
# clients, blocking calls in worker threads.
Counted = Literal["operation", "lock", "append", "call", "thread"]

KINDS: Mapping[str, Counted] = MappingProxyType(
    {
        "kill": "operation",  # a process ends, as by SIGKILL, before its next operation
        "power": "operation",  # the machine stops; detail: lose, keep or torn, and a seed
        "eio": "operation",  # an operation that is no sync fails
        "eio-sync": "operation",  # a sync fails
        "enospc": "operation",  # operations that need room fail; detail: how many
        "short": "operation",  # of what is written a part arrives, the rest fails; detail: so many bytes
        "readonly": "operation",  # the file system can only be read for a while; detail: seconds
        "eacces": "operation",  # an operation is not permitted
        "eintr": "operation",  # an operation is interrupted
        "slow": "thread",  # a blocking call takes long, or halts; detail: seconds, and before which operation
        "freeze": "lock",  # a process stops with a lock in its hand; detail: seconds, then thaw or kill
        "busy": "append",  # SQLite is busy
        "cancel": "call",  # the caller is cancelled; detail: after how many passes of the loop
        "stop": "call",  # a program is asked to end; detail: after how many passes, and which of those that run
        "jump": "call",  # somebody sets the clock; detail: milliseconds
        "foreign": "call",  # somebody writes canonical files without our locks; detail: a seed
    }
)

_SECONDS = r"\d+(\.\d+)?"
# What a detail may be; of kinds that are not here nothing more can be said.
_DETAILS: Mapping[str, str] = MappingProxyType(
    {
        "power": r"(lose|keep|torn)(:\d+)?",
        "enospc": r"[1-9]\d*",
        "short": r"\d+",
        "readonly": _SECONDS,
        "slow": rf"{_SECONDS}(:\d+)?",
        "freeze": rf"{_SECONDS}(:(thaw|kill))?",
        "cancel": r"\d+",
        "stop": r"\d+(:\d+)?",
        "jump": r"-?\d+",
        "foreign": r"\d+",
    }
)

_DEFAULT: Mapping[str, float] = MappingProxyType(
    {
        "kill": 0.015,
        "power": 0.01,
        "eio": 0.004,
        "eio-sync": 0.004,
        "enospc": 0.004,
        "short": 0.004,
        "readonly": 0.002,
        "eacces": 0.003,
        "eintr": 0.003,
        "slow": 0.08,
        "freeze": 0.01,
        "busy": 0.02,
        "cancel": 0.03,
        "stop": 0.005,
        "jump": 0.005,
        "foreign": 0.005,
    }
)


def _checked_rates(rates: Mapping[str, float]) -> Mapping[str, float]:
    for kind, rate in rates.items():
        if kind not in KINDS:
            raise _bad(f"there is no fault {shown(kind)}; the faults are {', '.join(KINDS)}")
        if not (isinstance(rate, int | float) and 0 <= rate <= 1):
            raise _bad(f"the rate of {kind} is {shown(rate)}; it must be a number from 0 to 1")
    return {kind: float(rates[kind]) for kind in KINDS if rates.get(kind)}


@final
@attrs.frozen
class Fault:
    """One fault at an exact place.

    Attributes:
      kind: one of ``KINDS``.
      at: the number, from 1, of what this kind counts.
      detail: what else there is to say, in words joined by colons; empty: the seed chooses.
    """

    kind: str
    at: int
    detail: str = ""

    def __attrs_post_init__(self) -> None:
        if self.kind not in KINDS:
            raise _bad(f"there is no fault {shown(self.kind)}; the faults are {', '.join(KINDS)}")
        if self.detail and not re.fullmatch(_DETAILS.get(self.kind, ""), self.detail):
            raise _bad(f"{self.kind}: there is no detail {shown(self.detail)}; leave it out, and one is chosen")

    def __str__(self) -> str:
        return f"{self.kind}@{self.at}{':' + self.detail if self.detail else ''}"


@final
@attrs.frozen
class FaultPlan:
    """Rates and places. Immutable; ``str`` gives the text that ``parse`` reads.

    Attributes:
      rates: by kind, the chance for each call.
      places: faults that certainly happen, if the run comes to their number.

    Raises:
      ConfigError: E_CONFIG for an unknown kind or a rate outside 0 to 1.
    """

    rates: Mapping[str, float] = attrs.field(factory=dict, converter=_checked_rates)
    places: tuple[Fault, ...] = ()

    @classmethod
    def none(cls) -> FaultPlan:
        """No faults at all."""
        return cls()

    @classmethod
    def default(cls) -> FaultPlan:
        """Every kind, at rates that leave a small run some faults and a large one many."""
        return cls(_DEFAULT)

    @classmethod
    def parse(cls, text: str) -> FaultPlan:
        """Read what ``str`` wrote, or a person: ``default``, ``none``, or items joined by commas.

        ``default,kill=0.1`` takes the default rates with another one for ``kill``.

        Raises:
          ConfigError: E_CONFIG that names the item and what is wrong with it.
        """
        rates: dict[str, float] = {}
        places: list[Fault] = []
        for item in filter(None, (part.strip() for part in text.split(","))):
            if item in ("none", "default"):
                rates.update(_DEFAULT if item == "default" else {})
            elif "@" in item:
                kind, _, where = item.partition("@")
                number, _, detail = where.partition(":")
                if not number.isdecimal() or int(number) < 1:
                    raise _bad(f"{shown(item)}: after the @ comes a number from 1")
                places.append(Fault(kind, int(number), detail))
            else:
                kind, sign, rate = item.partition("=")
                try:
                    rates[kind] = float(rate) if sign else _DEFAULT[kind]
                except (ValueError, KeyError):
                    raise _bad(f"{shown(item)} is none of: default, none, KIND=RATE, KIND@NUMBER") from None
        return cls(rates, tuple(places))

    def __str__(self) -> str:
        if self.rates == _DEFAULT and not self.places:
            return "default"
        items = [*(f"{kind}={rate:g}" for kind, rate in self.rates.items()), *map(str, self.places)]
        return ",".join(items) or "none"

    def to_json(self) -> Json:
        """Rates by kind, places as objects."""
        return {"rates": dict(self.rates), "places": [attrs.asdict(fault) for fault in self.places]}

    @classmethod
    def from_json(cls, document: Any) -> FaultPlan:
        """The inverse of ``to_json``.

        Raises:
          ConfigError: E_CONFIG for anything else.
        """
        try:
            return cls(document["rates"], tuple(Fault(**fault) for fault in document["places"]))
        except (TypeError, KeyError, AttributeError):
            raise _bad(f"{shown(document)} is no fault plan: it needs rates and places") from None


def _bad(text: str) -> ConfigError:
    return ConfigError("E_CONFIG", f"fault plan: {text}", argument="faults")
