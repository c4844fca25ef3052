"""Looking at a store without opening it, and repairing one that nobody has open: ``inspect_store``.

Everything here blocks, takes no event loop and is meant for programs that run once; elsewhere call it in a worker
thread. ``read``, ``log``, ``status`` and ``diagnose`` take no lock, change no file and work on a read-only store
(J10). A store or session that does not exist reads as empty.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import final

import attrs

from ..store import (
    TURN_LOCK,
    Diagnosis,
    FlockLocks,
    Ground,
    JournalReader,
    Json,
    Layout,
    LogEntry,
    ReadResult,
    RealDisk,
    RealProcessTable,
    RebuildReport,
    Settings,
    Stamp,
    Status,
    StoreReader,
    UnlockReport,
    diagnose,
    lock_holder_pid,
    read,
    read_settings,
    rebuild,
    status_of,
    unlock,
)
from .places import agent_folder, store_folder
from .session_log import LOG_LIMIT_DEFAULT
from .world import RandomIds, SystemClock, pause


@final
@attrs.frozen
class Inspector:
    """One store, seen from outside. Made by ``inspect_store``."""

    _ground: Ground
    _reader: StoreReader

    @property
    def store_path(self) -> str:
        """The absolute path of the store."""
        return self._ground.layout.root

    @property
    def exists(self) -> bool:
        """Whether there is anything at the store's path."""
        return self._ground.disk.stat(self.store_path) is not None

    def settings(self) -> Settings:
        """The operator's settings.

        Raises:
          ConfigError: the root ``config.json`` can not be used.
        """
        path = self._ground.layout.config
        return read_settings(self._ground.disk, path)

    def read(self, cwd: str, session_id: str, arguments: Json, history_limit: int | None = None) -> ReadResult:
        """What a session reads, by the arguments of ``read_state``.

        Raises:
          ReadError: the arguments, a path, or what it names.
          ConfigError, StoreError: the store, or a scope that is needed, can not be read.
        """
        view = self._reader.view(cwd, session_id, self._limit(history_limit))
        return read(view, arguments)

    def log(self, limit: int, cwd: str | None = None, session_id: str | None = None) -> Sequence[LogEntry]:
        """The newest accepted transitions that the journal still holds, the newest last.

        Raises:
          StoreError: the journal can not be read.
        """
        return self._reader.log(limit, cwd, session_id)

    def log_of_session(
        self, cwd: str, session_id: str, path: str | None = None, limit: int = LOG_LIMIT_DEFAULT
    ) -> Sequence[LogEntry]:
        """The newest retained transitions that a session can see, only those that touched ``path`` if there is one,
        the newest last. Private records of other sessions are not in it.

        Raises:
          ReadError: E_PATH; E_READ_SHAPE for a path with an offset or of a stored record.
          StoreError: the journal can not be read, or there can be no such session.
        """
        return self._reader.log_of_session(cwd, session_id, path, limit)

    def status(self, cwd: str, session_id: str, history_limit: int | None = None) -> Status:
        """A session and its store at one moment. What is unreadable is part of it.

        Raises:
          ConfigError, StoreError: the store can not be read at all.
        """
        return status_of(self._reader.look(cwd, session_id, self._limit(history_limit)))

    def diagnose(self) -> Diagnosis:
        """Everything that can be said of the store by looking. What can not be read is a finding."""
        return diagnose(self._ground, self._reader.journal)

    def unlock(self) -> UnlockReport:
        """Remove a lock towards Pi whose owner is gone.

        Raises:
          StoreError: E_LOCK if somebody uses the store, E_BUSY, E_DISK.
        """
        return unlock(self._ground, self._reader.journal, SystemClock().wall_ms())

    def rebuild(self) -> RebuildReport:
        """Set the journal aside; the next to open the store begins a new one over the canonical files.

        Raises:
          StoreError: E_LOCK if somebody has the store open, E_BUSY, E_DISK.
        """
        ids = RandomIds()
        return rebuild(
            self._ground, self._reader.journal, Stamp(ids.new_id(), "power", SystemClock().wall_ms(), ids.new_id())
        )

    def _limit(self, given: int | None) -> int:
        # Settings that can not be used refuse a reader too: it would show another history than sessions see.
        settings = self.settings()
        return settings.history_limit if given is None else given


def inspect_store(agent_dir: str | None = None, *, store: str | None = None) -> Inspector:
    """A look at the store that ``open_runtime`` would open with these arguments. Touches nothing yet."""
    root = store_folder(store) if store is not None else store_folder(agent_folder(agent_dir) + "/state-flow")
    above = root.rpartition("/")[0] or "/"
    disk = RealDisk(above)
    ground = Ground(disk, FlockLocks(above), RealProcessTable(), Layout(root))
    scratch = os.path.realpath(tempfile.gettempdir())
    return Inspector(ground, StoreReader(ground, JournalReader(disk, ground.layout, scratch, pause)))


def turn_holder(ground: Ground) -> int | None:
    """The process whose turn it is to write, as the kernel knows it."""
    stat = ground.disk.stat(ground.layout.private(TURN_LOCK))
    return None if stat is None else lock_holder_pid(stat.device, stat.inode)
