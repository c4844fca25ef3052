"""Being the only one at a store: what repairs and removals by hand need (J8, J11)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .algebra import StoreError
from .findings import counted
from .layout import OPEN_LOCK
from .lock import lock_holder_pid
from .membership import Ground


@contextmanager
def alone(ground: Ground, purpose: str) -> Iterator[None]:
    """Hold ``open.lock`` for the block, so that nobody joins, and be sure that nobody has the store open.

    Participants are told by their kernel locks, never by the journal: it may be damaged.

    Raises:
      StoreError: E_BUSY if somebody joins or leaves right now, E_LOCK if a process of ours has the store open.
    """
    path = ground.layout.private(OPEN_LOCK)
    gate = ground.locks.open(path)
    try:
        if not gate.try_acquire():
            text = f"{path}: another process is opening or closing the store; {purpose} needs it alone, ask again"
            raise StoreError("E_BUSY", text, path=path)
        living = _living(ground)
        if living:
            pids = [pid for pid in living.values() if pid is not None]
            who = f" ({', '.join(map(str, pids))})" if pids else ""
            text = f"{ground.layout.root}: {counted(len(living), 'participant')} of ours{who} has it open; {purpose} "
            raise StoreError("E_LOCK", text + "needs it alone, close it there first", tokens=list(living), pids=pids)
        yield
    finally:
        gate.close()


def _living(ground: Ground) -> dict[str, int | None]:
    """The tokens of participants that hold their lock, each with its process id if the system tells."""
    living: dict[str, int | None] = {}
    for token in ground.disk.list(ground.layout.private("open")) or ():
        lock = ground.locks.open(ground.layout.private("open", token))
        try:
            if not lock.try_acquire():
                identity = lock.identity()
                living[token] = lock_holder_pid(*identity) if identity else None
        finally:
            lock.close()
    return living
