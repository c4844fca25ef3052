"""How an agent uses the tree of its session: one call after another, in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar, final

import attrs
import trio

from ....actors import ActorRef, MoveTree, TreeCell
from ....store.trace import TraceTree, TreeOptions, begin_tree
from ...session import Session
from ...session_trees import SYSTEM_SEAMS

T = TypeVar("T")
# How long a cancellation waits for a call that has begun.
LAST_CALL_S: Final = 4.0


class TreeDesk(Protocol):
    """Access to one tree. ``tree`` itself is only used within calls."""

    @property
    def tree(self) -> TraceTree: ...

    @property
    def leaf_id(self) -> str | None:
        """The leaf as of the last call that has ended."""
        ...

    async def ask(self, call: Callable[[TraceTree], T]) -> T:
        """What ``call`` gives. If it raises Cancelled, it has not begun, or goes on to its end."""
        ...

    async def work(self, call: Callable[[], T], /) -> T:
        """As ``ask``, for a call that knows its tree. A cancellation waits for its end, if it has begun."""
        ...

    async def move(self, call: Callable[[], T], /) -> T:
        """As ``work``, for a call that may go to another branch: memory follows."""
        ...


@final
@attrs.frozen(eq=False)
class TreeInMemory:
    """The conversation of a session that has no tree of its own: it ends with the program."""

    tree: TraceTree

    @property
    def leaf_id(self) -> str | None:
        """See ``TreeDesk``."""
        return self.tree.get_leaf_id()

    async def ask(self, call: Callable[[TraceTree], T]) -> T:
        """See ``TreeDesk``."""
        await trio.lowlevel.checkpoint()
        return call(self.tree)

    async def work(self, call: Callable[[], T], /) -> T:
        """See ``TreeDesk``."""
        await trio.lowlevel.checkpoint()
        return call()

    async def move(self, call: Callable[[], T], /) -> T:
        """See ``TreeDesk``."""
        return await self.work(call)


@final
@attrs.frozen(eq=False)
class TreeOfSession:
    """The tree that belongs to a session, and is served by its actor."""

    cell: TreeCell
    session_actor: ActorRef

    @property
    def tree(self) -> TraceTree:
        """The tree itself."""
        return self.cell.tree

    @property
    def leaf_id(self) -> str | None:
        """See ``TreeDesk``."""
        return self.cell.leaf_id

    async def ask(self, call: Callable[[TraceTree], T]) -> T:
        """See ``TreeDesk``."""
        return await self.cell.ask(call)

    async def work(self, call: Callable[[], T], /) -> T:
        """See ``TreeDesk``."""
        return await to_its_end(lambda: self.cell.ask(lambda tree: call()))

    async def move(self, call: Callable[[], T], /) -> T:
        """See ``TreeDesk``."""

        async def moved() -> T:
            made: T = (await self.session_actor.ask(MoveTree(lambda tree: call()))).told()
            return made

        return await to_its_end(moved)


async def to_its_end(ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` gives. A cancellation comes before it, or waits for it, but not for long."""
    await trio.lowlevel.checkpoint_if_cancelled()
    results: list[T] = []
    failures: list[Exception] = []
    # Shielded: who does not know whether a message was recorded can not say what the transcript is. It ends with the
    # call, and ``LAST_CALL_S`` after a cancellation: another process may hold the file, and never let it go.
    shield, has_ended = trio.CancelScope(shield=True), trio.Event()

    async def whole() -> None:
        with shield:
            try:
                results.append(await ask())
            except Exception as error:
                failures.append(error)
        has_ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(whole)
        try:
            await has_ended.wait()
        finally:
            shield.deadline = trio.current_time() + LAST_CALL_S
    if failures:
        raise failures[0]
    return results[0]


def desk_of(session: Session) -> TreeDesk:
    """The desk of a session's tree."""
    cell = session._cell
    if cell.tree is not None:
        return TreeOfSession(cell.tree, session._actor)
    return TreeInMemory(begin_tree(TraceTree, SYSTEM_SEAMS, session.cwd, "", TreeOptions()))
