"""Who has the store open, as far as looking can tell: ``doctor`` takes no lock, not even for a moment (J8, J10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .algebra import StoreError
from .findings import Finding
from .journal_inspection import JournalFacts
from .journal_types import Participant
from .layout import KERNEL_LOCKS
from .membership import Ground
from .pi_lock import look_at

# Device and inode of a file -> the process that holds its kernel lock, if the system tells.
LockHolder = Callable[[int, int], int | None]


def check_locks(ground: Ground, facts: JournalFacts | None, holder: LockHolder) -> Iterator[Finding]:
    """Participants, kernel locks, and the lock towards Pi."""
    members = facts.participants if facts else ()
    yield from _members(ground, members)
    for name in KERNEL_LOCKS:
        stat = ground.disk.stat(ground.layout.private(name))
        pid = holder(stat.device, stat.inode) if stat else None
        if pid is not None:
            yield Finding("note", "lock-held", ground.layout.private(name), f"process {pid} holds it now")
    yield from _pi_lock(ground, facts)
    for name in ground.disk.list(ground.layout.private()) or ():
        if name.startswith("pi.lock."):
            words = "a lock towards Pi that was never put in place; it does no harm"
            yield Finding("note", "lock-left", ground.layout.private(name), words)


def _members(ground: Ground, members: tuple[Participant, ...]) -> Iterator[Finding]:
    folder = ground.layout.private("open")
    files = set(ground.disk.list(folder) or ())
    for member in members:
        pid, path = member.process.pid, f"{folder}/{member.token}"
        if member.token in files and ground.table.is_alive(member.process):
            yield Finding("ok", "open", path, f"process {pid} has the store open")
        else:
            yield Finding("note", "open-dead", path, f"process {pid} is gone; opening the store clears this")
    for name in sorted(files - {member.token for member in members}):
        yield Finding("note", "open-unknown", f"{folder}/{name}", "of a process that is joining, or died doing so")


def _pi_lock(ground: Ground, facts: JournalFacts | None) -> Iterator[Finding]:
    path = ground.layout.pi_lock
    members = facts.participants if facts else ()
    alive = {member.process for member in members if ground.table.is_alive(member.process)}
    is_shared = facts is not None and facts.facts.get("share_with_pi") == 1
    try:
        state = look_at(ground.disk, ground.layout, facts.pi_locks if facts else (), ground.table)
    except StoreError as error:
        yield Finding("problem", "pi-lock-dead", path, error.message)
        return
    if state.kind == "nobody":
        if alive and not is_shared:
            words = "is missing although the store is open exclusively: Pi could write meanwhile; open it once more"
            yield Finding("problem", "pi-lock-missing", path, words)
        else:
            yield Finding("ok", "pi-lock", path, "nobody keeps Pi out")
    elif state.kind == "ours" and state.record is not None and state.record.process in alive:
        yield Finding("ok", "pi-lock", path, f"keeps Pi out for process {state.pid}")
    elif state.kind == "ours":
        words = f"is ours, of process {state.pid}; Pi refuses the store until it was opened and closed once more"
        yield Finding("note" if alive else "warning", "pi-lock-left", path, words)
    elif state.kind == "pending":
        words = "is empty: another program is about to lock the store, or died doing so; see `strataflow unlock`"
        yield Finding("warning", "pi-lock-pending", path, words)
    else:
        yield Finding("ok", "pi-lock", path, f"process {state.pid} of another program uses the store")
