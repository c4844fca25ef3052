"""Keeping Pi out for as long as the store is open (Ours-3): the process that Pi's lock names may die before others do.

Then Pi would refuse the store, or the id might come to mean another program. Every survivor looks from time to time;
the first to notice puts its own name there.
"""

from __future__ import annotations

import trio

from ..store import keep_pi_out
from .limits import PI_GUARD_S
from .store_world import StoreWorld


async def guard_pi_lock(world: StoreWorld) -> None:
    """Look every two seconds, until cancelled. What can not be put right is reported once, as an event."""
    told = ""
    while True:
        await trio.sleep(PI_GUARD_S)
        trouble = await world.threads.work(lambda: _look(world))
        if trouble and trouble != told:
            world.report("pi-lock", trouble=trouble)
        told = trouble


def _look(world: StoreWorld) -> str:
    if not world.open_lock.try_acquire():
        return ""  # somebody joins or leaves, and sees to it
    try:
        return keep_pi_out(world.ground, world.journal, world.member.token)
    finally:
        world.open_lock.release()
