"""The part of a session tree that keeps it in step with its file: writing, following, loading (host 1.7, 1.8).

Where an entry goes::

    in memory       --append--> in memory
    not yet written --append--> in memory; the first message of the chosen kind writes all of it as one file
    written         --append--> lock, read what others added, one write, unlock

  N1  An append returns when its entry is in the file, at level power also synced; one that raises has added nothing,
      unless the error says that this is not known.
  N2  While a run is under way (``begin_run``) an entry follows the run's own last one; what others added meanwhile
      is a branch of its own, which is told (``foreign_entries``). An idle session whose leaf is the end of the file
      goes on behind what others added; one that was sent elsewhere (``branch``, ``reset_leaf``) stays there.
  N3  No line of the file is ever changed, but by a migration, which replaces the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import attrs

from ..algebra import CallError, StoreError, shown
from ..disk_paths import named
from ..ports import Locks
from ..rows import Durability
from .entries import entry, file_name, header, iso_time, session_uuid
from .files import SessionFile, write_whole
from .lines import Entry, line_of, value_of
from .migration import needs_migration
from .naming import check_id
from .reading import entry_lines, short_ids
from .reading_tree import ReadableTree
from .seams import Tell, TraceSeams, tell_nobody
from .texts import Texts
from .tree import Tree

FirstWrite = Literal["assistant", "user"]
_DRAWS_MAX = 100


@attrs.define(eq=False, slots=False)
class GrowingTree(ReadableTree):
    """A session tree that can take in entries."""

    _durability: Durability = "power"
    _first_write: FirstWrite = "assistant"
    _tell: Tell = tell_nobody
    _is_read_only: bool = False
    _is_running: bool = False

    def become(self, other: GrowingTree) -> None:
        """Be the session of another object from now on; working directory and folder for new sessions stay (2.1.7)."""
        self._header, self._file = other._header, other._file
        self._tree, self._texts, self._is_read_only = other._tree, other._texts, other._is_read_only

    # -- beside other processes --------------------------------------------------------------------------------------

    def begin_run(self) -> None:
        """From now on entries follow each other, whatever other processes add meanwhile (N2)."""
        self._is_running = True

    def end_run(self) -> None:
        """The session is idle again."""
        self._is_running = False

    def refresh(self) -> int:
        """Read what other processes have added; returns how many entries. Takes no lock.

        Raises:
          StoreError: E_CHANGED if the file is gone or another one; E_DISK.
        """
        if self._file is None or not self._file.is_written:
            return 0
        was_at_end = self._tree.leaf == self._tree.last
        before = len(self._tree)
        self._take_in()
        added = len(self._tree) - before
        if added and was_at_end and not self._is_running:
            self._tree.leaf = self._tree.last
        if added:
            ids = self._tree.ids[before:]
            data = {"path": self._file.path, "count": added, "first": ids[0], "last": ids[-1]}
            self._tell("foreign_entries", data | {"is_branch": self._tree.leaf != self._tree.last})
        return added

    # -- in the hands of somebody who waits and listens ----------------------------------------------------------------

    @property
    def seams(self) -> TraceSeams:
        """What it stands on, for whoever keeps something beside it."""
        return self._seams

    @property
    def locks(self) -> Locks:
        """Whose locks are taken."""
        return self._seams.locks

    def adopt(self, locks: Locks, tell: Tell) -> tuple[Locks, Tell]:
        """Take other locks, and tell somebody else of events, from now on. Returns who it was before."""
        before = self._seams.locks, self._tell
        self._seams, self._tell = attrs.evolve(self._seams, locks=locks), tell
        if self._file is not None:
            self._file.seams, self._file.tell = self._seams, tell
        return before

    # -- coming to be ------------------------------------------------------------------------------------------------

    def load(self, is_read_only: bool = False) -> None:
        """Read the file; the last entry is the leaf (1.8.4). An older version becomes version 3 in memory only."""
        assert self._file is not None
        self._is_read_only = is_read_only
        if needs_migration(self._header):
            for line in entry_lines(self._seams, self._file.path, short_ids(self._seams.new_id)):
                self._texts.add_held(line)
                self._tree.add(value_of(line))
        else:
            self._take_in()
        self._tree.leaf = self._tree.last

    def write_now(self) -> None:
        """Make the session a file, whatever it holds. One that has a file stays as it is.

        Raises:
          StoreError: E_CHANGED if something has its name already; E_DISK.
        """
        if self._file is not None and not self._file.is_written:
            leaf = self._tree.leaf
            self._create([*self._texts.lines(range(len(self._texts)))])
            self._tree.leaf = leaf

    def write_header(self) -> None:
        """Begin an empty file."""
        assert self._file is not None
        self._file.look()
        with self._file.locked():
            self._file.append(line_of(self._header))

    def _require(self, entry_id: str) -> int:
        if self._tree.place(entry_id) is None:
            self.refresh()  # another process may have added it
        return super()._require(entry_id)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _append(
        self, kind: str, own: dict[str, Any], entry_id: str | None, at_ms: int | None, *, stays: bool = False
    ) -> str:
        """Add an entry at the leaf. ``stays``: the leaf was chosen, even if it is the end of the file."""
        file = self._file
        if self._is_read_only:
            assert file is not None
            text = f"{named(file.path)} was opened for reading only; open it again to add to it"
            raise StoreError("E_UNSUPPORTED", text, path=file.path)
        timestamp = iso_time(self._seams.now_ms() if at_ms is None else at_ms)
        if file is None or not file.is_written:
            found, line = self._made(kind, own, entry_id, timestamp)
            if file is not None and self._is_first_write(found):
                self._create([*self._texts.lines(range(len(self._texts))), line])
            else:
                self._texts.add_held(line)
                self._tree.add(found)
        else:
            with file.locked():
                leaf = self._tree.leaf
                # What was read without the lock may have been taken back since (F5), and other lines stand there now.
                self._entries([len(self._tree) - 1] if len(self._tree) else [])
                self.refresh()
                if stays:
                    self._tree.leaf = leaf
                found, line = self._made(kind, own, entry_id, timestamp)
                self._texts.add_in_file(file.append(line), len(line))
            self._tree.add(found)
        self._tree.leaf = found["id"]
        return self._tree.leaf

    def _made(self, kind: str, own: dict[str, Any], entry_id: str | None, timestamp: str) -> tuple[Entry, bytes]:
        if entry_id is None:
            entry_id = self._fresh_id()
        elif type(entry_id) is not str or not entry_id or self._tree.place(entry_id) is not None:
            raise CallError("E_SHAPE", f"{shown(entry_id)} is no new id of an entry; leave it out, or give another")
        found = entry(kind, entry_id, self._tree.leaf, timestamp, **own)
        return found, line_of(found)

    def _fresh_id(self) -> str:
        """An id that no entry has (1.3.2)."""
        for _ in range(_DRAWS_MAX):
            if self._tree.place(drawn := self._seams.new_id()[:8]) is None:
                return drawn
        return self._seams.new_id()

    def _is_first_write(self, found: Entry) -> bool:
        role = found["message"].get("role") if found["type"] == "message" else None
        return role == "assistant" or (role == "user" and self._first_write == "user")

    def _create(self, lines: Iterable[bytes]) -> None:
        """Write the file of a session that had none, and know it as it is there."""
        assert self._file is not None
        is_synced = self._durability == "power"
        write_whole(self._seams, self._file.path, with_head(line_of(self._header), lines), is_synced=is_synced)
        self._file.look()
        self._tree, self._texts = Tree(), Texts(self._file)
        self._take_in()

    def _take_in(self) -> None:
        """Add what the file has more than we know, leaving the leaf."""
        assert self._file is not None
        for start, size, found in self._file.read_on():
            if type(found.get("id")) is str and found["type"] != "session":
                self._tree.add(found)
                self._texts.add_in_file(start, size)

    def _begin(self, session_id: str | None, parent: str | None, now_ms: int) -> None:
        """Become an empty session."""
        chosen = session_uuid(now_ms, self._seams.new_id()) if session_id is None else check_id(session_id)
        timestamp = iso_time(now_ms)
        old = self._file
        self._header = header(chosen, timestamp, self._cwd, parent)
        if old is not None:
            path = f"{self._session_dir.rstrip('/')}/{file_name(timestamp, chosen)}"
            self._file = SessionFile(path, self._seams, self._durability, self._tell)
        self._tree, self._texts = Tree(), Texts(self._file)

    def _fill(self, lines: list[bytes], *, is_deferred: bool) -> None:
        """Take over entries, the last of them as leaf."""
        entries: list[Entry] = [value_of(line) for line in lines]
        if not is_deferred and self._file is not None and any(map(self._is_first_write, entries)):
            self._create(lines)
        else:
            for line, found in zip(lines, entries, strict=True):
                self._texts.add_held(line)
                self._tree.add(found)
        self._tree.leaf = self._tree.last


def with_head(head: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file."""
    yield head
    yield from lines
