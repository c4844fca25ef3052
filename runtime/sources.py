"""The sources of artifact cards, looked at from outside: by exact path and by metadata alone (A11)."""

from __future__ import annotations

import os
from collections.abc import Collection


def missing_sources(paths: Collection[str]) -> list[str]:
    """The paths at which certainly nothing is. Blocking.

    A path that is not absolute and canonical names nothing that could be looked for, and a folder that can not be read
    hides what is in it: neither proves anything.
    """
    return [path for path in paths if _is_missing(path)]


def _is_missing(path: str) -> bool:
    if not os.path.isabs(path) or os.path.normpath(path) != path or "\0" in path:
        return False
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False
