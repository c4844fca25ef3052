"""Where the trees of a runtime's sessions are: one file a session, under the id that its memory has (Ours-19).

The file of a session is there from the moment at which it is opened with a tree, so that all that is acknowledged
afterwards is in it, also what memory notes before the first message. Who makes it holds one lock for all session files,
so that two processes that open one new session make one file of it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final, Literal, final

import attrs
import trio

from ..actors import Clock, Ids, Threads, TreeCell
from ..store import (
    CallError,
    Disk,
    Durability,
    HostEntries,
    Layout,
    StoreError,
    cwd_key,
    normalise_cwd,
    shown,
)
from ..store.trace import TraceSeams, TraceTree, TreeOptions, begin_tree, check_id, folder_name, open_tree, time_ms
from .joining import TreeGround, held

LOCK_FILE: Final = ".strataflow.lock"
_STAMP: Final = r"(\d{4})-(\d\d)-(\d\d)T(\d\d)-(\d\d)-(\d\d)-(\d{3})Z_"


@final
@attrs.frozen
class TreeShelf:
    """The session files of one runtime."""

    ground: TreeGround
    threads: Threads
    clock: Clock
    ids: Ids
    level: Durability
    store: Disk
    layout: Layout

    async def open(self, cwd: str, session_id: str, *, reads_store: bool) -> TraceTree:
        """The session's tree; a new one is written at once.

        Args:
          reads_store: whether the store may be looked at: the name of a session's memory can tell since when it is.

        If it raises Cancelled, the file may be there.

        Raises:
          CallError: E_SHAPE for an id that no file can be named after.
          StoreError: E_BRANCH if several files have this id; E_CORRUPT, E_CHANGED, E_DISK.
        """
        check_id(session_id)
        found = await self.threads.work(lambda: self._opened(cwd, session_id))
        if found is not None:
            return found
        tree = await self.threads.work(lambda: self._begun(cwd, session_id, reads_store))

        def opened_or_written() -> TraceTree:
            other = self._opened(cwd, session_id)
            if other is not None:
                return other
            tree.write_now()
            return tree

        lock = self.ground.locks.open(self._lock_path(tree.get_session_dir()))
        try:
            async with held(self.threads, lock):
                return await self.threads.work(opened_or_written)
        finally:
            lock.close()

    async def fork(self, parent: TreeCell, child_id: str) -> TraceTree:
        """A child's tree: the path to the parent's leaf, in a file beside the parent's, which is written.

        If it raises Cancelled, there is no file.

        Raises:
          CallError: E_SHAPE for an id that no file can be named after.
          StoreError: E_BRANCH if a session of this id is there; E_CHANGED, E_DISK.
        """
        check_id(child_id)
        tree = await parent.fork(child_id, self.clock.wall_ms())
        folder = tree.get_session_dir()
        if not folder:
            return tree
        made: list[TraceTree] = []

        def write() -> None:
            taken = self._files(folder, child_id)
            if taken:
                text = f"session {shown(child_id)} has a session file, {taken[0]}: fork to an id that nobody has"
                raise StoreError("E_BRANCH", text, path=taken[0])
            tree.write_now()
            made.append(tree)

        lock = self.ground.locks.open(self._lock_path(folder))
        try:
            async with held(self.threads, lock):
                await self.threads.work(write)
        except trio.Cancelled:
            # Without the shield the file of a child that was not made would stay. It ends: it takes one file away.
            with trio.CancelScope(shield=True), suppress(StoreError):
                for child in made:
                    await self.discard(child)
            raise
        finally:
            lock.close()
        return tree

    async def discard(self, tree: TraceTree) -> None:
        """A fork came to nothing: its file goes."""
        path = tree.get_session_file()
        if path is not None:
            await self.threads.work(lambda: self.ground.disk.unlink(path))

    def _lock_path(self, folder: str) -> str:
        root = self.ground.folder
        return f"{root if folder.startswith(root + '/') else folder}/{LOCK_FILE}"

    # -- in a worker thread -------------------------------------------------------------------------------------

    def _files(self, folder: str, session_id: str) -> list[str]:
        names = self.ground.disk.list(folder) or ()
        return [f"{folder}/{name}" for name in names if name.partition("_")[2] == f"{session_id}.jsonl"]

    def _opened(self, cwd: str, session_id: str) -> TraceTree | None:
        folder = f"{self.ground.folder}/{folder_name(cwd)}"
        found = self._files(folder, session_id)
        if not found:
            return None
        if len(found) > 1:
            text = f"several session files have the id {shown(session_id)}: {', '.join(found)}; open one of them with "
            raise StoreError("E_BRANCH", text + "SessionTree.open, and give it as tree", path=folder)
        options = TreeOptions(self.level, "user")
        # A power cut may have left an empty file: the session begins anew, as the one that it is.
        tree = open_tree(
            TraceTree,
            self._seams,
            found[0],
            options,
            default_cwd=cwd,
            session_dir=folder,
            cwd=cwd,
            session_id=session_id,
        )
        told = tree.get_session_id()
        if told != session_id:
            text = f"{found[0]} is named after session {shown(session_id)} and says that it is {shown(told)}"
            raise StoreError("E_CORRUPT", f"{text}; nothing was changed, rename it", path=found[0])
        return tree

    def _begun(self, cwd: str, session_id: str, reads_store: bool) -> TraceTree:
        since = self._since_ms(cwd, session_id) if reads_store else None
        return begin_tree(
            TraceTree,
            self._seams,
            cwd,
            f"{self.ground.folder}/{folder_name(cwd)}",
            TreeOptions(self.level, "user"),
            session_id=session_id,
            timestamp_ms=self.clock.wall_ms() if since is None else since,
        )

    def _since_ms(self, cwd: str, session_id: str) -> int | None:
        """Since when the session is, as the only folder ``<time>_<id>`` of its memory says; None if none does."""
        names = self.store.list(self.layout.folder(cwd_key(cwd))) or ()
        matches = [re.fullmatch(_STAMP + re.escape(session_id), name) for name in names]
        found = [match for match in matches if match is not None]
        if len(found) != 1 or session_id in names:
            return None
        year, month, day, hour, minute, second, ms = found[0].groups()
        return time_ms(f"{year}-{month}-{day}T{hour}:{minute}:{second}.{ms}Z")

    @property
    def _seams(self) -> TraceSeams:
        ground = self.ground
        return TraceSeams(ground.disk, ground.parts, ground.locks, self.clock.wall_ms, self.ids.new_id)


def checked_tree(
    tree: object, cwd: str, session_id: str, entries: HostEntries | None
) -> TraceTree | Literal[True] | None:
    """The tree that a session is to be opened with, if it can be this session's.

    Raises:
      CallError: E_SHAPE.
    """
    if tree is None or tree is False:
        return None
    if entries is not None:
        raise CallError("E_SHAPE", "a session's tree is its log; give entries or a tree, not both")
    if tree is True:
        return True
    if not isinstance(tree, TraceTree):
        raise CallError("E_SHAPE", f"the tree is True or a SessionTree, not {shown(tree)}")
    if tree.get_session_id() != session_id:
        text = f"this tree is of session {shown(tree.get_session_id())}, not of {shown(session_id)}"
        raise CallError("E_SHAPE", f"{text}: open the session under the tree's id")
    if normalise_cwd(tree.get_cwd()) != cwd:
        text = f"this tree is of {shown(tree.get_cwd())}, not of {shown(cwd)}"
        raise CallError("E_SHAPE", f"{text}: open the tree with this cwd, or the session in the tree's")
    return tree
