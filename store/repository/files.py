"""What backups keep in ``.strataflow/``: a note from one to the next, and captured bytes while Git looks at them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Final

from ..algebra import CallError
from ..backup import BackupRecord, record_from
from ..codec import compact, parse_strict
from ..layout import Layout
from ..ports import Disk

BACKUP_NOTE: Final = "backup.json"
BACKUP_FOLDER: Final = "backup"


def read_record(disk: Disk, layout: Layout) -> BackupRecord:
    """What is remembered of the last backup; an empty record where nothing is.

    Raises:
      StoreError: the note can not be read.
    """
    data = disk.read(layout.private(BACKUP_NOTE))
    try:
        return BackupRecord() if data is None else record_from(parse_strict(data))
    except CallError:
        return BackupRecord()


def change_record(disk: Disk, layout: Layout, change: Callable[[BackupRecord], BackupRecord], token: str) -> None:
    """Replace the note by what ``change`` makes of it. Not synced: a lost one costs a complete look at the files.

    Raises:
      StoreError: E_DISK; the note can not be read.
    """
    old = read_record(disk, layout)
    record = change(old)
    if record == old:
        return
    fresh = layout.private(f"{BACKUP_NOTE}.{token}")
    disk.write_new(fresh, compact(record.to_json()).encode())
    disk.rename(fresh, layout.private(BACKUP_NOTE))


def lay_out(disk: Disk, layout: Layout, token: str, files: Mapping[str, bytes]) -> str:
    """Write ``files`` into a folder of their own, and return its path. What a dead process left is removed first.

    Raises:
      StoreError: E_DISK.
    """
    home = layout.private(BACKUP_FOLDER)
    clear(disk, home)
    disk.make_folder(home)
    root = posixpath.join(home, token)
    made = {""}
    disk.make_folder(root)
    for path, data in files.items():
        folder = ""
        for part in path.split("/")[:-1]:
            folder = f"{folder}/{part}" if folder else part
            if folder not in made:
                disk.make_folder(posixpath.join(root, folder))
                made.add(folder)
        disk.write_new(posixpath.join(root, path), data)
    return root


def clear(disk: Disk, path: str) -> None:
    """Remove a folder that we filled, with everything in it.

    Raises:
      StoreError: E_DISK.
    """
    for name in disk.list(path) or ():
        below = posixpath.join(path, name)
        stat = disk.stat(below)
        if stat is not None and stat.kind == "folder":
            clear(disk, below)
        else:
            disk.unlink(below)
    disk.remove_folder(path)
