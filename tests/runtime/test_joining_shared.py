"""Processes that join a store shared with Pi at the same moment: the journal knows the lock of each of them."""

from __future__ import annotations

from pathlib import Path

import trio

from kit.holds import holds
from kit.runtimes import opened, opened_in, real_journal
from strataflow.store import Durability, FlockLocks, Ground, Journal


@holds("J8")
async def test_our_locks_are_recorded_while_nobody_else_joins(tmp_path: Path) -> None:
    root, was_free = tmp_path / "state-flow", []
    async with opened(root, share_with_pi=True):
        pass
    rival = FlockLocks().open(str(root / ".strataflow/open.lock"))

    def watched(ground: Ground, level: Durability) -> Journal:
        journal = real_journal(ground, level)
        record = journal.members.set_pi_locks

        def set_pi_locks(*arguments: object) -> None:
            was_free.append(rival.try_acquire())
            rival.release()
            record(*arguments)  # type: ignore[arg-type]

        journal.members.set_pi_locks = set_pi_locks  # type: ignore[method-assign]
        return journal

    async with opened_in(root, journal=watched, share_with_pi=True):
        await trio.lowlevel.checkpoint()
    rival.close()
    assert was_free == [False, False]
