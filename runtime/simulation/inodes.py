"""What a simulated file system holds now, and what of it survives a power cut.

The rules of durability, those of a local file system with a journal for its own structures, read strictly. Where real
ones promise different things, the least of them holds here. ``docs/reference/disk-rules.md`` names the sources.

  R1  Content is durable up to the last successful sync of the file. What was added since is lost, kept, or torn: each
      block of 512 bytes (by its place in the file) arrives whole or not at all, in any order, and the length on its
      own: the file ends at its old size, at one it had since, at its new size or at a block in between. A block that
      did not arrive reads as zeros or as bytes of another file. Bytes that were synced are never touched.
  R2  A sync that fails leaves what it should have saved doomed: later syncs report success, and yet each block of it
      may be missing after a cut, since systems drop pages that could not be written. What programs read meanwhile
      differs: still the new bytes (``"stays"``), the file as it was when last synced (``"reverts"``), or zeros in
      their place (``"zeros"``).
  R3  Names are durable after a sync of their folder. Of the changes since any may be kept and any undone, as long as
      those that concern the same name or the same file keep their order: a later one never survives without an
      earlier one. A sync takes along what its changes rest on, in other folders too. A file is reached by its name:
      content that was synced under a name that was not is lost.
  R4  A rename within one folder is one change. Between two folders it is the new name, then the removal of the old
      one, which rests on it: a cut can leave both names, not none.
  R5  A rename or link says nothing of content: a synced name may lead to bytes that were never synced. Nothing orders
      the content of one file and names, or the content of two files, between their syncs.
  R6  A removed file that comes back, comes back with its content. Inode numbers are never used twice: whoever
      compares them keeps the file open, and then a real system does not use them again either.
"""

from __future__ import annotations

from typing import Literal, final

import attrs

from ...store import FileKind
from .fates import Fate, Range

FailedSync = Literal["stays", "reverts", "zeros"]


@attrs.define(eq=False)
class Inode:
    """A file, folder or other thing. Ranges are byte offsets, end excluded."""

    number: int
    kind: FileKind
    mode: int
    mtime_ns: int = 0
    links: int = 0
    durable_links: int = 0
    content: bytearray = attrs.field(factory=bytearray)
    durable_size: int = 0
    unsynced: list[Range] = attrs.field(factory=list)
    doomed: list[Range] = attrs.field(factory=list)
    uncut: bytes | None = None
    names: dict[str, int] = attrs.field(factory=dict)
    durable_names: dict[str, int] = attrs.field(factory=dict)

    def add(self, data: bytes) -> None:
        start = len(self.content)
        self.content += data
        if data:
            self.unsynced.append((start, len(self.content)))

    def cut(self, size: int) -> None:
        """Forget what is behind ``size``; until the next sync a power cut may bring it back (P8)."""
        if size >= len(self.content):
            return
        if self.uncut is None:
            self.uncut = bytes(self.content[: self.durable_size])
        del self.content[size:]
        self.durable_size = min(self.durable_size, size)
        self.unsynced = [(start, min(end, size)) for start, end in self.unsynced if start < size]
        self.doomed = [(start, min(end, size)) for start, end in self.doomed if start < size]

    def sync(self) -> None:
        self.unsynced.clear()
        self.uncut = None
        self.durable_size = len(self.content)

    def fail_sync(self, leaves: FailedSync) -> None:  # R2
        if leaves == "reverts":
            del self.content[self.durable_size :]
            self.doomed = [(start, min(end, self.durable_size)) for start, end in self.doomed]
        else:
            self.doomed += self.unsynced
        if leaves == "zeros":
            for start, end in self.unsynced:
                self.content[start:end] = bytes(end - start)
        self.unsynced.clear()

    def twin(self) -> Inode:
        """The same, to be changed on its own."""
        return attrs.evolve(
            self,
            content=self.content.copy(),
            unsynced=self.unsynced.copy(),
            doomed=self.doomed.copy(),
            names=self.names.copy(),
            durable_names=self.durable_names.copy(),
        )


@attrs.frozen(eq=False)
class NameChange:
    """One not yet durable change of a folder: names and the inodes they lead to now (None: removed).

    ``inodes`` are all that it concerns, also those that lost a name; ``rests_on`` earlier changes that must survive
    if this one does (R3).
    """

    folder: int
    changes: tuple[tuple[str, int | None], ...]
    inodes: frozenset[int]
    rests_on: tuple[NameChange, ...]

    def concerns(self, folder: int, names: frozenset[str], inodes: frozenset[int]) -> bool:
        shares_name = self.folder == folder and any(name in names for name, _ in self.changes)
        return shares_name or not inodes.isdisjoint(self.inodes)


@final
class FileSystem:
    """Inodes below one root folder, and the changes of names that are not durable yet, oldest first."""

    ROOT = 2

    def __init__(self) -> None:
        root = Inode(self.ROOT, "folder", 0o700, links=1, durable_links=1)
        self.inodes: dict[int, Inode] = {self.ROOT: root}
        self.pending: list[NameChange] = []
        self.next_number = self.ROOT + 1

    def create(self, kind: FileKind, mode: int) -> Inode:
        inode = Inode(self.next_number, kind, mode)
        self.next_number += 1
        self.inodes[inode.number] = inode
        return inode

    def change_names(self, folder: Inode, *changes: tuple[str, Inode | None]) -> None:
        """Change names as every process sees them at once. Durable later."""
        touched = set()
        for name, inode in changes:
            old = folder.names.pop(name, None)
            if old is not None:
                self.inodes[old].links -= 1
                touched.add(old)
            if inode is not None:
                folder.names[name] = inode.number
                inode.links += 1
                touched.add(inode.number)
        names, inodes = frozenset(name for name, _ in changes), frozenset(touched)
        numbers = tuple((name, None if inode is None else inode.number) for name, inode in changes)
        rests_on = tuple(change for change in self.pending if change.concerns(folder.number, names, inodes))
        self.pending.append(NameChange(folder.number, numbers, inodes, rests_on))

    def sync_names(self, folder: Inode) -> None:
        """Make the changes of a folder durable, with those that they rest on (R3, R4)."""
        wanted: set[int] = set()
        for change in reversed(self.pending):
            if change.folder == folder.number or id(change) in wanted:
                wanted.update(map(id, (change, *change.rests_on)))
        durable = [change for change in self.pending if id(change) in wanted]
        self.pending = [change for change in self.pending if id(change) not in wanted]
        for change in durable:
            self._make_durable(change)
        for change in durable:
            self._forget(change.inodes)

    def _make_durable(self, change: NameChange) -> None:
        names = self.inodes[change.folder].durable_names
        for name, _ in change.changes:
            if name in names:
                self.inodes[names[name]].durable_links -= 1
        _apply(change, names)
        for _, number in change.changes:
            if number is not None:
                self.inodes[number].durable_links += 1

    def _forget(self, inodes: frozenset[int]) -> None:
        """Drop what no name leads to, now or after any cut: a long run must not keep all it ever wrote."""
        for number in inodes & self.inodes.keys():
            inode = self.inodes[number]
            if inode.links or inode.durable_links or any(number in change.inodes for change in self.pending):
                continue
            del self.inodes[number]
            self.pending = [change for change in self.pending if change.folder != number]
            lost = frozenset(inode.durable_names.values())
            for child in lost:
                self.inodes[child].durable_links -= 1
            self._forget(lost)

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

    def twin(self) -> FileSystem:
        """The same, to be changed on its own: what was not synced is at risk in both."""
        copy = FileSystem()
        copy.inodes = {number: inode.twin() for number, inode in self.inodes.items()}
        copy.pending = self.pending.copy()  # its items are never changed
        copy.next_number = self.next_number
        return copy

    def after_power_cut(self, fate: Fate) -> FileSystem:
        """What is there when the machine is on again. This object stays as it is."""
        names = {number: dict(inode.durable_names) for number, inode in self.inodes.items()}
        undone: set[int] = set()
        for change in self.pending:
            if any(id(earlier) in undone for earlier in change.rests_on) or not fate.keeps_name():  # R3
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
                    after.inodes[child] = _survivor(self.inodes[child], fate)
                    todo.append(child)
                after.inodes[child].links += 1
                after.inodes[child].durable_links += 1
                folder.names[name] = child
        for inode in after.inodes.values():  # all that was found was read from the platter
            inode.sync()
            inode.durable_names = dict(inode.names)
        return after


def _survivor(inode: Inode, fate: Fate) -> Inode:
    if inode.uncut is not None and not fate.keeps_name():  # a cut is a change of the file's entry, as names are (P8)
        content = inode.uncut
    else:
        content = fate.content(bytes(inode.content), inode.durable_size, inode.unsynced, inode.doomed)
    return Inode(inode.number, inode.kind, inode.mode, inode.mtime_ns, content=bytearray(content))


def _apply(change: NameChange, names: dict[str, int]) -> None:
    for name, number in change.changes:
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number
