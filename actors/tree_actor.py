"""The writer of a session's tree: one actor, and all that goes on with the tree goes on in its mailbox's order.

::

    handle, session actor, run --TreeCall--> mailbox --one at a time, in a worker thread--> the tree and its file

Whoever asks waits for the answer; what memory notes in the tree is told, and nobody waits for it. The supervisor starts
this actor before the session's and ends it after it, so that what was accepted before the end is written.

Invariants:
  T1  Calls are carried out in the order in which they were made, each whole or not at all.
  T2  A call that was withdrawn before its turn has changed nothing; one whose turn has come is carried out to its end,
      unless it waits for another process, which the end of the session ends.
  T3  What is read without asking (``leaf_id``, ``name``) is as of the last call that has ended, never in between.
  T4  A call that fails is an answer: whatever a caller gives, the actor lives on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar, final

import attrs
import trio

from ..store import CHECKPOINT_ENTRY, MARKER_ENTRY, Json, Locks, StoreError, shown
from ..store.trace import Tell, TraceTree
from .actor import ActorRef, Request
from .mailbox import Mailbox
from .ports import Threads
from .tree_locks import PatientLocks

T = TypeVar("T")
_OURS = (CHECKPOINT_ENTRY, MARKER_ENTRY)


@final
@attrs.frozen
class TreeAnswer:
    """What a call has returned, or raised."""

    value: Any = None
    error: Exception | None = None

    def told(self) -> Any:
        """What it returned; or what it raised is raised."""
        if self.error is not None:
            raise self.error
        return self.value


@final
@attrs.frozen
class TreeCall(Request[TreeAnswer]):
    """Do something with the tree, in a worker thread. ``failed``: told of an error that nobody waits for.

    ``is_brief``: it touches no file, and is done in its turn without a thread."""

    call: Callable[[TraceTree], Any]
    failed: Callable[[Exception], None] = lambda error: None
    is_brief: bool = False


@final
@attrs.define(eq=False)
class TreeCell:
    """A session's tree, as its actors and handles share it.

    Attributes:
      session_id, cwd: whose it is, for what is reported.
      leaf_id, name: of the tree (T3).
      entries: what the selected branch says of memory, as of the last ``look``.
      ref: of its actor, once that is there.
    """

    session_id: str
    cwd: str
    tree: TraceTree
    threads: Threads
    report: Callable[..., None]
    note: Callable[[str], None]
    leaf_id: str | None = attrs.field(default=None, init=False)
    name: str | None = attrs.field(default=None, init=False)
    entries: Sequence[Mapping[str, Any]] = attrs.field(default=(), init=False)
    ref: ActorRef | None = attrs.field(default=None, init=False)
    _locks: PatientLocks = attrs.field(
        default=attrs.Factory(lambda self: PatientLocks(self.tree.locks), takes_self=True), init=False
    )
    _before: tuple[Locks, Tell] = attrs.field(init=False)
    _events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._publish()

    # -- what others ask for ------------------------------------------------------------------------------------

    async def ask(self, call: Callable[[TraceTree], T]) -> T:
        """Do something with the tree, after all that was asked for before (T1).

        Always a checkpoint. If it raises Cancelled, the call was withdrawn, or is carried out to its end (T2).

        Raises: what the call raises; StoreError E_CLOSED, E_BROKEN.
        """
        value: T = (await self.attempt(call)).told()
        return value

    async def attempt(self, call: Callable[[TraceTree], Any]) -> TreeAnswer:
        """As ``ask``, but what the call raises is told, not raised."""
        assert self.ref is not None
        return await self.ref.ask(TreeCall(call))

    async def settle(self) -> None:
        """Wait until all that was asked for and told before has been carried out."""
        await self.ask(TraceTree.get_leaf_id)

    async def look(self) -> None:
        """Read what the selected branch says of memory."""
        self.entries = await self.ask(entries_for_memory)

    def branch(self) -> Sequence[Mapping[str, Any]]:
        """See ``HostEntries``: what ``look`` found."""
        return self.entries

    def append(self, custom_type: str, data: Json) -> None:
        """See ``HostEntries``. It is written in its turn; what fails then is reported, as here."""

        def failed(error: Exception) -> None:
            self.report("host-entry-failed", session=self.session_id, entry=custom_type, error=error)

        assert self.ref is not None
        self.ref.tell_nowait(TreeCall(lambda tree: tree.append_custom_entry(custom_type, data), failed))

    def follow_run(self, is_running: bool) -> None:
        """A run begins or ends. What others added before it began comes before it."""

        assert self.ref is not None
        try:
            call = _begin_run if is_running else TraceTree.end_run
            self.ref.tell_nowait(TreeCall(call, self._failed, is_brief=not is_running))
        except (trio.WouldBlock, StoreError) as error:
            # No room, or the end: the run goes on as if it were none, and may continue behind others' entries.
            self._failed(error)

    async def fork(self, session_id: str, now_ms: int) -> TraceTree:
        """A tree of its own with the path to the leaf. Its file, if this one may have one, is still to be written.

        Cancellation as ``ask``.
        """

        def forked(tree: TraceTree) -> TraceTree:
            child, leaf = copy(tree), tree.get_leaf_id()  # it keeps nothing of the other but what it replaces
            if leaf is None:
                child.new_session(session_id, tree.get_session_file(), timestamp_ms=now_ms)
            else:
                child.create_branched_session(leaf, session_id=session_id, timestamp_ms=now_ms, is_deferred=True)
            child.end_run()
            child.adopt(*self._before)
            return child

        return await self.ask(forked)

    def _failed(self, error: Exception) -> None:
        self.report("tree-failed", session=self.session_id, cwd=self.cwd, error=error)

    # -- what the actor does ------------------------------------------------------------------------------------

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """The tree belongs to the session for the body; before and afterwards it may be somebody's."""
        self._before = self.tree.adopt(self._locks, lambda kind, data: self._events.append((kind, data)))
        try:
            yield
        finally:
            self.tree.adopt(*self._before)
            self.tree.end_run()

    async def carry_out(self, call: Callable[[TraceTree], Any]) -> Any:
        """One call, to its end. If it raises Cancelled, nothing was written: it waited for another process."""
        try:
            while True:
                try:
                    return await self.threads.work(lambda: call(self.tree))
                except StoreError:
                    if self._locks.wanted is None:
                        raise
                await self._wait_for_lock()
        finally:
            self._locks.take_back()
            self._publish()
            self._tell_events()

    async def _wait_for_lock(self) -> None:
        lock = self._locks.open_wanted()
        try:
            await self.threads.wait_lock(lock)
        except BaseException:
            lock.close()
            raise
        self._locks.lend(lock)

    def _publish(self) -> None:
        self.leaf_id, self.name = self.tree.get_leaf_id(), self.tree.get_session_name()

    def _tell_events(self) -> None:
        told, self._events[:] = [*self._events], []
        for kind, data in told:
            self.report(kind, session=self.session_id, cwd=self.cwd, **data)
            self.note(_words(kind, data))
            try:
                self._before[1](kind, data)
            except Exception as error:  # of whatever kind: the listener is somebody else's, the call has ended
                self._failed(error)


@final
@attrs.define(eq=False)
class TreeActor:
    """One life of the actor."""

    cell: TreeCell

    async def run(self, mailbox: Mailbox, task_status: trio.TaskStatus[None]) -> None:
        """Serve until the session ends."""
        with self.cell.taken_over():
            task_status.started()
            while (envelope := await mailbox.receive()) is not None:
                envelope.take()
                try:
                    envelope.reply(await self._handle(envelope.message))
                except trio.Cancelled:
                    # It waited for another process, so that its outcome is known (T2): nobody may read that it is not.
                    error = _ended_waiting(self.cell.tree.get_session_file())
                    envelope.message.failed(error)
                    envelope.fail(error)
                    raise

    async def _handle(self, message: TreeCall) -> TreeAnswer:
        try:
            if message.is_brief:
                return TreeAnswer(message.call(self.cell.tree))
            return TreeAnswer(await self.cell.carry_out(message.call))
        except Exception as error:  # of whatever kind (T4)
            message.failed(error)
            return TreeAnswer(error=error)


def entries_for_memory(tree: TraceTree) -> list[Mapping[str, Any]]:
    """The entries of the selected branch that memory looks at (store 6.3): its own whole, of messages the role."""
    found: list[Mapping[str, Any]] = []
    for entry_id, kind in tree.get_branch_kinds():
        if kind.startswith("message:"):
            found.append({"type": "message", "message": {"role": kind.removeprefix("message:")}})
        elif kind == "custom":
            entry = tree.get_entry(entry_id)
            if entry is not None and entry.get("customType") in _OURS:
                found.append(entry)
    return found


def _ended_waiting(path: str | None) -> StoreError:
    text = f"the session was closed while another process had the lock of {shown(path)}; nothing was written"
    return StoreError("E_CLOSED", text, path=path)


def _begin_run(tree: TraceTree) -> None:
    tree.end_run()
    try:
        tree.refresh()
    finally:
        tree.begin_run()


def _words(kind: str, data: Mapping[str, Any]) -> str:
    if kind == "foreign_entries":
        where = "as a branch beside this session's" if data["is_branch"] else "behind which this session goes on"
        return f"another process has added {data['count']} entries to {data['path']}, {where}"
    return f"{kind}: {', '.join(f'{name} {value}' for name, value in data.items())}"
