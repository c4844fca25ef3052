"""The compiler actor: looks at the sources of artifact cards. One per process and store.

A round takes every look that waits and carries all of them out as one, whoever asked (only ``_round`` moves it)::

    IDLE --Inspect--> LOOKING --the look came back--> IDLE    everybody who waits in this round is answered
                         |----- nobody waits any more --> IDLE    the look is given up
    Digest: beside the rounds, as many at once as there are threads

What a session has registered is not kept here: whoever asks names the paths, and gets what was seen of them. The store
actor never waits for this one. A look that a patch rests on goes to the port itself (``Commit.look``), so that neither
ten thousand sources of somebody else nor a restart of this actor stand between a patch and its turn.

Invariants:
  C1  An answer rests on a look that began after it was asked for. So a request that arrives during a round is carried
      out in the next one, with all that arrive meanwhile.
  C2  Nothing is answered of a path that its look said nothing of.
  C3  A round that nobody waits for ends, and with it its look.
  C4  Nothing is taken before it is answered, so what a life that fails leaves behind is carried out by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs
import trio

from ..store.artifacts import Digest, Seen
from .actor import Request
from .envelope import Envelope
from .limits import BATCH_MAX
from .mailbox import Mailbox
from .ports import Sources


@final
@attrs.frozen
class Inspect(Request[Mapping[str, Seen]]):
    """Look at these paths, sorted, each once. The answer may say nothing of some, and something of others besides."""

    paths: tuple[str, ...]


@final
@attrs.frozen
class HashSource(Request[Digest]):
    """Hash the bytes at a path."""

    path: str


@final
@attrs.frozen
class CompilerStatistics:
    """Numbers of the compiler actor: looks carried out, requests they answered, and paths looked at."""

    rounds: int
    answered: int
    inspected: int


@final
@attrs.define(eq=False)
class CompilerActor:
    """One life. It keeps nothing, so the next one needs nothing of it."""

    sources: Sources
    _waiting: list[Envelope] = attrs.field(factory=list, init=False)
    _is_looking: bool = attrs.field(default=False, init=False)
    _round: tuple[trio.CancelScope, list[Envelope]] | None = attrs.field(default=None, init=False)
    _rounds: int = attrs.field(default=0, init=False)
    _answered: int = attrs.field(default=0, init=False)
    _inspected: int = attrs.field(default=0, init=False)

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Serve until the mailbox is closed and empty."""
        mailbox.on_withdrawal = self._somebody_left
        async with trio.open_nursery() as nursery:
            task_status.started()
            while (first := await mailbox.receive()) is not None:
                for envelope in (first, *mailbox.receive_batch_nowait(BATCH_MAX - 1)):
                    if isinstance(envelope.message, Inspect):
                        self._waiting.append(envelope)
                    else:
                        nursery.start_soon(self._hash, envelope)
                if self._waiting and not self._is_looking:
                    self._is_looking = True
                    nursery.start_soon(self._look_in_rounds)

    def statistics(self) -> CompilerStatistics:
        """Numbers of this moment."""
        return CompilerStatistics(self._rounds, self._answered, self._inspected)

    async def _look_in_rounds(self) -> None:
        while asked := [envelope for envelope in self._waiting if not envelope.is_withdrawn]:
            self._waiting.clear()
            await self._look(asked)
        self._waiting.clear()
        self._is_looking = False

    async def _look(self, asked: list[Envelope]) -> None:
        paths = _union(asked)
        # Not taken yet (C4): whoever leaves meanwhile withdraws, and the last one takes the look with it.
        with trio.CancelScope() as scope:
            self._round = scope, asked
            try:
                seen = await self.sources.inspect(paths)
            finally:
                self._round = None
        if scope.cancelled_caught:
            return  # C3
        self._rounds += 1
        self._inspected += len(paths)
        self._answered += len(asked)
        for envelope in asked:
            envelope.reply(seen)

    def _somebody_left(self) -> None:
        if self._round is not None:
            scope, asked = self._round
            if all(envelope.is_withdrawn for envelope in asked):
                scope.cancel()

    async def _hash(self, envelope: Envelope) -> None:
        envelope.reply(await self.sources.digest(envelope.message.path))


def _union(asked: list[Envelope]) -> tuple[str, ...]:
    """All paths of a round, sorted, each once."""
    if len(asked) == 1:
        only: tuple[str, ...] = asked[0].message.paths
        return only
    return tuple(sorted(set().union(*(envelope.message.paths for envelope in asked))))
