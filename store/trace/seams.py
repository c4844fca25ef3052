"""What a session tree needs of the world: files, locks, the time and chance, all of them given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs

from ..ports import Disk, FileParts, Locks

Tell = Callable[[str, dict[str, Any]], None]


@final
@attrs.frozen
class TraceSeams:
    """The world of session trees.

    Attributes:
      now_ms: milliseconds since 1970.
      new_id: a fresh random UUID in its canonical text form.
    """

    disk: Disk
    parts: FileParts
    locks: Locks
    now_ms: Callable[[], int]
    new_id: Callable[[], str]


def tell_nobody(kind: str, data: dict[str, Any]) -> None:
    """Where nobody listens to a tree's events."""
