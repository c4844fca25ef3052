"""Ranges of files on a simulated disk: the part of it that long files need.

P8  A cut is at risk like all that was not synced: after a power cut either nothing of it has happened, nor of what
    was added behind it, or it counts as done and R1 speaks of the rest.
"""

from __future__ import annotations

import abc
from contextlib import AbstractContextManager

from .inodes import FileSystem
from .walking import existing, find_kind


class PartsOfFiles(abc.ABC):
    """``FileParts`` for a simulated disk that counts and refuses these operations as its others."""

    _files: FileSystem

    @abc.abstractmethod
    def _operation(self, name: str, path: str) -> AbstractContextManager[object]:
        """The block of one operation of the disk."""

    def read_part(self, path: str, start: int, size: int) -> bytes | None:
        with self._operation("read_part", path):
            inode = find_kind(self._files, path, "file", 0o400)
            return None if inode is None else bytes(inode.content[start : start + size])

    def cut(self, path: str, size: int) -> None:
        with self._operation("cut", path):
            existing(find_kind(self._files, path, "file", 0o200)).cut(size)
