"""The repository around a store, and what a backup reads of the store. This is its door.

``places`` finds the repository, ``mutex`` lets one program at a time back it up, ``capture`` reads the canonical files
of one moment, ``files`` is what backups keep in the private folder. What Git is told is in ``store/backup``.
"""

from ..layout import is_owned
from .capture import Captured, LastBackup, capture
from .files import change_record, clear, lay_out, read_record
from .mutex import BACKUP_LOCK, PUSH_LOCK, BackupMutex
from .places import Repository, detached, has_repository, plain_repository, read_head

__all__ = [
    "BACKUP_LOCK",
    "PUSH_LOCK",
    "BackupMutex",
    "Captured",
    "LastBackup",
    "Repository",
    "capture",
    "change_record",
    "clear",
    "detached",
    "has_repository",
    "is_owned",
    "lay_out",
    "plain_repository",
    "read_head",
    "read_record",
]
