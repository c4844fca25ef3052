"""Cancelling a program at a step of its tasks."""

from __future__ import annotations

import trio


class CancelAt(trio.abc.Instrument):
    """Cancels a scope after a number of task steps."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope, self._left = scope, step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()
