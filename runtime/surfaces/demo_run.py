"""The run of the demo: writers as real processes, one of them killed in the middle and replaced.

READY (all writers have the store open) -> WRITING -> one is killed -> its replacement goes on -> all have ended
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import attrs
import trio

from .. import Inspector, StoreError
from .demo_backup import DemoBackups
from .demo_check import read_claims
from .demo_plan import Plan, session_name
from .terminal import Progress

# Longer than any machine that works needs.
WRITERS_DEADLINE_S = 120.0
_WRITER = f"{__package__}.demo_writer"
_LOOK_EVERY_S = 0.2
_ROWS_MAX = 100_000


class DemoFailedError(Exception):
    """A writer could not do its work; the text says which and why."""


@attrs.define
class Kill:
    """What happened to the process that was killed, and to the one in its place."""

    process: int
    pid: int
    acknowledged: int
    replacement_pid: int = 0
    first_answer_s: float = 0.0


@final
@attrs.define(eq=False)
class _Child:
    """One writer process."""

    process: int
    life: int
    notes: Path
    running: trio.Process
    acknowledged: int = 0
    is_ready: trio.Event = attrs.field(factory=trio.Event)
    has_answer: trio.Event = attrs.field(factory=trio.Event)
    has_ended: trio.Event = attrs.field(factory=trio.Event)
    is_killed: bool = False

    async def go(self) -> None:
        """Wait until it has the store open, then let it write."""
        await self.is_ready.wait()
        assert self.running.stdin is not None
        await self.running.stdin.send_all(b"go\n")


@final
@attrs.define(eq=False)
class DemoRun:
    """One run. ``rows`` is what was seen of the journal meanwhile: sequence, then the net records by scope."""

    plan: Plan
    inspector: Inspector
    agent_dir: Path
    notes_folder: Path
    durability: str
    progress: Progress
    backups: DemoBackups
    rows: dict[int, Any] = attrs.field(factory=dict)
    acknowledged: int = 0
    seconds: float = 0.0
    kill: Kill | None = None
    _children: list[_Child] = attrs.field(factory=list)
    _is_half_done: trio.Event = attrs.field(factory=trio.Event)
    _failure: str = ""

    async def run(self) -> None:
        """Start, kill, replace, wait. However it ends, every process it started is gone.

        Raises:
          DemoFailedError: a writer ended with an error, or the deadline has passed.
        """
        with trio.move_on_after(WRITERS_DEADLINE_S) as deadline:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._look_often)
                await self.backups.prepare()
                for number in range(self.plan.processes):
                    await self._start(nursery, number, 0, [0] * self.plan.sessions)
                for child in self._children:
                    await child.is_ready.wait()
                began = time.monotonic()
                for child in list(self._children):
                    await child.go()
                nursery.start_soon(self.backups.go_on)
                await self._is_half_done.wait()
                await self._replace_one(nursery)
                for child in self._children:
                    await child.has_ended.wait()
                self.seconds = time.monotonic() - began
                nursery.cancel_scope.cancel()
        self.progress.end()
        if deadline.cancelled_caught:
            self._failure = f"the writers did not end in {WRITERS_DEADLINE_S:.0f} s"
        if self._failure:
            raise DemoFailedError(self._failure)
        await self._look()
        await self.backups.once()

    async def _start(self, nursery: trio.Nursery, process: int, life: int, begin: Sequence[int]) -> _Child:
        notes = self.notes_folder / f"writer-{process}-life-{life}.jsonl"
        command = [sys.executable, "-m", _WRITER, "--agent-dir", str(self.agent_dir)]
        command += ["--durability", self.durability, "--notes", str(notes), "--process", str(process)]
        command += ["--life", str(life), "--patches", str(self.plan.patches), "--begin", *map(str, begin)]
        running = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child = _Child(process, life, notes, running)
        self._children.append(child)
        nursery.start_soon(self._attend, child, nursery.cancel_scope)
        return child

    async def _attend(self, child: _Child, everything: trio.CancelScope) -> None:
        """Count a writer's answers until it ends."""
        assert child.running.stdout is not None
        try:
            buffer = b""
            async for data in child.running.stdout:
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    self._heard(child, line)
            code = await child.running.wait()
        finally:
            if child.running.returncode is None:
                child.running.kill()
                # Shielded, because a process that is left behind would go on writing; a kill is quick.
                with trio.CancelScope(shield=True):
                    await child.running.wait()
        if code != 0 and not child.is_killed:
            self._failure = f"writer {child.process} (process {child.running.pid}) ended with exit code {code}"
            everything.cancel()
        child.has_ended.set()

    def _heard(self, child: _Child, line: bytes) -> None:
        if line == b"ready":
            child.is_ready.set()
            return
        child.acknowledged += 1
        child.has_answer.set()
        self.acknowledged += 1
        self.progress.show(self.acknowledged, f"{self.plan.processes} processes")
        if self.acknowledged * 2 >= self.plan.total:
            self._is_half_done.set()

    async def _replace_one(self, nursery: trio.Nursery) -> None:
        """Kill the writer that has the most left to do, and start another one where its client notes end."""
        alive = [child for child in self._children if child.running.returncode is None]
        victim = min(alive, key=lambda child: child.acknowledged)
        victim.is_killed = True
        victim.running.kill()
        killed_s = time.monotonic()
        await victim.has_ended.wait()
        self.kill = Kill(victim.process, victim.running.pid, victim.acknowledged)
        self.progress.say(
            f"writer {victim.process} (process {victim.running.pid}) got SIGKILL after {victim.acknowledged} answers"
        )
        begin = [0] * self.plan.sessions
        for claim in read_claims([victim.notes]):
            if claim.seq is not None:
                number = [session_name(victim.process, session) for session in range(self.plan.sessions)]
                begin[number.index(claim.session)] = claim.number + 1
        child = await self._start(nursery, victim.process, 1, begin)
        await child.go()
        self.kill.replacement_pid = child.running.pid
        with trio.CancelScope() as waiting:
            async with trio.open_nursery() as either:
                # It has nothing to write if the one before it had just finished.
                for event in (child.has_answer, child.has_ended):
                    either.start_soon(_cancel_after, event, waiting)
        self.kill.first_answer_s = time.monotonic() - killed_s
        self.progress.say(
            f"process {child.running.pid} took its place and had an answer {self.kill.first_answer_s:.2f} s later"
        )

    async def _look_often(self) -> None:
        while True:
            await self._look()
            await trio.sleep(_LOOK_EVERY_S)

    async def _look(self) -> None:
        """Note what the journal holds: it is pruned once the files have it."""
        try:
            entries = await trio.to_thread.run_sync(self.inspector.log, _ROWS_MAX)
        except StoreError as error:
            if error.code != "E_BUSY":
                raise
            return
        for entry in entries:
            self.rows[entry.seq] = dict(entry.patches)


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
