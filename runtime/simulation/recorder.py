"""Records what clients see: each call of a session becomes a ``Call`` of the history, with its answer and its times.

Recording a call is also where faults of calls strike: the caller may be cancelled, the clock set, a stranger may write.
A process that is gone records nothing more, and its clients learn nothing more: ``ProcessKilled`` ends them.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, final

import attrs
import trio

from ...store import Mode, ReadError, ReadResult, Receipt, StrataflowError
from ..transactions_again import TRANSACT_ATTEMPTS
from .history import Call, CallKind, History, Read
from .recorded_runs import RecordedRun, recorded_run
from .recorded_transactions import ABSENT, Attempts, Function, RecordedTransaction, note_receipt
from .threads import ProcessKilled
from .trace import Trace

if TYPE_CHECKING:
    from ..session import Session

T = TypeVar("T")

# What a cancelled caller loses: the innermost piece of work that may be given up and begun again.
CLIENT: ContextVar[trio.CancelScope | None] = ContextVar("strataflow_client", default=None)

# Refusals that leave open whether something was stored.
_UNKNOWN = frozenset({"E_BROKEN", "E_CLOSED"})
# Between two moments at the same virtual time.
_TICK_S = 1e-6


class Caller(Protocol):
    """Who calls."""

    @property
    def name(self) -> str:
        """The name of the process."""

    @property
    def is_gone(self) -> bool:
        """Whether it was killed."""


@final
@attrs.define(eq=False)
class Recorder:
    """One per world.

    Attributes:
      on_call: is told of each call, and of the scope that a cancellation of its caller would cancel.
      on_refusal: is told of each call that was refused.
    """

    trace: Trace
    on_call: Callable[[Call, trio.CancelScope | None], None]
    on_refusal: Callable[[Call, StrataflowError], None]
    _time_s: Callable[[], float]
    history: History = attrs.field(factory=History)
    # Calls that have no answer yet, but for those that wait for something on purpose.
    pending: dict[int, Call] = attrs.field(factory=dict, init=False)
    last_moment_s: float = attrs.field(default=0.0, init=False)
    _requests: int = attrs.field(default=0, init=False)

    def moment_s(self) -> float:
        """The virtual time, but never the same twice: whoever asks first is first."""
        self.last_moment_s = max(self._time_s(), self.last_moment_s + _TICK_S)
        return self.last_moment_s

    def request_id(self, caller: Caller) -> str:
        """A request id that nobody else has."""
        self._requests += 1
        return f"{caller.name}-{self._requests}"

    @contextmanager
    def call(
        self, caller: Caller, cwd: str, session: str, kind: CallKind, waits: bool = False, **about: Any
    ) -> Iterator[Call]:
        """Record one call: it is made in the body, which notes its answer on what is given.

        ``waits``: it may take as long as it likes.
        """
        number = len(self.history.calls) + 1
        call = Call(number, caller.name, cwd, session, kind, begun_s=self.moment_s(), **about)
        self.history.calls.append(call)
        if not waits:
            self.pending[number] = call
        self.trace.note(caller.name, f"call {call.to_json()}")
        self.on_call(call, CLIENT.get())
        try:
            yield call
            call.ending = "ok"
        except StrataflowError as error:
            note_refusal(call, error)
            if not caller.is_gone:
                self.on_refusal(call, error)
            raise
        finally:
            self.pending.pop(number, None)
            if not caller.is_gone:
                call.ended_s = self.moment_s()
                self.trace.note(caller.name, f"answer {call.to_json()}")
            else:
                call.ending = "unknown"
                call.changed = call.seq = call.revision = call.transition_id = call.code = None
        if caller.is_gone:
            raise ProcessKilled


def note_refusal(call: Call, error: StrataflowError) -> None:
    """How a call ended that raised: refused, or nobody knows."""
    call.code = error.code
    call.ending = "unknown" if error.code in _UNKNOWN else "refused"
    call.conflicts = error.data.get("conflicts", []) if error.code == "E_CONFLICT" else []


def note_reads(call: Call, paths: Sequence[str], projection: str, result: ReadResult) -> None:
    """What a read found, path by path."""
    if projection == "patch" or not paths:
        return
    found = result.keys if projection == "keys" else result.value
    values = [found] if len(paths) == 1 else found
    for path, value in zip(paths, values, strict=True):
        is_keys = projection == "keys"
        call.steps.append(
            Read(path, copy.deepcopy(value), result.hint is not None, "keys" if is_keys else "value"),
        )


@final
@attrs.define(eq=False, repr=False)
class RecordedSession:
    """A ``Session`` whose calls are recorded. It has the methods of a session; see there."""

    _session: Session
    _caller: Caller
    _recorder: Recorder

    def __repr__(self) -> str:
        return f"<Recorded {self._session!r}>"

    def __getattr__(self, name: str) -> Any:
        # What is not recorded goes straight to the session.
        return getattr(self._session, name)

    def _call(self, kind: CallKind, **about: Any) -> Any:
        return self._recorder.call(self._caller, self._session.cwd, self._session.session_id, kind, **about)

    async def patch_state(
        self,
        *,
        global_: Mapping[str, Any] | None = None,
        cwd: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        call_id: str | None = None,
    ) -> Receipt:
        """See ``Session.patch_state``. Without a request id the call gets one, so that its outcome can be asked for."""
        given = {"global": global_, "cwd": cwd, "session": session}
        patches = copy.deepcopy({name: patch for name, patch in given.items() if patch is not None})
        request_id = request_id or self._recorder.request_id(self._caller)
        with self._call("patch", patches=patches, request_id=request_id) as call:
            receipt = await self._session.patch_state(
                global_=global_, cwd=cwd, session=session, request_id=request_id, call_id=call_id
            )
            note_receipt(call, receipt)
        return receipt

    async def call(self, name: str, arguments: Any, *, call_id: str | None = None, **more: Any) -> Any:
        """See ``Session.call``. The two tools of a model are recorded as the methods of their names."""
        given = {} if more or type(arguments) is not dict or None in arguments.values() else {**arguments}
        if name == "patch_state" and given and given.keys() <= {"global", "cwd", "session"}:
            patches = {"global_" if scope == "global" else scope: patch for scope, patch in given.items()}
            return (await self.patch_state(**patches, call_id=call_id)).to_json()
        if name == "read_state" and given and given.keys() <= {"path", "paths", "projection"}:
            return (await self.read_state(**given)).to_json()
        return await self._session.call(name, arguments, call_id=call_id, **more)

    async def accept_response(self, text: str, *, request_id: str | None = None) -> Receipt:
        """See ``Session.accept_response``. Without a request id the call gets one."""
        request_id = request_id or self._recorder.request_id(self._caller)
        with self._call("respond", patches={"session": {"response": text}}, request_id=request_id) as call:
            receipt = await self._session.accept_response(text, request_id=request_id)
            note_receipt(call, receipt)
        return receipt

    def run(self, prompt: str, *, anchor: float | None = None) -> AbstractAsyncContextManager[RecordedRun]:
        """See ``Session.run``."""
        return recorded_run(self._session, prompt, anchor, self._answer)

    @contextmanager
    def _answer(self, text: str, request_id: str | None) -> Iterator[Call]:
        with self._call("respond", patches={"session": {"response": text}}, request_id=request_id) as call:
            yield call

    async def read_state(
        self,
        path: str | None = None,
        *,
        paths: Sequence[str] | None = None,
        projection: Literal["value", "keys", "patch"] = "value",
        fresh: bool = False,
    ) -> ReadResult:
        """See ``Session.read_state``."""
        names = [path] if path is not None else list(paths or ())
        absence: ReadError | None = None
        result = ReadResult(projection)
        with self._call("read", fresh=fresh or None) as call:
            try:
                result = await self._session.read_state(path, paths=paths, projection=projection, fresh=fresh)
            except ReadError as error:
                if error.code not in ABSENT or len(names) != 1 or projection == "patch":
                    raise
                # An answer: nothing is there.
                absence = error
                call.steps.append(Read(names[0], None, True, projection))
            else:
                note_reads(call, names, projection, result)
        if absence is not None:
            raise absence
        return result

    @asynccontextmanager
    async def transaction(self, *, request_id: str | None = None) -> AsyncIterator[RecordedTransaction]:
        """See ``Session.transaction``. Without a request id the call gets one."""
        request_id = request_id or self._recorder.request_id(self._caller)
        with self._call("transaction", waits=True, request_id=request_id) as call:
            async with self._session.transaction(request_id=request_id) as transaction:
                try:
                    yield RecordedTransaction(transaction, call)
                except BaseException:
                    call.ending = "refused"  # nothing is stored
                    raise
            if transaction.receipt is not None:
                note_receipt(call, transaction.receipt)

    async def transact(
        self,
        fn: Function[T],
        *,
        attempts: int = TRANSACT_ATTEMPTS,
        request_id: str | None = None,
        or_else: Function[T] | None = None,
    ) -> T:
        """See ``Session.transact``. Without a request id the call gets one."""
        request_id = request_id or self._recorder.request_id(self._caller)
        with self._call("transaction", request_id=request_id, is_choice=or_else is not None or None) as call:
            made = Attempts(call)
            value = await self._session.transact(
                made.of(fn),
                attempts=attempts,
                request_id=request_id,
                or_else=None if or_else is None else made.of(or_else, is_alternative=True),
            )
            made.note()
        return value

    async def wait_for(self, path: str, predicate: Callable[[Any], Any]) -> Any:
        """See ``Session.wait_for``. What it returns counts as read."""
        with self._call("read", waits=True) as call:
            value = await self._session.wait_for(path, predicate)
            call.steps.append(Read(path, copy.deepcopy(value), value is None))
        return value

    async def set_mode(self, mode: Mode) -> Mode:
        """See ``Session.set_mode``."""
        return await self._session.set_mode(mode)

    async def aclose(self) -> None:
        """See ``Session.aclose``."""
        with self._call("close"):
            await self._session.aclose()
