"""The real disk with trouble where a test wants it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strataflow.store import RealDisk
from strataflow.store.disk_paths import refused


class FaultyDisk:
    """Passes every call on to the real disk, unless a rule for its path refuses it or does something first.

    A rule holds until it is lifted, or for a number of calls. Of a rename or link the target is the path that counts.
    """

    def __init__(self) -> None:
        self._real = RealDisk()
        self._rules: dict[tuple[str, str], tuple[Callable[[], None], int]] = {}
        self._below: list[tuple[str, str, int]] = []
        self.calls: list[tuple[str, str]] = []

    def refuse(self, operation: str, path: str, code: int, *, times: int = 1_000_000) -> FaultyDisk:
        """Let a call fail with this ``errno``."""

        def fail() -> None:
            raise refused(operation, path, code)

        self._rules[operation, path] = (fail, times)
        return self

    def refuse_below(self, operation: str, folder: str, code: int) -> FaultyDisk:
        """Let every call on something in this folder fail."""
        self._below.append((operation, folder + "/", code))
        return self

    def before(self, operation: str, path: str, act: Callable[[], None]) -> FaultyDisk:
        """Do something just before the next such call."""
        self._rules[operation, path] = (act, 1)
        return self

    def lift(self) -> None:
        """All trouble ends."""
        self._rules.clear()
        self._below.clear()

    def _meet(self, operation: str, path: str) -> None:
        self.calls.append((operation, path))
        for what, folder, code in self._below:
            if what == operation and path.startswith(folder):
                raise refused(operation, path, code)
        rule = self._rules.get((operation, path))
        if rule is not None:
            act, times = rule
            self._rules[operation, path] = (act, times - 1)
            if times <= 1:
                del self._rules[operation, path]
            act()

    def __getattr__(self, operation: str) -> Any:
        real = getattr(self._real, operation)

        def call(*arguments: Any, **more: Any) -> Any:
            self._meet(operation, arguments[1] if operation in ("rename", "link") else arguments[0])
            return real(*arguments, **more)

        return call
