"""The tick: follows other processes while somebody waits for a change. A task of each life of the store actor.

::

    ASLEEP --somebody waits--> LISTENING --nobody has for some seconds--> ASLEEP
                                 |  ^
                                 +--+ the bell rang, or its beat is over: look

The bell rings when a process writes to the journal, and what it writes can be seen only when its sync is done. So a
ring is followed by looks at 0, 1, 2, 3, 4.5, 7 … ms: each pause is half as long as it has been quiet, so that the last
of them comes at most half as late again as the sync took. When it stays quiet only the beat is left, for what a bell
may miss.

Asleep it costs nothing. What lost: looking every few milliseconds, which is a hundred times the work of an idle
process that waits for the bell; and a file of our own that every writer touches after its commit, which would charge
each commit of everybody for watchers that are seldom there.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import final

import attrs
import trio

from ..store import StoreError
from .follower import Follower
from .limits import BELL_LINGER_S, LOOK_PAUSE_S_MAX, LOOK_PAUSE_S_MIN, RING_ECHO_S
from .ports import JournalBell
from .store_world import StoreWorld


@final
@attrs.define(eq=False)
class WatchTick:
    """Of one life."""

    _world: StoreWorld
    _follower: Follower
    # A whole round of the store actor.
    _round: Callable[[], Awaitable[None]]
    _told: dict[str, str] = attrs.field(factory=dict, init=False)

    async def run(self) -> None:
        """Listen whenever somebody waits, until cancelled.

        Raises:
          StoreError: E_BROKEN, E_CORRUPT: the journal must be opened anew.
        """
        while True:
            await self._world.hub.wait_for_somebody()
            if not self._world.member.lock.is_held:
                # A forked child: nothing here is its own. Whoever waits looks once more, and finds out (J11).
                self._world.hub.wake()
                return
            bell = self._world.open_bell()
            try:
                await self._listen(bell)
            finally:
                bell.close()

    async def _listen(self, bell: JournalBell) -> None:
        hub = self._world.hub
        rung_s = -math.inf
        wanted_s = trio.current_time()
        is_echo = False
        while self._world.member.lock.is_held:
            if bell.trouble:
                self._tell("watch-polls", bell.trouble)
            await self._look(is_echo)
            now = looked_s = trio.current_time()
            wanted_s = now if hub.is_waited_for else wanted_s
            if now - wanted_s > BELL_LINGER_S:
                return
            is_echo = now - rung_s <= RING_ECHO_S
            with trio.move_on_after(_pause_s(now - rung_s, bell.beat_s)):
                await bell.wait_rung()
                rung_s, is_echo = trio.current_time(), False
                # Somebody who writes all the time must not make us look all the time.
                await trio.sleep_until(looked_s + LOOK_PAUSE_S_MIN)

    async def _look(self, is_echo: bool) -> None:
        try:
            if not is_echo:
                async with self._follower.root:
                    await self._follower.check_ground(self._world.journal)  # J9: nobody will write to a removed file
            if self._world.shared_pi is None:
                await self._follower.refresh()
            elif await self._follower.has_news():
                # Pi may be half-way through writing what would be read; a round keeps it out (J7).
                await self._round()
        except StoreError as error:
            if error.code not in ("E_DISK", "E_BUSY", "E_CLOSED"):
                raise
            if error.code != "E_CLOSED":  # then the actor is about to end
                self._tell("watch-failed", str(error))

    def _tell(self, event: str, reason: str) -> None:
        """Report what keeps watchers from being told at once: once, and not with each look."""
        if self._told.get(event) != reason:
            self._told[event] = reason
            self._world.report(event, reason=reason)


def _pause_s(quiet_s: float, beat_s: float) -> float:
    if quiet_s > RING_ECHO_S:
        return beat_s
    return min(max(quiet_s / 2, LOOK_PAUSE_S_MIN), LOOK_PAUSE_S_MAX)
