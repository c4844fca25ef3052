"""Sources of artifact cards on a simulated machine: files that nobody but their owners writes, outside of the store.

They outlive every process and every power cut. Whoever changes one acts as an editor would; each write shows, also one
that leaves the size as it was, since every write has a time of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import final

import attrs
import trio

from ...store.artifacts import MISSING, Digest, Fingerprint, Seen, Unavailable, is_canonical

_FIRST_NS = 1_700_000_000_000_000_000


@final
@attrs.define(eq=False)
class SimulatedSources:
    """The simulated form of ``Sources``.

    Attributes:
      silent: paths that do not answer.
      looks: the paths of each look so far.
      before_look: awaited before each look with its paths.
    """

    silent: set[str] = attrs.field(factory=set)
    before_look: Callable[[Sequence[str]], Awaitable[None]] | None = None
    looks: list[tuple[str, ...]] = attrs.field(factory=list)
    _files: dict[str, tuple[bytes, int]] = attrs.field(factory=dict, init=False)
    _hidden: dict[str, str] = attrs.field(factory=dict, init=False)
    _time_ns: int = attrs.field(default=_FIRST_NS, init=False)

    def write(self, path: str, content: bytes, mtime_ns: int | None = None) -> None:
        """Make or replace a file."""
        self._time_ns += 1
        self._files[path] = content, self._time_ns if mtime_ns is None else mtime_ns
        self._hidden.pop(path, None)

    def remove(self, path: str) -> None:
        """Take a file away, if there is one."""
        self._files.pop(path, None)

    def hide(self, path: str, reason: str) -> None:
        """From here on nobody can tell what is at the path, until it is written."""
        self._hidden[path] = reason

    def at(self, path: str) -> Seen:
        """What the path is now."""
        if not is_canonical(path):
            return Unavailable("it is no absolute path in its canonical spelling")
        if path in self._hidden:
            return Unavailable(self._hidden[path])
        if path not in self._files:
            is_folder = any(other.startswith(f"{path}/") for other in self._files)
            return Unavailable("it is a folder") if is_folder else MISSING
        content, mtime_ns = self._files[path]
        return Fingerprint(len(content), mtime_ns)

    async def inspect(self, paths: Sequence[str]) -> Mapping[str, Seen]:
        """See ``Sources.inspect``."""
        await trio.lowlevel.checkpoint()
        if self.before_look is not None:
            await self.before_look(paths)
        self.looks.append(tuple(paths))
        return {path: self.at(path) for path in paths if path not in self.silent}

    async def digest(self, path: str) -> Digest:
        """See ``Sources.digest``."""
        await trio.lowlevel.checkpoint()
        seen = self.at(path)
        if not isinstance(seen, Fingerprint):
            return Digest(None, problem=seen.reason if isinstance(seen, Unavailable) else "it is gone")
        return Digest(f"sha256:{hashlib.sha256(self._files[path][0]).hexdigest()}", seen)
