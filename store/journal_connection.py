"""One SQLite connection, used by one thread at a time, with its errors turned into ours (J3, J4, Ours-17)."""

from __future__ import annotations

import ctypes
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .algebra import StoreError
from .journal_schema import ensure_schema
from .journal_types import JournalBusyError
from .lock import forget_in_child
from .rows import Durability

_BUSY_ATTEMPTS_MAX = 5_000
# A statement for each batch size is compiled once and kept.
_STATEMENTS_MAX = 400


class Connection:
    """The connection to a journal database. ``pause`` waits a little outside C while SQLite is busy."""

    def __init__(self, path: str, level: Durability, pause: Callable[[], None]) -> None:
        """Open or create the database.

        Raises:
          StoreError: E_CORRUPT, E_UNSUPPORTED, or E_DISK naming the path and SQLite's reason.
        """
        self.path, self._level, self._pause = path, level, pause
        self._mutex = threading.Lock()
        with translated(path):
            self._sqlite: Any = sqlite3.connect(
                path, isolation_level=None, timeout=0, check_same_thread=False, cached_statements=_STATEMENTS_MAX
            )
        try:
            with translated(path):
                self._set_up()
        except BaseException:
            self._sqlite.close()
            raise
        forget_in_child(self)

    def _set_up(self) -> None:
        self._retried(lambda: self._sqlite.execute("pragma journal_mode = wal"))
        self._sqlite.execute("pragma synchronous = full")
        # Some builds of SQLite write zeros over all that is deleted: pruning would cost as much as appending did.
        # Whoever wants a value gone for good removes the whole journal.
        self._sqlite.execute("pragma secure_delete = fast")
        self._retried(lambda: ensure_schema(self._sqlite, self.path))
        # A write of its own makes sure that the -wal file exists before its identity is noted (J9).
        self._retried(lambda: self._sqlite.execute("update facts set value = value where name = 'synced_through'"))
        if self._level == "process":
            self._sqlite.execute("pragma synchronous = normal")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several reads as one consistent look; the read transaction ends with the block (J3)."""
        with self._mutex, translated(self.path):
            self._retried(lambda: self._sqlite.execute("begin"))
            try:
                yield self._sqlite
            finally:
                self._sqlite.execute("commit")

    def single(self) -> Single:
        """One statement in autocommit."""
        return Single(self.path, self._mutex, self._sqlite)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One durable transaction, whatever the level (J4, J5). Waits while SQLite is busy."""
        with self._mutex, translated(self.path):
            if self._level == "process":
                self._sqlite.execute("pragma synchronous = full")
            try:
                self._retried(lambda: self._sqlite.execute("begin immediate"))
                yield self._sqlite
                self._sqlite.execute("commit")
            finally:
                if self._sqlite.in_transaction:
                    self._sqlite.execute("rollback")
                if self._level == "process":
                    self._sqlite.execute("pragma synchronous = normal")

    def _retried(self, call: Callable[[], Any]) -> None:
        for _ in range(_BUSY_ATTEMPTS_MAX):
            try:
                call()
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                self._pause()
        raise JournalBusyError(self.path)

    def close(self) -> None:
        """Close. Nothing is lost."""
        with self._mutex:
            self._sqlite.close()

    def forget(self) -> None:
        """In a forked child: never use or close the connection of the parent (J11)."""
        # SQLite forbids even closing it here, and the interpreter would close it at the end: so it is never let go.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._sqlite))
        # A thread of the parent may have held the mutex; here nobody would ever give it back.
        self._sqlite, self._mutex = _Gone(self.path), threading.Lock()


class _Gone:
    """Stands for a connection that belongs to the process this one was forked from."""

    in_transaction = False

    def __init__(self, path: str) -> None:
        self._path = path

    def execute(self, *_: object) -> Any:
        raise StoreError("E_CLOSED", f"{self._path}: was opened before this process was forked; open the store anew")

    def close(self) -> None:
        """Nothing is closed here."""


class Single:
    """What ``Connection.single`` returns. Written out, since a generator costs three times as much for each commit."""

    __slots__ = ("_mutex", "_path", "_sqlite")

    def __init__(self, path: str, mutex: threading.Lock, sqlite: sqlite3.Connection) -> None:
        self._path, self._mutex, self._sqlite = path, mutex, sqlite

    def __enter__(self) -> sqlite3.Connection:
        self._mutex.acquire()
        return self._sqlite

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._mutex.release()
        if error is not None:
            with translated(self._path):
                raise error


@contextmanager
def translated(path: str) -> Iterator[None]:
    """SQLite's errors as ours (Ours-17): what was certainly rolled back is E_DISK, what is not is E_BROKEN."""
    try:
        yield
    except JournalBusyError:
        raise StoreError("E_BUSY", f"{path}: other processes kept it busy; ask again", path=path) from None
    except sqlite3.Error as error:
        raise translate(error, path) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds a lock of SQLite, in any of its variants."""
    # An error that Python itself raised (a text that is no UTF-8) has no code.
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translate(error: sqlite3.Error, path: str) -> StoreError:
    """One of ours for one of SQLite's, by its extended result code."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    name = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    primary = code & 0xFF
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreError(
            "E_CORRUPT",
            f"{path}: the journal is damaged ({error}); `strataflow doctor --rebuild` keeps it aside and starts anew",
            path=path,
            cause=name,
        )
    if code in (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC):
        return StoreError(
            "E_BROKEN", f"{path}: a sync failed ({error}); what is on the disk is unknown", path=path, cause=name
        )
    return StoreError("E_DISK", f"{path}: {error}; nothing was written", path=path, cause=name)
