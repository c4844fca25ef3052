"""Telling the listeners of an agent what happens beside the events of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from ..events import AgentEvent
from ..options import settled
from ..signals import AbortSignal
from ..tools import Listener


class Tell(Protocol):
    """Tells one event to all, one after the other. Raises what a listener raises."""

    async def __call__(self, event: AgentEvent, /) -> None: ...


def teller(listeners: Callable[[], Iterable[Listener]], signal: Callable[[], AbortSignal | None]) -> Tell:
    """Tells these listeners, read anew each time; ``signal`` of what is going on, if anything is."""

    async def tell(event: AgentEvent, /) -> None:
        for listener in [*listeners()]:
            await settled(listener(event, signal() or AbortSignal()))

    return tell
