"""Processes of a simulated machine that live side by side in one trio run and can be killed."""

from __future__ import annotations

from typing import Any

import attrs
import trio

from kit.simulated_runtimes import simulated
from strataflow.runtime import Runtime, Session
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.runtime.simulation.threads import ProcessKilled


@attrs.define(eq=False)
class Process:
    """One process with one runtime, in a task of its own. Its sessions may be used from any task."""

    machine: SimulatedMachine
    name: str
    options: dict[str, Any]
    runtime: Runtime = attrs.field(init=False)
    sessions: dict[tuple[str, str], Session] = attrs.field(factory=dict)
    is_killed: bool = False
    _stop: trio.Event = attrs.field(factory=trio.Event)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _ended: trio.Event = attrs.field(factory=trio.Event)

    @classmethod
    async def start(cls, nursery: trio.Nursery, machine: SimulatedMachine, name: str, **options: Any) -> Process:
        process = cls(machine, name, options)
        await nursery.start(process._run)
        return process

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self._scope:
                async with simulated(self.machine, self.name, **self.options) as runtime:
                    self.runtime = runtime
                    task_status.started()
                    await self._stop.wait()
        except BaseException as error:
            # What a killed process still says is no news; everything else is.
            if not self.is_killed or isinstance(error, trio.Cancelled):
                raise
        finally:
            self._ended.set()

    async def session(self, cwd: str, key: str) -> Session:
        if (cwd, key) not in self.sessions:
            self.sessions[cwd, key] = await self.runtime.open_session(cwd, key, "active")
        return self.sessions[cwd, key]

    async def close(self) -> None:
        """End it in good order."""
        self._stop.set()
        await self._ended.wait()
        self.machine.table.kill(self.name)

    async def kill(self) -> None:
        """``kill -9``: nothing of it happens any more."""
        self.is_killed = True
        self.machine.kill(self.name)
        self._scope.cancel()
        self._stop.set()
        await self._ended.wait()


__all__ = ["Process", "ProcessKilled"]
