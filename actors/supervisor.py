"""The supervisor: starts children in order, gives them new lives as ``decide`` says, stops them in reverse order.

One task keeps one child through all its lives, whose phases are drawn in ``child.py``.

Invariants:
  V1  Children end in the reverse of their starting order, whether the body returned, raised or was cancelled.
  V2  When the context is left, no child runs and every ask of every child has ended.
  V3  No failure is lost: it is restarted after (and logged), asked for with ``take_errors``, or it comes out of the
      context, alone or in a group.
  V4  Leaving takes at most the sum of the shutdown times when nobody cancels, and no waiting at all when somebody
      does, apart from what the children themselves shield.

Keeping children in the nursery unshielded lost: a cancel from outside would strike all at once, and a session that
wants to store its last words would find the store dead.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import final

import attrs
import trio

from ..store import RuntimeFailed, StoreError, StrataflowError
from .actor import ActorRef, run_life
from .child import ActorSpec, Child, ChildStatistics, Phase
from .mailbox import Mailbox
from .supervision import Done, GiveUp, Outcome, decide, recent

_log = logging.getLogger(__name__)


@final
@attrs.frozen
class SupervisorStatistics:
    """The living children in starting order."""

    children: tuple[ChildStatistics, ...]
    is_stopping: bool


@final
@attrs.define(eq=False)
class Supervisor:
    """Keeps children. Made by ``open_supervisor``."""

    _nursery: trio.Nursery
    _children: dict[str, Child] = attrs.field(factory=dict, init=False)
    # What nobody restarted after and nobody has been told (V3).
    _failures: dict[Child, Exception] = attrs.field(factory=dict, init=False)
    _is_stopping: bool = attrs.field(default=False, init=False)

    async def start(self, spec: ActorSpec, *, mailbox: Mailbox | None = None) -> ActorRef:
        """Start a child and wait until it says that it has started. Its mailbox outlives its lives.

        Always a checkpoint. If it raises Cancelled, the child has ended again.

        Raises:
          StoreError: E_CLOSED, the supervisor or the child was stopped meanwhile.
          Exception: whatever the first life raised before it had started; a first start is not tried again.
        """
        assert spec.name not in self._children, f"a child named {spec.name!r} is alive"
        if self._is_stopping:
            await trio.lowlevel.checkpoint()
            raise _closed_error(spec.name)
        child = Child(spec, Mailbox(spec.name) if mailbox is None else mailbox)
        self._children[spec.name] = child
        self._nursery.start_soon(self._keep, child, name=f"child {spec.name}")
        try:
            await child.settled.wait()
        except BaseException:
            # Without this shield a cancelled caller would leave a child that nobody asked for. It ends: the child is
            # cancelled, and its own shields are short.
            with trio.CancelScope(shield=True):
                await self._kill(child)
            raise
        if not child.has_started:
            self._tell_failure(child)
            raise _closed_error(spec.name)
        return ActorRef(child.mailbox)

    async def stop_child(self, name: str) -> None:
        """Let a child finish what it accepted, cancel it after its shutdown time, and wait for its end.

        Nothing happens if no child of this name is alive. If it raises Cancelled, the child goes on stopping.

        Raises:
          Exception: what the child raised while it stopped.
        """
        child = self._children.get(name)
        if child is None:
            await trio.lowlevel.checkpoint()
            return
        await self._stop_child(child)
        self._tell_failure(child)

    async def stop(self) -> None:
        """Stop all children, the youngest first (V1). No child can be started afterwards.

        If it raises Cancelled, some children may still run; leaving the context ends them.

        Raises:
          Exception: what children raised while they stopped; several in a group.
        """
        self._is_stopping = True
        await trio.lowlevel.checkpoint()
        while self._children:
            await self._stop_child(self._youngest())
        failures = list(self._failures.values())
        self._failures.clear()
        _raise_all(failures)

    def take_errors(self) -> list[StrataflowError]:
        """What children that were stopped or cancelled were unable to do, if nobody was told yet. Bugs stay (V3)."""
        told = {child: error for child, error in self._failures.items() if isinstance(error, StrataflowError)}
        for child in told:
            del self._failures[child]
        return [*told.values()]

    def statistics(self) -> SupervisorStatistics:
        """Numbers of this moment. May be asked for in another thread, so that it goes over a copy."""
        children = [*self._children.values()]
        return SupervisorStatistics(tuple(child.statistics() for child in children), self._is_stopping)

    # ---- one child -----------------------------------------------------------------------------------------------

    async def _keep(self, child: Child) -> None:
        verdict: RuntimeFailed | None = None
        try:
            with child.scope:
                verdict = await self._live(child)
        except Exception as error:
            # Raised together with the Cancelled that ended the life.
            self._failures[child] = _only(error)
        finally:
            child.enter(Phase.ENDED)
            child.mailbox.finish()  # V2
            del self._children[child.spec.name]
            child.settled.set()
            child.ended.set()
        if verdict is not None:
            raise verdict

    async def _live(self, child: Child) -> RuntimeFailed | None:
        """All lives of a child. Returns why the supervisor must fail, or None."""
        while True:
            failure = await self._one_life(child)
            if child.mailbox.is_closed or not child.has_started:
                # Stopped, or never started: nothing to restart.
                assert failure or child.mailbox.is_closed, f"{child.spec.name!r} returned before it had started"
                if failure is not None:
                    self._failures[child] = failure
                return None
            now = trio.current_time()
            decision = decide(child.spec, child.history, Outcome.FAILED if failure else Outcome.RETURNED, now)
            if failure is not None:
                _log.warning("actor %s failed; next: %r", child.spec.name, decision, exc_info=failure)
            if isinstance(decision, Done):
                return None
            if isinstance(decision, GiveUp):
                return _gave_up(child.spec, failure)
            child.history = (*recent(child.history, child.spec.budget, now), now)
            child.restarts += 1
            if not await self._pause(child, decision.delay_s):
                return None

    async def _one_life(self, child: Child) -> Exception | None:
        try:
            await run_life(child.spec.start(), child.mailbox, child)
        except Exception as error:
            return _only(error)
        return None

    async def _pause(self, child: Child, delay_s: float) -> bool:
        """Wait before the next life. False if the child was stopped meanwhile."""
        child.enter(Phase.PAUSING)
        await trio.sleep(delay_s)
        if child.mailbox.is_closed:
            return False
        child.enter(Phase.STARTING)
        return True

    # ---- failures ------------------------------------------------------------------------------------------------

    def _tell_failure(self, child: Child) -> None:
        """Raise what ended ``child`` unless somebody has been told (V3)."""
        failure = self._failures.pop(child, None)
        if failure is not None:
            raise failure

    # ---- the end -------------------------------------------------------------------------------------------------

    def _youngest(self) -> Child:
        return next(reversed(self._children.values()))

    async def _stop_child(self, child: Child) -> None:
        child.mailbox.close()
        with trio.move_on_after(child.spec.shutdown_s):
            await child.ended.wait()
        if not child.ended.is_set():
            child.scope.cancel()
            await child.ended.wait()

    async def _kill(self, child: Child) -> None:
        child.mailbox.close()
        child.scope.cancel()
        await child.ended.wait()

    async def close(self) -> None:
        """Stop in order; whatever interrupts that, no child survives this call (V1, V2).

        If it raises Cancelled, children were cancelled in the middle of their work.
        """
        try:
            await self.stop()
        finally:
            # V2: without this shield a cancelled caller would leave while children run. It ends: each child is
            # cancelled, and its own shields are short.
            with trio.CancelScope(shield=True):
                while self._children:
                    await self._kill(self._youngest())


@asynccontextmanager
async def open_supervisor() -> AsyncIterator[Supervisor]:
    """A supervisor whose children live as long as the ``async with`` body.

    Leaving stops them in reverse order; if the body is cancelled, or a cancellation arrives while they stop, they are
    cancelled in that order instead. The body is cancelled when a child has used up its budget.

    Raises:
      RuntimeFailed: a child has used up its budget; its last failure is the cause.
      BaseException: what the body raised, what children raised while they stopped; alone, or in a group if several.
    """
    result: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(nursery)
            errors: list[BaseException] = []
            # Kept, and raised by _raise_all: a body that failed must not hide what fails while stopping, nor be hidden.
            try:
                yield supervisor
            except BaseException as error:
                errors.append(error)
            try:
                await supervisor.close()
            except BaseException as error:
                # Kept and raised below too, except that one Cancelled is enough to say so.
                if not (isinstance(error, trio.Cancelled) and any(isinstance(e, trio.Cancelled) for e in errors)):
                    errors.append(error)
            _raise_all([*errors, *supervisor._failures.values()])
    except BaseException as error:
        # Raised outside, so that a single error does not drag its emptied groups along as context.
        result = _unwrapped(error)
    if result is not None:
        raise result


def _raise_all(errors: Sequence[BaseException]) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup("several things failed under one supervisor", errors)


def _unwrapped(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _only(error: Exception) -> Exception:
    inner = _unwrapped(error)
    assert isinstance(inner, Exception)
    return inner


def _gave_up(spec: ActorSpec, failure: Exception | None) -> RuntimeFailed:
    budget = spec.budget
    text = (
        f"actor {spec.name!r} ended again after {budget.restarts} restarts within {budget.within_s:g} s; everything "
        "beside it was closed. Remove the cause and open the runtime again."
    )
    error = RuntimeFailed("E_BROKEN", text, actor=spec.name, restarts=budget.restarts, within_s=budget.within_s)
    error.__cause__ = failure
    return error


def _closed_error(name: str) -> StoreError:
    text = f"actor {name!r} was not started: it or its supervisor is stopping. Open a new one."
    return StoreError("E_CLOSED", text, actor=name)
