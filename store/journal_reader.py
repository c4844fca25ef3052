"""Looking at the journal without a lock of ours and without changing it (J10).

What lies beside ``journal.db`` decides how it is opened::

    no -wal             immutable=1      everything is in the database; checked afterwards
    -wal and -shm       mode=ro          a live store, or one whose last process was killed
    -wal, no -shm       mode=ro, and where SQLite may not make the -shm: a private copy, checked afterwards
    -journal            a private copy: the database is just being created, or that was cut short

``mode=ro`` alone lost: it fails on a store that may not be written. ``immutable=1`` alone lost: it ignores a ``-wal``
and would hide acknowledged rows. "Checked" means that everything is done again if a file came, went or changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar
from urllib.parse import quote

import attrs

from . import journal_queries
from .algebra import StoreError
from .disk_paths import wrong_kind
from .journal_connection import is_busy, translate
from .journal_inspection import NOT_UNDERSTOOD, JournalFacts, facts_of
from .journal_schema import check_version
from .journal_types import JournalView, JournalViews
from .layout import Layout
from .ports import Disk, FileStat
from .rows import Row

T = TypeVar("T")

_ROUNDS_MAX = 5
_PAUSES_MAX = 1_000
_COPIES_MAX = 1_000
_SUFFIXES = ("", "-wal", "-shm", "-journal")
_NOTHING = JournalView(0, 0, 0, 0, 0, {}, None, ())
# What SQLite says where a -shm can not be made or a -wal not be opened: not an error of the database.
_NEEDS_COPY = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)


class JournalLook(JournalViews, Protocol):
    """A journal as readers see it; what does not exist reads as empty."""

    def log(self, limit: int, cwd: str | None = None, session_id: str | None = None) -> list[Row]:
        """The newest accepted transitions, oldest first, of one directory or session if asked for."""

    def log_of(self, scopes: Collection[str], limit: int, before: int | None = None) -> list[Row]:
        """See ``ScopeLog.log_of``."""

    def facts(self) -> JournalFacts | None:
        """What ``doctor`` and ``unlock`` want to know; None if there is no journal."""


@attrs.frozen
class NoJournal:
    """A ``JournalLook`` for files that must speak for themselves."""

    def view(self, after: int | None, scopes: Collection[str] = ()) -> JournalView:
        """Nothing is known."""
        return _NOTHING

    def log(self, limit: int, cwd: str | None = None, session_id: str | None = None) -> list[Row]:
        """Nothing was noted."""
        return []

    def log_of(self, scopes: Collection[str], limit: int, before: int | None = None) -> list[Row]:
        """Nothing was noted."""
        return []

    def facts(self) -> JournalFacts | None:
        """There is none."""
        return None


@attrs.frozen
class JournalReader:
    """The real form of ``JournalLook``: each call opens the database, reads in one transaction and closes it.

    Attributes:
      scratch: a folder in which a private copy may be made for the moment of a call.
      pause: waits a little while SQLite is busy.
    """

    _disk: Disk
    _layout: Layout
    _scratch: str
    _pause: Callable[[], None]

    def view(self, after: int | None, scopes: Collection[str] = ()) -> JournalView:
        """See ``Journal.view``.

        Raises:
          StoreError: E_CORRUPT, E_UNSUPPORTED, E_DISK; E_BUSY if the files kept changing.
        """
        return self._ask(lambda sqlite: journal_queries.view(sqlite, after, scopes)) or _NOTHING

    def log(self, limit: int, cwd: str | None = None, session_id: str | None = None) -> list[Row]:
        """See ``JournalLook.log``. Raises as ``view``."""
        return self._ask(lambda sqlite: journal_queries.log(sqlite, limit, cwd, session_id)) or []

    def log_of(self, scopes: Collection[str], limit: int, before: int | None = None) -> list[Row]:
        """See ``ScopeLog.log_of``. Raises as ``view``."""
        return self._ask(lambda sqlite: journal_queries.log_of(sqlite, scopes, limit, before)) or []

    def facts(self) -> JournalFacts | None:
        """See ``JournalLook.facts``. Raises as ``view``."""
        return self._ask(facts_of)

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T | None:
        """The answer to one question; None if there is no journal, or one that nothing was written to yet."""
        path = self._layout.private("journal.db")
        rounds = pauses = 0
        while rounds < _ROUNDS_MAX and pauses < _PAUSES_MAX:
            before = self._files()
            if before[0] is None:
                return None
            try:
                answer, is_checked = self._answer(path, before, question)
            except (sqlite3.Error, StoreError) as error:
                if isinstance(error, sqlite3.Error) and is_busy(error):
                    pauses += 1
                    self._pause()
                    continue
                # If another process moved on meanwhile, only that may have made SQLite stumble.
                if self._files() == before:
                    raise (error if isinstance(error, StoreError) else translate(error, path)) from error.__cause__
            else:
                if is_checked or _same(self._files(), before):
                    return answer
            rounds += 1
        raise StoreError("E_BUSY", f"{path}: its files keep changing; ask again", path=path)

    def _answer(
        self, path: str, files: tuple[FileStat | None, ...], question: Callable[[sqlite3.Connection], T]
    ) -> tuple[T | None, bool]:
        """The answer, and whether it counts whatever happened to the files meanwhile."""
        _, wal, shm, rollback = files
        if rollback is not None and rollback.size_bytes:
            return self._answer_of_copy(path, question), False
        if wal is None:
            return _answer_at(path, "immutable=1", question), False
        try:
            return _answer_at(path, "mode=ro", question), True
        except sqlite3.Error as error:
            if shm is not None or (getattr(error, "sqlite_errorcode", 0) & 0xFF) not in _NEEDS_COPY:
                raise
        return self._answer_of_copy(path, question), False

    def _answer_of_copy(self, path: str, question: Callable[[sqlite3.Connection], T]) -> T | None:
        with _private_folder(self._disk, self._scratch) as folder:
            copy = f"{folder}/journal.db"
            for suffix in ("", "-wal", "-journal"):
                data = self._disk.read(path + suffix)
                if data is not None:
                    self._disk.write_new(copy + suffix, data)
            return _answer_at(copy, "mode=rw", question)

    def _files(self) -> tuple[FileStat | None, ...]:
        path = self._layout.private("journal.db")
        found = tuple(self._disk.stat(path + suffix) for suffix in _SUFFIXES)
        for suffix, stat in zip(_SUFFIXES, found, strict=True):
            if stat is not None and stat.kind != "file":
                raise wrong_kind(path + suffix, stat.kind, "file")
        return found


def _same(now: tuple[FileStat | None, ...], before: tuple[FileStat | None, ...]) -> bool:
    # The -shm holds nothing that counts, and readers make it.
    return [now[0], now[1], now[3]] == [before[0], before[1], before[3]]


def _answer_at(path: str, how: str, question: Callable[[sqlite3.Connection], T]) -> T | None:
    uri = f"file:{quote(path, errors='surrogateescape')}?{how}"
    sqlite = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=0)
    try:
        sqlite.execute("begin")
        # One question at a time, and the read transaction ends with it: an open one would stop SQLite's clean-up.
        if not check_version(sqlite, path):
            return None
        return question(sqlite)
    except NOT_UNDERSTOOD as error:
        text = f"{path}: the journal holds a text that can not be understood; `strataflow doctor` tells more"
        raise StoreError("E_CORRUPT", text, path=path) from error
    finally:
        sqlite.close()


@contextmanager
def _private_folder(disk: Disk, scratch: str) -> Iterator[str]:
    """A folder that nobody else has, removed afterwards with everything in it."""
    for number in range(_COPIES_MAX):
        folder = f"{scratch}/strataflow-read-{number}"
        if disk.make_folder(folder):
            break
    else:
        raise StoreError("E_DISK", f"{scratch}: is full of folders of other readers; remove strataflow-read-*")
    try:
        yield folder
    finally:
        for name in disk.list(folder) or ():
            disk.unlink(f"{folder}/{name}")
        disk.remove_folder(folder)
