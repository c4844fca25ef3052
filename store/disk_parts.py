"""The real ``FileParts``: a range of a file is read, and a torn end cut off, under the rules D1 to D5 of ``disk``."""

from __future__ import annotations

import contextlib
import os
from typing import final

import attrs

from .disk import folders_exist, opened, translated


@final
@attrs.frozen
class RealFileParts:
    """The ``FileParts`` of this machine. ``root`` is where looking for symlinks begins."""

    root: str = "/"

    def read_part(self, path: str, start: int, size: int) -> bytes | None:
        if not folders_exist(self.root, "read", path):
            return None
        with (
            translated("read", path),
            contextlib.suppress(FileNotFoundError),  # D4
            opened(path, os.O_RDONLY) as descriptor,
        ):
            found = os.pread(descriptor, size, start)
            while len(found) < size and (more := os.pread(descriptor, size - len(found), start + len(found))):
                found += more
            return found
        return None

    def cut(self, path: str, size: int) -> None:
        folders_exist(self.root, "cut", path)
        with translated("cut", path), opened(path, os.O_WRONLY) as descriptor:
            if os.fstat(descriptor).st_size > size:  # ftruncate would also lengthen
                os.ftruncate(descriptor, size)
