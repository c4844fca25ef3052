"""``SessionTree``: session trees on this machine, with its clock, its chance and its folders (host 1.6, 2.1, 2.2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from ..store import Durability, FlockLocks, RealDisk, RealFileParts, resolve_root
from ..store.trace import (
    FirstWrite,
    SessionInfo,
    TraceSeams,
    TraceTree,
    TreeOptions,
    begin_tree,
    folder_name,
    fork_tree,
    list_below,
    list_folder,
    newest_file,
    open_tree,
)
from .places import agent_folder
from .world import RandomIds, SystemClock

SESSIONS_FOLDER: Final = "sessions"
SYSTEM_SEAMS: Final = TraceSeams(RealDisk(), RealFileParts(), FlockLocks(), SystemClock().wall_ms, RandomIds().new_id)
OnEvent = Callable[[str, dict[str, Any]], None]


@final
class SessionTree(TraceTree):
    """A session: an append-only tree of entries in one file, Pi's session format version 3.

    Every entry knows its parent; the leaf is where the next one goes. Entries are plain dicts, and what comes out is
    the caller's own. Memory holds ids and places; texts are read from the file when they are asked for.

    Calls block for as long as a disk takes, an append also while another process appends to the same file; call from a
    worker thread where an event loop runs. One thread at a time.

    Raises, in whatever touches the file, StoreError: E_DISK; E_CHANGED if another program has replaced or cut the file;
    E_BROKEN after a write whose outcome is not known. An entry that JSON cannot say is CallError E_JSON.
    """

    @classmethod
    def open(
        cls,
        path: str,
        session_dir: str | None = None,
        cwd: str | None = None,
        *,
        durability: Durability = "power",
        first_write: FirstWrite = "assistant",
        on_event: OnEvent | None = None,
        read_only: bool = False,
    ) -> SessionTree:
        """The session in a file. A path that does not exist, or an empty file, is a new session bound to that path.

        Args:
          session_dir: where new sessions of this object go; default: the file's folder.
          cwd: the working directory instead of the header's; the header stays.
          durability: ``"power"`` syncs each append before it returns; ``"process"`` survives the process only.
          first_write: which message makes a new session a file: ``"assistant"``, or already the ``"user"``'s.
          on_event: called with ``"foreign_entries"`` or ``"torn_tail"`` and its data.
          read_only: never change the file; an older version is migrated in memory only.

        Raises:
          StoreError: E_CORRUPT for a file with content that is no session; it stays as it is. E_DISK.
        """
        return open_tree(
            cls,
            SYSTEM_SEAMS,
            file_place(path),
            _options(durability, first_write, on_event),
            default_cwd=os.getcwd(),
            session_dir=None if session_dir is None else _folder_place(session_dir),
            cwd=cwd,
            is_read_only=read_only,
        )

    @classmethod
    def create(
        cls,
        cwd: str,
        session_dir: str | None = None,
        *,
        agent_dir: str | None = None,
        session_id: str | None = None,
        parent_session: str | None = None,
        timestamp_ms: int | None = None,
        durability: Durability = "power",
        first_write: FirstWrite = "assistant",
        on_event: OnEvent | None = None,
    ) -> SessionTree:
        """A new session. Its id and path are known at once; the file comes with the first message (``first_write``).

        Args:
          session_dir: the folder; default: that of the working directory, ``default_dir(cwd, agent_dir)``.
          session_id: 1 to 128 letters, digits, ``-``, ``_`` and ``.``; default: a fresh UUID in the order of time.
        """
        return begin_tree(
            cls,
            SYSTEM_SEAMS,
            cwd,
            folder_of(cwd, session_dir, agent_dir),
            _options(durability, first_write, on_event),
            session_id=session_id,
            parent_session=parent_session,
            timestamp_ms=timestamp_ms,
        )

    @classmethod
    def continue_recent(
        cls,
        cwd: str,
        session_dir: str | None = None,
        *,
        agent_dir: str | None = None,
        durability: Durability = "power",
        first_write: FirstWrite = "assistant",
        on_event: OnEvent | None = None,
    ) -> SessionTree:
        """The session whose file in the folder was changed last, for this working directory; else a new one."""
        folder, options = folder_of(cwd, session_dir, agent_dir), _options(durability, first_write, on_event)
        path = newest_file(SYSTEM_SEAMS, folder)
        if path is None:
            return begin_tree(cls, SYSTEM_SEAMS, cwd, folder, options)
        return open_tree(cls, SYSTEM_SEAMS, path, options, default_cwd=cwd, session_dir=folder, cwd=cwd)

    @classmethod
    def in_memory(cls, cwd: str | None = None, *, session_id: str | None = None) -> SessionTree:
        """A session that is never written."""
        cwd = os.getcwd() if cwd is None else cwd
        return begin_tree(cls, SYSTEM_SEAMS, cwd, "", TreeOptions(), session_id=session_id)

    @classmethod
    def fork_from(
        cls,
        source: str,
        cwd: str,
        session_dir: str | None = None,
        *,
        agent_dir: str | None = None,
        session_id: str | None = None,
        timestamp_ms: int | None = None,
        durability: Durability = "power",
        first_write: FirstWrite = "assistant",
        on_event: OnEvent | None = None,
    ) -> SessionTree:
        """A new session, written at once, with all entries of another one, on every branch, as they are there.

        Raises:
          StoreError: E_CORRUPT, its message beginning with ``Cannot fork:``, if the source is missing or no session.
        """
        return fork_tree(
            cls,
            SYSTEM_SEAMS,
            file_place(source),
            cwd,
            folder_of(cwd, session_dir, agent_dir),
            _options(durability, first_write, on_event),
            named_source=source,
            session_id=session_id,
            timestamp_ms=timestamp_ms,
        )

    def set_session_file(self, path: str) -> None:
        """Go on with the session in another file; working directory and folder for new sessions stay.

        Raises:
          StoreError: as ``open``; then this one is as it was.
        """
        self.become(
            open_tree(
                SessionTree,
                SYSTEM_SEAMS,
                file_place(path),
                TreeOptions(self._durability, self._first_write, self._tell),
                default_cwd=self.get_cwd(),
            )
        )

    @staticmethod
    def default_dir(cwd: str, agent_dir: str | None = None) -> str:
        """The folder for sessions of a working directory: ``<agent dir>/sessions/--<cwd with dashes>--``."""
        return _folder_place(os.path.join(sessions_folder(agent_dir), folder_name(cwd)))

    @staticmethod
    def list(
        cwd: str,
        session_dir: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        *,
        agent_dir: str | None = None,
    ) -> Sequence[SessionInfo]:
        """The sessions of a folder, last used first; none if it does not exist. ``on_progress`` gets done and total."""
        return list_folder(SYSTEM_SEAMS, folder_of(cwd, session_dir, agent_dir), on_progress)

    @staticmethod
    def list_all(
        on_progress: Callable[[int, int], None] | None = None, *, agent_dir: str | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions of all working directories, last used first."""
        return list_below(SYSTEM_SEAMS, _folder_place(sessions_folder(agent_dir)), on_progress)


def sessions_folder(agent_dir: str | None = None) -> str:
    """The folder of all sessions of an agent directory."""
    return os.path.join(agent_folder(agent_dir), SESSIONS_FOLDER)


def all_sessions(agent_dir: str | None = None) -> str:
    """That folder as seams take it."""
    return _folder_place(sessions_folder(agent_dir))


def _options(durability: Durability, first_write: FirstWrite, on_event: OnEvent | None) -> TreeOptions:
    return TreeOptions(durability, first_write) if on_event is None else TreeOptions(durability, first_write, on_event)


def folder_of(cwd: str, session_dir: str | None, agent_dir: str | None) -> str:
    """The folder given, else that of the working directory."""
    return SessionTree.default_dir(cwd, agent_dir) if session_dir is None else _folder_place(session_dir)


def _folder_place(folder: str) -> str:
    """A folder as seams take it: absolute, the symlinks on the way to it followed once."""
    return resolve_root(os.path.abspath(os.path.expanduser(folder)))


def file_place(path: str) -> str:
    """A file as seams take it; the file itself may not be a symlink."""
    folder, name = os.path.split(os.path.abspath(os.path.expanduser(path)))
    return os.path.join(resolve_root(folder), name)
