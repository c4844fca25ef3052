"""What a simulated file system holds now, and what of it survives a power cut.

The rules of durability, those of a local file system with a journal for its own structures, read strictly:

  R1  Content is durable up to the last successful sync of the file. What was added since is lost, kept, or torn: each
      block of 512 bytes (by its place in the file) arrives whole or reads as zeros, and the file ends at its old size,
      at its new size or at a block in between. Bytes that were synced are never touched.
  R2  A sync that fails leaves what it should have saved doomed: later syncs report success, and yet each block of it
      may read as zeros after a cut, since systems drop pages that could not be written.
  R3  Names are durable after a sync of their folder. Changes since are kept up to some change and undone from there
      on, folder by folder. A file is reached by its name: content that was synced under a name that was not is lost.
  R4  A rename within one folder is one change. Between two folders it is the new name, then the removal of the old
      one, which never survives without the new name: a cut can leave both names, not none.
  R5  A rename or link says nothing of content: a synced name may lead to bytes that were never synced.
  R6  A removed file that comes back, comes back with its content. Inode numbers are never used twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal, final

import attrs

from ...store import FileKind

BLOCK_BYTES = 512
CrashMode = Literal["lose", "keep", "torn"]
Range = tuple[int, int]


@attrs.define(eq=False)
class Inode:
    """A file, folder or other thing. Ranges are byte offsets, end excluded."""

    number: int
    kind: FileKind
    mode: int
    mtime_ns: int = 0
    links: int = 0
    content: bytearray = attrs.field(factory=bytearray)
    durable_size: int = 0
    unsynced: list[Range] = attrs.field(factory=list)
    doomed: list[Range] = attrs.field(factory=list)
    names: dict[str, int] = attrs.field(factory=dict)
    durable_names: dict[str, int] = attrs.field(factory=dict)

    def add(self, data: bytes) -> None:
        start = len(self.content)
        self.content += data
        if data:
            self.unsynced.append((start, len(self.content)))

    def sync(self) -> None:
        self.unsynced.clear()
        self.durable_size = len(self.content)

    def fail_sync(self) -> None:  # R2
        self.doomed += self.unsynced
        self.unsynced.clear()


@attrs.frozen(eq=False)
class NameChange:
    """One not yet durable change of a folder: names and the inodes they lead to now (None: removed)."""

    folder: int
    changes: tuple[tuple[str, int | None], ...]
    requires: NameChange | None = None


@final
class Fate:
    """Decides what survives one power cut. Each of the methods is asked once for each thing at risk."""

    def __init__(self, mode: CrashMode, chance: random.Random) -> None:
        self._mode = mode
        self._chance = chance
        # Drawn once for each cut, so that cuts with nearly all and nearly nothing kept are common.
        self._share = chance.choice((0.1, 0.5, 0.9))

    def keeps_name(self) -> bool:
        return self._mode == "keep" or (self._mode == "torn" and self._chance.random() < self._share)

    def content(self, inode: Inode) -> bytes:
        """The content of a file after the cut (R1, R2)."""
        mode: str = self._mode
        if mode == "torn":
            mode = self._chance.choice(("lose", "keep", "zeros", "torn", "torn"))
        if mode == "keep":
            return bytes(inode.content)
        size = self._size(inode, mode)
        content = inode.content[:size]
        zeroed: dict[int, bool] = {}
        for start, end in _blocks(inode.unsynced + inode.doomed):
            block = start // BLOCK_BYTES
            if block not in zeroed:
                zeroed[block] = mode != "torn" or self._chance.random() >= self._share
            end = min(end, size)
            if zeroed[block] and start < end:
                content[start:end] = bytes(end - start)
        return bytes(content)

    def _size(self, inode: Inode, mode: str) -> int:
        new = len(inode.content)
        if mode == "lose":
            return inode.durable_size
        if mode == "zeros":
            return new
        old = inode.durable_size
        first = (old // BLOCK_BYTES + 1) * BLOCK_BYTES
        ends: list[int] = [old, *range(first, new, BLOCK_BYTES), new]
        return self._chance.choice(ends)


def _blocks(ranges: list[Range]) -> Iterator[Range]:
    """The ranges, cut at the borders of blocks."""
    for start, end in ranges:
        while start < end:
            border = min(end, (start // BLOCK_BYTES + 1) * BLOCK_BYTES)
            yield start, border
            start = border


@final
class FileSystem:
    """Inodes below one root folder, and the changes of names that are not durable yet, oldest first."""

    ROOT = 2

    def __init__(self) -> None:
        root = Inode(self.ROOT, "folder", 0o700, links=1)
        self.inodes: dict[int, Inode] = {self.ROOT: root}
        self.pending: list[NameChange] = []
        self.next_number = self.ROOT + 1

    def create(self, kind: FileKind, mode: int) -> Inode:
        inode = Inode(self.next_number, kind, mode)
        self.next_number += 1
        self.inodes[inode.number] = inode
        return inode

    def change_names(
        self, folder: Inode, *changes: tuple[str, Inode | None], requires: NameChange | None = None
    ) -> NameChange:
        """Change names as every process sees them at once. Durable later."""
        for name, inode in changes:
            old = folder.names.pop(name, None)
            if old is not None:
                self.inodes[old].links -= 1
            if inode is not None:
                folder.names[name] = inode.number
                inode.links += 1
        numbers = tuple((name, None if inode is None else inode.number) for name, inode in changes)
        self.pending.append(NameChange(folder.number, numbers, requires))
        return self.pending[-1]

    def sync_names(self, folder: Inode) -> None:
        """Make the changes of a folder durable, with those that they rest on (R3, R4)."""
        folders = {folder.number}
        required: set[int] = set()
        durable: list[NameChange] = []
        waiting: list[NameChange] = []
        for change in reversed(self.pending):
            if change.folder not in folders and id(change) not in required:
                waiting.append(change)
                continue
            folders.add(change.folder)
            if change.requires is not None:
                required.add(id(change.requires))
            durable.append(change)
        self.pending = waiting[::-1]
        for change in reversed(durable):
            _apply(change, self.inodes[change.folder].durable_names)

    def plant(self, path: str, kind: FileKind, content: bytes, mode: int | None) -> None:
        """Put a thing at a path, with all folders above it, and make it and the names of these folders durable."""
        names = path.strip("/").split("/")
        folder = self.inodes[self.ROOT]
        folders = [folder]
        for name in names[:-1]:
            if name not in folder.names:
                self.change_names(folder, (name, self.create("folder", 0o700)))
            folder = self.inodes[folder.names[name]]
            folders.append(folder)
        inode = self.create(kind, (0o700 if kind == "folder" else 0o600) if mode is None else mode)
        inode.add(content)
        inode.sync()
        self.change_names(folder, (names[-1], inode))
        for folder in folders:
            self.sync_names(folder)

    def contents(self) -> dict[str, bytes]:
        """All files by path, as programs see them now."""
        found: dict[str, bytes] = {}
        todo = [("", self.ROOT)]
        while todo:
            path, number = todo.pop()
            inode = self.inodes[number]
            if inode.kind == "file":
                found[path] = bytes(inode.content)
            todo += [(f"{path}/{name}", child) for name, child in inode.names.items()]
        return found

    def used_bytes(self) -> int:
        return sum(len(inode.content) for inode in self.inodes.values() if inode.links)

    def after_power_cut(self, fate: Fate) -> FileSystem:
        """What is there when the machine is on again. This object stays as it is."""
        names = {number: dict(inode.durable_names) for number, inode in self.inodes.items()}
        undone: set[int] = set()
        stopped: set[int] = set()
        for change in self.pending:
            lost = change.folder in stopped or (change.requires is not None and id(change.requires) in undone)
            if lost or not fate.keeps_name():
                stopped.add(change.folder)
                undone.add(id(change))
            else:
                _apply(change, names[change.folder])
        after = FileSystem()
        after.next_number = self.next_number
        after.inodes[self.ROOT].mode = self.inodes[self.ROOT].mode
        todo = [self.ROOT]
        while todo:
            number = todo.pop()
            folder = after.inodes[number]
            for name, child in names[number].items():
                if child not in after.inodes:
                    after.inodes[child] = self._survivor(self.inodes[child], fate)
                    todo.append(child)
                after.inodes[child].links += 1
                folder.names[name] = child
        for inode in after.inodes.values():  # all that was found was read from the platter
            inode.sync()
            inode.durable_names = dict(inode.names)
        return after

    @staticmethod
    def _survivor(inode: Inode, fate: Fate) -> Inode:
        content = bytearray(fate.content(inode))
        return Inode(inode.number, inode.kind, inode.mode, inode.mtime_ns, content=content)


def _apply(change: NameChange, names: dict[str, int]) -> None:
    for name, number in change.changes:
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number
