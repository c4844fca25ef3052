"""Stopping all tasks of a simulated process at once, as SIGSTOP does, and letting them go on later.

A task belongs to a process by a context variable, which tasks hand on to the tasks they start. While a process is
frozen each of its tasks is put aside when its next step would begin: the step is replaced by a wait that nothing ends.
Deadlines pass meanwhile, messages arrive, locks stay held; after the thaw every task takes the step that it would have
taken.

trio has no call for this. What is used of its inside is the pair ``_next_send_fn``, ``_next_send`` of a task, which
hold its next step; an instrument may look at a task at exactly the moment when that is set. The instrument is there
only while something is frozen, so that all other time costs nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, final

import attrs
import trio
from trio.lowlevel import Abort

# Who acts: the name of a simulated process; empty for the world itself.
ACTING: ContextVar[str] = ContextVar("strataflow_acting", default="")


@final
@attrs.define(eq=False)
class Freezer(trio.abc.Instrument):
    """One per world."""

    _parked: dict[str, list[tuple[trio.lowlevel.Task, Any]]] = attrs.field(factory=dict, init=False)

    def is_frozen(self, process: str) -> bool:
        """Whether a process stands still."""
        return process in self._parked

    def freeze(self, process: str) -> None:
        """Stop a process; the step that is under way ends first."""
        if not self._parked:
            trio.lowlevel.add_instrument(self)
        self._parked.setdefault(process, [])

    def thaw(self, process: str) -> None:
        """Let it go on."""
        parked = self._parked.pop(process, None)
        if parked is None:
            return
        if not self._parked:
            trio.lowlevel.remove_instrument(self)
        for task, send in parked:
            trio.lowlevel.reschedule(task, send)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        parked = self._parked.get(task.context.get(ACTING, ""))
        if parked is not None:
            parked.append((task, task._next_send))
            task._next_send_fn = _park


def _park(_send: Any) -> Any:
    """What a task's step is replaced by: it waits, and not even a cancellation wakes it."""
    waiting = trio.lowlevel.wait_task_rescheduled(_never)  # noqa: ASYNC105
    message = waiting.send(None)
    waiting.close()
    return message


def _never(_raise: Any) -> Abort:
    return Abort.FAILED
