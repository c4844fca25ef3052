"""What occupies an agent: all that one call of ``prompt``, or another call that must have it for itself, leads to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import attrs
import trio

from .signals import AbortSignal


@final
@attrs.define(eq=False)
class Activity:
    """One of them. ``signal``: set when somebody wants it to end by itself; ``is_over``: set when it has."""

    signal: AbortSignal = attrs.field(factory=AbortSignal, init=False)
    is_over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Around its body, in the task that does it."""
        try:
            with self._scope:
                yield
        finally:
            self.is_over.set()

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
