"""Stories on simulated machines that are cancelled one step later each time, until one completes untouched."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from kit.simulated_runtimes import run_seeded
from strataflow.runtime.simulation.seams import SimulatedMachine

Story = Callable[[SimulatedMachine, list[Any]], Awaitable[None]]


class CancelAt(trio.abc.Instrument):
    """Cancels a scope after a number of task steps."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope, self._left = scope, step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


def every_cancellation(story: Story) -> Any:
    """Yield machine and notes of runs cancelled ever later, until one completes."""
    for step in itertools.count(1):
        machine, notes, completed = SimulatedMachine(step), [], []

        async def body(
            step: int = step, machine: Any = machine, notes: list[Any] = notes, completed: list[bool] = completed
        ) -> None:
            with trio.CancelScope() as scope:
                instrument = CancelAt(scope, step)
                trio.lowlevel.add_instrument(instrument)
                try:
                    await story(machine, notes)
                    completed.append(not scope.cancel_called)
                finally:
                    trio.lowlevel.remove_instrument(instrument)

        run_seeded(7, body)
        yield step, machine, notes
        if completed == [True]:
            return
