"""The session files of one folder, as ``strataflow sessions`` works on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import final

import attrs

from ..store import Diagnosis, ReadError, StoreError, shown
from ..store.trace import (
    Mended,
    SessionInfo,
    as_current,
    check_session,
    copy_session,
    head_at,
    iso_time,
    list_folder,
    mend_session,
    session_files,
)
from .session_trees import SYSTEM_SEAMS, SessionTree, file_place, folder_of

Progress = Callable[[int, int], None]


@final
@attrs.frozen
class SessionFolder:
    """A folder of session files; it need not exist."""

    path: str

    @classmethod
    def of(cls, cwd: str, session_dir: str | None = None, agent_dir: str | None = None) -> SessionFolder:
        """The folder given, else that of a working directory."""
        return cls(folder_of(cwd, session_dir, agent_dir))

    def list(self, progress: Progress | None = None) -> Sequence[SessionInfo]:
        """The sessions, last used first."""
        return list_folder(SYSTEM_SEAMS, self.path, progress)

    def files(self) -> Sequence[str]:
        """The paths of what may be sessions."""
        return session_files(SYSTEM_SEAMS, self.path)

    def find(self, name: str) -> str:
        """The path of a session: ``name`` is a path, an id, or the beginning of one id.

        Raises:
          ReadError: E_MISSING if no session of the folder is meant, or several.
        """
        if os.sep in name or name.endswith(".jsonl"):
            return file_place(name)
        known = {path: _id_in(path) for path in self.files()}
        found = [path for path, known_id in known.items() if known_id == name]
        found = found or [path for path, known_id in known.items() if known_id.startswith(name)]
        if len(found) == 1:
            return found[0]
        what = f"{len(found)} sessions begin with" if found else "no session has"
        text = f"{what} the id {shown(name)} in {self.path}; see `strataflow sessions list`, or give a path"
        raise ReadError("E_MISSING", text, id=name, folder=self.path)

    def check(self, paths: Sequence[str] = (), progress: Progress | None = None) -> Diagnosis:
        """What is broken in these files; default: in all. Nothing is changed."""
        wanted = paths or self.files()
        findings = []
        for done, path in enumerate(wanted, 1):
            findings += check_session(SYSTEM_SEAMS, path)
            if progress is not None:
                progress(done, len(wanted))
        return Diagnosis(wanted[0] if len(wanted) == 1 else self.path, tuple(findings))

    def take_in(self, source: str) -> SessionTree:
        """Copy a session file into the folder, under its own id, and open it.

        Raises:
          StoreError: E_CORRUPT if it is no session; E_CHANGED if the folder has its name already.
        """
        place = file_place(source)
        head = head_at(SYSTEM_SEAMS, place)
        if any(_id_in(path) == head["id"] for path in self.files()):
            text = f"a session with the id {shown(head['id'])} is in {self.path} already; fork it instead"
            raise StoreError("E_CHANGED", text, path=self.path)
        target = f"{self.path}/{_imported_name(head)}"
        copy_session(SYSTEM_SEAMS, place, target, as_current(head), "power")
        return SessionTree.open(target, self.path)


def repair_session(source: str, target: str) -> Mended:
    """Write what can be read of a session file, put in order, to a new file; the old one stays as it is.

    Raises:
      StoreError: E_CORRUPT if nothing in it can be read; E_CHANGED if ``target`` exists; E_DISK.
    """
    return mend_session(SYSTEM_SEAMS, file_place(source), file_place(target))


def _id_in(path: str) -> str:
    """The id in the name of a session's file; the whole name of one that is named otherwise."""
    name = os.path.basename(path).removesuffix(".jsonl")
    return name.partition("_")[2] or name


def _imported_name(head: dict[str, object]) -> str:
    stamp = head.get("timestamp")
    text = stamp if type(stamp) is str else iso_time(SYSTEM_SEAMS.now_ms())
    return f"{''.join('-' if sign in ':./' else sign for sign in text)}_{str(head['id']).replace('/', '-')}.jsonl"
