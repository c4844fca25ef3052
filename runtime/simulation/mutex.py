"""The lock around the journals of a simulated machine, which real threads and halting calls both meet."""

from __future__ import annotations

import threading
from typing import final


@final
class Mutex:
    """A lock of threads that can be entered again, and tells whether anybody is inside."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0

    @property
    def is_held(self) -> bool:
        """Whether somebody is inside."""
        return self._depth > 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *about: object) -> None:
        self._depth -= 1
        self._lock.release()
