"""What occupies an agent: all that one call of ``prompt``, or another call that must have it for itself, leads to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import attrs
import trio

from .errors import AgentError
from .signals import AbortSignal


@final
@attrs.define(eq=False)
class Activity:
    """One of them. ``signal``: set when somebody wants it to end by itself; ``is_over``: set when it has."""

    signal: AbortSignal = attrs.field(factory=AbortSignal, init=False)
    is_over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _task: trio.lowlevel.Task | None = attrs.field(default=None, init=False)
    _around: frozenset[trio.Nursery] = attrs.field(default=frozenset(), init=False)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Around its body, in the task that does it."""
        self._task = trio.lowlevel.current_task()
        self._around = frozenset(self._task.child_nurseries)
        try:
            with self._scope:
                yield
        finally:
            self.is_over.set()

    def check_outside(self) -> None:
        """Refuse to wait for the end from within: a tool, hook or listener, or a task of one, would wait for itself."""
        task = trio.lowlevel.current_task()
        came_by: trio.Nursery | None = None
        while task is not self._task:
            came_by = task.parent_nursery
            if came_by is None:
                return
            task = came_by.parent_task
        if came_by not in self._around:
            text = (
                "a run can not wait for its own end; abort() it here, and wait or close outside of its tools and hooks"
            )
            raise AgentError("E_AGENT_RUNNING", text)

    async def end(self, deadline_s: float) -> None:
        """Let it end, and cancel it if that takes longer. Cancelled: it is cancelled at once, and waited for."""
        self.signal._set()
        try:
            with trio.move_on_after(deadline_s):
                await self.is_over.wait()
        finally:
            self._scope.cancel()
            # Shielded: nothing may survive the closing. It ends: the work is cancelled, its last words are short.
            with trio.CancelScope(shield=True):
                await self.is_over.wait()
