"""Two processes that publish at the same moment, round by round, into one store.

In the same directory and in different ones, each into its own session's memory and into the one that all share. Every
round begins for both at once and ends when both have been answered.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from typing import Any

import attrs
import trio

from ...inspection import inspect_store
from ...opening import open_runtime
from ..children import answer_of, begin, started
from .bounds import Bound
from .phases import Json, Phase, Progress, distribution, phase
from .publisher import session_of, store_in
from .workload import CWD, OTHER_CWD, Workload

_PUBLISHERS = 2
_CASES = tuple((same_cwd, scope) for same_cwd in (True, False) for scope in ("session", "global"))


@attrs.define(eq=False)
class Publishers:
    """One case. ``last``: of each publisher, the last round that was accepted."""

    same_cwd: bool
    scope: str
    attempts: int = 0
    accepted: list[int] = attrs.field(factory=lambda: [0] * _PUBLISHERS)
    last: list[int] = attrs.field(factory=lambda: [0] * _PUBLISHERS)
    wall_ms: list[float] = attrs.field(factory=list)
    errors: Counter[str] = attrs.field(factory=Counter)
    is_sound: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        """The working directory of each publisher."""
        return (CWD, CWD if self.same_cwd else OTHER_CWD)

    def to_json(self) -> Json:
        """For the report."""
        return {
            "sameCwd": self.same_cwd,
            "scope": self.scope,
            "attempts": self.attempts,
            "accepted": sum(self.accepted),
            "failed": sum(self.errors.values()),
            "wallMs": distribution(self.wall_ms) if self.is_sound else None,
            "errors": dict(self.errors),
        }


def play_publishers(
    folder: str, workload: Workload, phases: list[Phase], progress: Progress
) -> tuple[list[Publishers], list[Bound]]:
    """Play all four cases, each in a store of its own."""
    found = []
    for number, (same_cwd, scope) in enumerate(_CASES):
        case = Publishers(same_cwd, scope)
        name = f"{'same' if same_cwd else 'different'} directory, {scope} memory"
        progress(f"two processes, {name}")
        place = os.path.join(folder, str(number))
        os.mkdir(place)
        with phase(phases, name) as part:
            _publish(place, case, workload.rounds, part)
            with part.timed("verified"):
                trio.run(_verify, place, case, part)
                part.check("the doctor finds nothing", inspect_store(store=store_in(place)).diagnose().is_clean)
        case.is_sound = phases[-1].is_passed
        found.append(case)
    return found, []


def _publish(place: str, case: Publishers, rounds: int, part: Phase) -> None:
    jobs: list[dict[str, Any]] = [
        {"folder": place, "number": number, "cwd": cwd, "scope": case.scope, "rounds": rounds}
        for number, cwd in enumerate(case.folders)
    ]
    before = time.perf_counter()
    with started("publish", jobs) as children:
        part.times_ms["started"] = (time.perf_counter() - before) * 1e3
        with part.timed("rounds"):
            for _ in range(rounds):
                _round(children, case)
        with part.timed("ended"):
            for child in children:
                begin(child)
            ends = [answer_of(child) for child in children]
            codes = [child.wait() for child in children]
    part.count("attempts", case.attempts)
    part.count("accepted", sum(case.accepted))
    part.check("both processes ended well", codes == [0] * len(ends))
    part.check("every attempt was answered", sum(case.accepted) + sum(case.errors.values()) == case.attempts)


def _round(children: list[subprocess.Popen[str]], case: Publishers) -> None:
    before = time.perf_counter()
    for child in children:
        begin(child)
    answers = [answer_of(child) for child in children]
    case.wall_ms.append((time.perf_counter() - before) * 1e3)
    for number, answer in enumerate(answers):
        case.attempts += 1
        if answer["error"] is None:
            case.accepted[number] += 1
            case.last[number] = answer["round"]
        else:
            case.errors[answer["error"]] += 1


async def _verify(place: str, case: Publishers, part: Phase) -> None:
    """The store opens for the next one, and holds what was accepted, once each."""
    async with open_runtime(store=store_in(place)) as runtime:
        for number, cwd in enumerate(case.folders):
            session = await runtime.open_session(cwd, session_of(number))
            found = (await session.read_state(f"{case.scope}.working.{session_of(number)}.round")).value
            part.check("the last accepted round is memory", found == (case.last[number] or None))
            part.check(
                "one transition for each that was accepted", (await session.status())["step"] == case.accepted[number]
            )
