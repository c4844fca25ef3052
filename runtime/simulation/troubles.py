"""What went wrong in a world, and whether that may be: refusals need a fault that explains them, defects need none.

An error that is none of the library's, or an assertion that failed, is a violation whatever the faults were. So is a
refusal that no injected fault can have caused.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import final

import attrs
import trio

from ...store import StrataflowError
from ..reports import CloseReport
from .history import Call, Violation
from .threads import ProcessKilled

_DISK = frozenset(
    {"eio", "eio-sync", "enospc", "short", "readonly", "eacces", "power", "kill", "slow", "freeze", "busy"}
)
# By which faults a refusal of the store is explained.
_CAUSES: Mapping[str, frozenset[str]] = {
    "E_DISK": _DISK,
    "E_BROKEN": _DISK,
    "E_CLOSED": _DISK,
    "E_BUSY": _DISK | {"foreign"},
    "E_LOCK": _DISK,
    "E_CORRUPT": frozenset({"foreign"}),
    "E_UNSUPPORTED": frozenset(),
}
# What no store can be at a loss about: all that it begins it ends.
HARMLESS = frozenset({"cancel", "stop", "jump", "busy", "eintr"})
# How often a process may fail to begin a life before that is a violation.
_FAILURES_MAX = 1000


@final
@attrs.define(eq=False)
class Troubles:
    """Collects violations."""

    violations: list[Violation] = attrs.field(factory=list)
    are_fatal: bool = False
    _failures: int = 0

    def add(self, violation: Violation) -> None:
        """A promise that was not kept. The run ends."""
        self.violations.append(violation)
        self.are_fatal = True

    def note_closing(self, who: str, report: CloseReport, *, calm: bool) -> None:
        """How a process was closed that nobody killed. ``calm``: nothing has gone wrong so far that explains it."""
        if calm and report.left_behind:
            self.add(Violation("unclean-close", f"{who}: closing left behind: {'; '.join(report.left_behind)}", ()))

    def note_refusal(self, call: Call, error: StrataflowError, faults: Mapping[str, int]) -> None:
        """A call was refused."""
        if not is_explained(error, faults):
            text = f"{call.process} was refused although nothing had happened that explains it: {error}"
            self.add(Violation("unexpected-error", text, (call.number,)))

    def note_error(self, who: str, error: BaseException, faults: Mapping[str, int]) -> None:
        """What ended a process that nobody killed."""
        for leaf in leaves(error):
            if isinstance(leaf, ProcessKilled | trio.Cancelled):
                continue
            if isinstance(leaf, AssertionError):
                self.add(Violation("assertion", f"{who}: {_told(leaf)}", ()))
            elif not isinstance(leaf, StrataflowError) or not is_explained(leaf, faults):
                self.add(Violation("unexpected-error", f"{who}: {_told(leaf)}", ()))
        self._failures += 1
        if self._failures > _FAILURES_MAX and not self.are_fatal:
            text = f"{who}: failed {self._failures} times to begin a life; the last time: {_told(error)}"
            self.add(Violation("unexpected-error", text, ()))

    def note_failed_actor(self, who: str, error: BaseException) -> None:
        """An actor of a process failed. Trouble of the store ends a life of it, whatever else ends one is a defect."""
        for leaf in leaves(error):
            if not isinstance(leaf, StrataflowError | ProcessKilled | trio.Cancelled):
                self.add(Violation("actor-failed", f"{who}: an actor failed: {_told(leaf)}", ()))


def is_explained(error: StrataflowError, faults: Mapping[str, int]) -> bool:
    """Whether faults that have struck so far can have caused a refusal. Those of a call's own arguments need none."""
    causes = _CAUSES.get(error.code)
    return causes is None or any(faults.get(kind) for kind in causes)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {str(error) or 'no text'}{where}"
