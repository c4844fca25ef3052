"""The real disk with trouble where a test wants it."""

from __future__ import annotations

from collections.abc import Callable

from strataflow.store import FileStat, RealDisk
from strataflow.store.disk_paths import refused


class FaultyDisk:
    """Passes every call on to the real disk, unless a rule for its path refuses it or does something first.

    A rule holds until it is lifted, or for a number of calls. The last argument of a call is the path that counts: of a
    rename its target.
    """

    def __init__(self) -> None:
        self._real = RealDisk()
        self._rules: dict[tuple[str, str], tuple[Callable[[], None], int]] = {}
        self.calls: list[tuple[str, str]] = []

    def refuse(self, operation: str, path: str, code: int, *, times: int = 1_000_000) -> FaultyDisk:
        """Let a call fail with this ``errno``."""

        def fail() -> None:
            raise refused(operation, path, code)

        self._rules[operation, path] = (fail, times)
        return self

    def before(self, operation: str, path: str, act: Callable[[], None]) -> FaultyDisk:
        """Do something just before the next such call."""
        self._rules[operation, path] = (act, 1)
        return self

    def lift(self) -> None:
        """All trouble ends."""
        self._rules.clear()

    def _meet(self, operation: str, path: str) -> None:
        self.calls.append((operation, path))
        rule = self._rules.get((operation, path))
        if rule is not None:
            act, times = rule
            self._rules[operation, path] = (act, times - 1)
            if times <= 1:
                del self._rules[operation, path]
            act()

    def read(self, path: str) -> bytes | None:
        self._meet("read", path)
        return self._real.read(path)

    def stat(self, path: str) -> FileStat | None:
        self._meet("stat", path)
        return self._real.stat(path)

    def list(self, path: str) -> list[str] | None:
        self._meet("list", path)
        return self._real.list(path)

    def make_folder(self, path: str) -> bool:
        self._meet("make_folder", path)
        return self._real.make_folder(path)

    def write_new(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        self._meet("write_new", path)
        self._real.write_new(path, data, mode=mode)

    def append(self, path: str, data: bytes) -> None:
        self._meet("append", path)
        self._real.append(path, data)

    def sync_file(self, path: str) -> None:
        self._meet("sync_file", path)
        self._real.sync_file(path)

    def sync_folder(self, path: str) -> None:
        self._meet("sync_folder", path)
        self._real.sync_folder(path)

    def rename(self, source: str, target: str) -> None:
        self._meet("rename", target)
        self._real.rename(source, target)

    def link(self, source: str, target: str) -> bool:
        self._meet("link", target)
        return self._real.link(source, target)

    def unlink(self, path: str) -> bool:
        self._meet("unlink", path)
        return self._real.unlink(path)

    def remove_folder(self, path: str) -> bool:
        self._meet("remove_folder", path)
        return self._real.remove_folder(path)

    def file_system_type(self, path: str) -> str:
        return self._real.file_system_type(path)
