"""Two processes that publish at the same moment, round by round, into one store, without backups and with them.

In the same directory and in different ones, each into its own session's memory and into the one that all share. A round
is a patch and an answer; each of the two begins for both processes at once and ends when both have been answered.

With backups every answer makes a commit due and a push to a bare repository; the next round begins when nothing of that
is under way any more. What comes after the rounds shows that nobody waits for a push: while the remote holds one, both
processes go on. At last one of them has an answer alone, so that the last backup has everything; a clone of the remote
is then compared with the store.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import trio

from ...inspection import inspect_store
from ...opening import open_runtime
from ..children import answer_of, begin, started
from ..provenance import git_version
from .backing import Backing, readable
from .bounds import Bound
from .phases import Json, Phase, Progress, distribution, phase
from .publisher import session_of, store_in
from .workload import CWD, OTHER_CWD, Workload

_PUBLISHERS = 2
_CASES = tuple((same_cwd, scope) for same_cwd in (True, False) for scope in ("session", "global"))
_MEANWHILE_S = 5.0
_Child = subprocess.Popen[str]


@attrs.define(eq=False)
class Backed:
    """What the backups of a case came to.

    Attributes:
      quiet_ms: from the answers of each round until no backup and no push was under way.
      held_ms: how long each pair of answers took that came while the remote held a push.
      waited: how many answers came only after the push that they were to come before; None: not known.
      troubles: events of backups and pushes, by their name.
    """

    quiet_ms: list[float] = attrs.field(factory=list)
    held_ms: list[float] = attrs.field(factory=list)
    waited: int | None = None
    commits: int = 0
    pushes: int = 0
    troubles: Counter[str] = attrs.field(factory=Counter)

    def to_json(self, *, with_times: bool) -> Json:
        """For the report."""
        return {
            "commits": self.commits,
            "pushes": self.pushes,
            "skippedPushes": self.troubles["push-skipped"],
            "failedPushes": self.troubles["push-failed"],
            "deferredBackups": self.troubles["backup-deferred"],
            "failedBackups": self.troubles["backup-failed"],
            "answersWhilePushIsHeld": len(self.held_ms) * _PUBLISHERS,
            "answersThatWaitedForPush": self.waited,
            "answerWhilePushIsHeldMs": distribution(self.held_ms) if with_times else None,
            "quietMs": distribution(self.quiet_ms) if with_times else None,
        }


@attrs.define(eq=False)
class Publishers:
    """One case. ``last``: of each publisher, the last round that was accepted. ``backed``: None without backups."""

    same_cwd: bool
    scope: str
    backed: Backed | None = None
    attempts: int = 0
    accepted: list[int] = attrs.field(factory=lambda: [0] * _PUBLISHERS)
    answered: list[int] = attrs.field(factory=lambda: [0] * _PUBLISHERS)
    last: list[int] = attrs.field(factory=lambda: [0] * _PUBLISHERS)
    wall_ms: list[float] = attrs.field(factory=list)
    answer_ms: list[float] = attrs.field(factory=list)
    errors: Counter[str] = attrs.field(factory=Counter)
    is_sound: bool = False

    @property
    def name(self) -> str:
        """For a person."""
        text = f"{'same' if self.same_cwd else 'different'} directory, {self.scope} memory"
        return text if self.backed is None else f"{text}, backups"

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
            "answers": sum(self.answered),
            "answerMs": distribution(self.answer_ms) if self.is_sound else None,
            "backups": None if self.backed is None else self.backed.to_json(with_times=self.is_sound),
        }


def play_publishers(
    folder: str, workload: Workload, phases: list[Phase], progress: Progress
) -> tuple[list[Publishers], list[Bound]]:
    """Play all four cases without backups and, where there is Git, with them; each in a store of its own."""
    found = [Publishers(same_cwd, scope) for same_cwd, scope in _CASES]
    if git_version() is not None:
        found += [Publishers(same_cwd, scope, Backed()) for same_cwd, scope in _CASES]
    for number, case in enumerate(found):
        progress(f"two processes, {case.name}")
        place = os.path.join(folder, str(number))
        os.mkdir(place)
        with phase(phases, case.name) as part:
            backing = None if case.backed is None else Backing.made(place, store_in(place))
            _publish(place, case, backing, workload.rounds, part)
            with part.timed("verified"):
                if backing is not None:
                    _verify_backup(backing, case, part)
                trio.run(_verify, store_in(place), case, part)
                part.check("the doctor finds nothing", inspect_store(store=store_in(place)).diagnose().is_clean)
        case.is_sound = phases[-1].is_passed
    return found, []


def _publish(place: str, case: Publishers, backing: Backing | None, rounds: int, part: Phase) -> None:
    jobs: list[dict[str, Any]] = [
        {"folder": place, "number": number, "cwd": cwd, "scope": case.scope} for number, cwd in enumerate(case.folders)
    ]
    before = time.perf_counter()
    with started("publish", jobs) as children:
        part.times_ms["started"] = (time.perf_counter() - before) * 1e3
        with part.timed("rounds"):
            for _ in range(rounds):
                wall_ms, answer_ms = _turn(children, case)
                case.wall_ms.append(wall_ms)
                case.answer_ms.append(answer_ms)
                if case.backed is not None:
                    case.backed.quiet_ms.append(_together(children, "settle")[0])
        if backing is not None and case.backed is not None:
            with part.timed("whileHeld"):
                _answer_while_held(children, case, case.backed, backing, part)
            with part.timed("alone"):
                _answer_alone(children, case, part)
        with part.timed("ended"):
            _, ends = _together(children, "end")
            codes = [child.wait() for child in children]
    if case.backed is not None:
        for troubles in ends:
            case.backed.troubles.update(troubles)
    part.count("attempts", case.attempts)
    part.count("accepted", sum(case.accepted))
    part.count("answers", sum(case.answered))
    part.check("both processes ended well", codes == [0] * len(ends))
    part.check("every attempt was answered", sum(case.accepted) + sum(case.errors.values()) == case.attempts)


def _together(children: Sequence[_Child], word: str) -> tuple[float, list[Json]]:
    """Have children do the same at once: how long it took until all were done (ms), and what each has answered."""
    before = time.perf_counter()
    for child in children:
        begin(child, word)
    answers = [answer_of(child) for child in children]
    return (time.perf_counter() - before) * 1e3, answers


def _turn(children: Sequence[_Child], case: Publishers) -> tuple[float, float]:
    """A patch and an answer of each of the first publishers: how long the two took (ms)."""
    wall_ms, answers = _together(children, "patch")
    for number, answer in enumerate(answers):
        case.attempts += 1
        if answer["error"] is None:
            case.accepted[number] += 1
            case.last[number] = answer["round"]
        else:
            case.errors[answer["error"]] += 1
    answer_ms, answers = _together(children, "answer")
    for number in range(len(answers)):
        case.answered[number] += 1
    return wall_ms, answer_ms


def _answer_while_held(
    children: Sequence[_Child], case: Publishers, backed: Backed, backing: Backing, part: Phase
) -> None:
    """Two turns: the first brings about a push, which the remote holds until everybody has the second behind them.

    Whoever else wants to push meanwhile skips it; that is waited for, but not for long: a push has a limit.
    """
    with backing.held() as hold:
        _turn(children, case)
        hold.wait()
        backed.held_ms.append(_turn(children, case)[1])
        for child in children:
            begin(child, "settle")
        readable([child.stdout.fileno() for child in children if child.stdout is not None], _MEANWHILE_S)
        # It has been held all the time, so all that was answered was answered before it.
        is_held = hold.release()
        for child in children:
            answer_of(child)
    backed.waited = 0 if is_held else None
    part.check("answers came while a push was held", is_held)


def _answer_alone(children: Sequence[_Child], case: Publishers, part: Phase) -> None:
    _turn(children[:1], case)
    _, (settled,) = _together(children[:1], "settle")
    part.check("the last answer was backed up and pushed", settled == {"push": "pushed", "isDue": False})


def _verify_backup(backing: Backing, case: Publishers, part: Phase) -> None:
    """The last backup is the store, also for whoever has nothing but the remote."""
    assert case.backed is not None
    case.backed.commits, case.backed.pushes = backing.commits(), backing.pushes()
    part.check("there is at most one commit for each answer", 0 < case.backed.commits <= sum(case.answered))
    part.check("the remote has the last backup", backing.is_pushed())
    clone = backing.cloned()
    part.check("a clone of the remote has the files of the store", backing.is_equal(clone))
    part.check("the doctor finds nothing in the clone", inspect_store(store=clone).diagnose().is_clean)
    trio.run(_verify, clone, case, part)


async def _verify(store: str, case: Publishers, part: Phase) -> None:
    """A store opens for the next one, and holds what was accepted, once each."""
    async with open_runtime(store=store) as runtime:
        for number, cwd in enumerate(case.folders):
            session = await runtime.open_session(cwd, session_of(number))
            found = (await session.read_state(f"{case.scope}.working.{session_of(number)}.round")).value
            part.check("the last accepted round is memory", found == (case.last[number] or None))
            part.check(
                "one transition for each that was accepted",
                (await session.status())["step"] == case.accepted[number] + case.answered[number],
            )
