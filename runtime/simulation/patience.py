"""How long a world may take: one that hangs must be told from one that waits.

    a call that nobody waits with on purpose, an opening, a closing    2 minutes of virtual time
    the whole run                                                      10 hours of it
    one moment without a call or an answer                             20,000 passes of the event loop

After that the run ends with a violation that tells what hung.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, final

import attrs
import trio

from .history import Call
from .process import Process

if TYPE_CHECKING:
    from trio.testing import MockClock

# The longest wait of the store itself is a minute, between two attempts to write its files; a freeze takes seconds.
PATIENCE_S = 120.0
DEADLINE_S = 36_000.0
# Between two calls or answers there are some hundreds at one moment, if many processes are at work.
PASSES_MAX = 20_000
_LOOK_S = 30.0


@final
@attrs.define(eq=False)
class Impulse(trio.abc.Instrument):
    """Lets time pass in a run that goes round and round while its clock stands still, so that the deadline comes.

    ``moment_s``: of the last call or answer.
    """

    _clock: MockClock
    _moment_s: Callable[[], float]
    _passes: int = 0
    _seen: tuple[float, float] = (0.0, 0.0)

    def before_io_wait(self, timeout: float) -> None:
        now = self._clock.current_time(), self._moment_s()
        if now != self._seen:
            self._passes, self._seen = 0, now
        self._passes += 1
        if self._passes > PASSES_MAX:
            self._passes = 0
            self._clock.jump(DEADLINE_S)


async def watch(
    pending: Collection[Call], living: Collection[Process], found: Callable[[str], None], limit: trio.CancelScope
) -> None:
    """Look from time to time for calls and processes that have hung too long; then tell and cancel ``limit``."""
    busy_since: dict[str, float] = {}
    while True:
        await trio.sleep(_LOOK_S)
        now = trio.current_time()
        # A process is busy while it opens or closes its store; its calls have their own times.
        busy_since = {
            process.name: busy_since.get(process.name, now) for process in living if process.is_opening_or_closing
        }
        late = [f"call {call.number} ({call.kind} of {call.process})" for call in pending if is_late(call.begun_s, now)]
        late += [f"{name} (opening or closing)" for name, since in busy_since.items() if is_late(since, now)]
        if late:
            found(f"nothing has come of it for {PATIENCE_S:g} s of virtual time: {', '.join(late)}")
            limit.cancel()
            return


def is_late(since_s: float, now_s: float) -> bool:
    """Whether it has lasted too long."""
    return now_s - since_s > PATIENCE_S
