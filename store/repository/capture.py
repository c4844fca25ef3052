"""What a backup holds: the canonical files of one moment, as bytes (store 5.2.3).

``capture`` is called with ``checkpoint.lock`` held, and towards Pi with its lock, so that no file is half of one
checkpoint and half of the next: a cohort. It reads and nothing else; Git is not called until the locks are free.

Which files are read follows what has changed. A *quick* look asks the journal which scopes' files it has changed since
the last backup, and compares the names of folders with those of the last commit. A *complete* look reads all files; it
also finds what somebody else changed in folders that nobody has open, and is taken when nothing is known, where Pi
writes too, and once a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from ..algebra import BackupError
from ..checkpoint import CheckpointReport
from ..journal_types import Journal
from ..layout import Layout, is_session_key, scope_files
from ..ports import Disk

_ATTRIBUTES = ".gitattributes"


@attrs.frozen
class Captured:
    """Files of one moment.

    Attributes:
      files: bytes by path relative to the store; None for an owned file that is not there. Only scopes that were
        looked at.
      scopes: the folders of all scopes that exist; what the last commit has beyond them is gone.
      is_complete: whether every file was looked at.
      through: the journal row up to which the files may contain changes.
      attributes: Git's attribute files that govern the files, bytes by path.
      journal: names the journal that ``through`` is of.
    """

    files: Mapping[str, bytes | None]
    scopes: frozenset[str]
    is_complete: bool
    through: int
    attributes: Mapping[str, bytes]
    journal: str


@attrs.frozen
class LastBackup:
    """What the last commit of a backup holds: everything up to row ``through`` of ``journal``, in these ``scopes``."""

    through: int
    journal: str
    scopes: frozenset[str]


def capture(
    disk: Disk, layout: Layout, journal: Journal, last: LastBackup | None, report: CheckpointReport
) -> Captured | None:
    """Read the canonical files; only changed ones if ``last`` can be trusted. Blocking, for a worker thread.

    ``report``: of the checkpoint just before. None: it has left the files of one scope ahead of another's, which a row
    changed that came while it was choosing what to write; another checkpoint writes those too. Where scopes can not be
    written at all there is no better moment.

    Raises:
      StoreError: E_DISK, E_CORRUPT: a folder or an owned file can not be read.
      BackupError: E_REPOSITORY: an owned name is a symlink or a folder.
    """
    if not report.blocked and journal.changed_since(report.through):
        return None
    name = _journal_name(disk, layout)
    if last is not None and last.journal != name:
        last = None
    known = frozenset[str]() if last is None else last.scopes
    scopes = frozenset(_scopes(disk, layout, known))
    changed = journal.changed_since(0 if last is None else last.through)
    looked_at = scopes if last is None else scopes & changed.keys() | scopes - known
    files: dict[str, bytes | None] = {}
    for scope in sorted(looked_at):
        for file in scope_files(scope):
            files[f"{scope}/{file}" if scope else file] = _read(disk, layout.file(scope, file))
    attributes = {}
    for folder in {"", *looked_at, *(scope.partition("/")[0] for scope in looked_at)}:
        data = _read(disk, layout.file(folder, _ATTRIBUTES))
        if data is not None:
            attributes[f"{folder}/{_ATTRIBUTES}" if folder else _ATTRIBUTES] = data
    through = max(changed.values(), default=0 if last is None else last.through)
    return Captured(files, scopes, last is None, through, attributes, name)


def _scopes(disk: Disk, layout: Layout, known: frozenset[str]) -> Iterator[str]:
    """The folders that may hold canonical files: the root, directories, sessions; nothing deeper."""
    yield ""
    for name in disk.list(layout.root) or ():
        if not (len(name) >= 4 and name.startswith("--") and name.endswith("--")):
            continue
        kind = _kind(disk, layout.folder(name))
        if kind == "symlink":
            raise _refusal(layout.folder(name), kind)
        if kind != "folder":
            continue
        yield name
        for key in disk.list(layout.folder(name)) or ():
            scope = f"{name}/{key}"
            # The folder's own files have names that a session could have. Those that the last commit knows as sessions
            # are not looked at again: there may be thousands.
            if scope in known or (
                is_session_key(key) and key not in scope_files(name) and _kind(disk, layout.folder(scope)) == "folder"
            ):
                yield scope


def _kind(disk: Disk, path: str) -> str | None:
    stat = disk.stat(path)
    return None if stat is None else stat.kind


def _read(disk: Disk, path: str) -> bytes | None:
    kind = _kind(disk, path)
    if kind is not None and kind != "file":
        raise _refusal(path, kind)
    return None if kind is None else disk.read(path)


def _refusal(path: str, kind: str) -> BackupError:
    text = f"{path}: is a {kind} where a file of the memory belongs; move it away, then back up again"
    return BackupError("E_REPOSITORY", text, path=path, found=kind)


def _journal_name(disk: Disk, layout: Layout) -> str:
    """Names the journal as it is now: a copy or a new one is another."""
    stat = disk.stat(layout.private("journal.db"))
    return "" if stat is None else f"{stat.device}-{stat.inode}"
