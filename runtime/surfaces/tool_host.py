"""The tool host: carries out the requests of one client, in order inside a session, side by side between sessions.

Invariants:
  Q1  Every line that was read gets exactly one answer, unless the client left.
  Q2  At most ``REQUESTS_MAX`` requests of at most ``REQUEST_BYTES_MAX`` together are without a written answer; beyond
      that nothing is read. (A single larger line is let in alone.)
  Q3  The answer "withdrawn" means that nothing of the request was or will be stored.
"""

from __future__ import annotations

from collections import deque
from typing import Any, final

import attrs
import trio

from .. import (
    CallError,
    Mode,
    RequestError,
    Runtime,
    Session,
    StoreError,
    StrataflowError,
    compact,
    normalise_cwd,
    shown,
)
from .error_text import error_text
from .line_streams import ByteWriter, LineReader, LineTooLongError
from .tool_pending import Pending, Stage
from .tool_request import Refusal, ToolRequest, parse_request

REQUESTS_MAX = 4096
REQUEST_BYTES_MAX = 64 << 20
# How long requests may wait for another process once the client has said all it wanted (H5).
FOREIGN_WAIT_S = 30.0
CALLS = (
    "patch_state",
    "read_state",
    "accept_response",
    "status",
    "set_mode",
    "outcome",
    "begin_run",
    "context",
    "preflight",
    "fork",
    "note_read",
    "registered_skills",
    "invalidations",
)
# What may be asked again with a request id.
NAMEABLE = ("patch_state", "accept_response")


@final
@attrs.define(eq=False)
class _Line:
    """The requests of one session that wait, and the session once it is open."""

    cwd: str
    session_id: str
    waiting: deque[Pending] = attrs.field(factory=deque)
    session: Session | None = None
    is_served: bool = False


@final
@attrs.define(eq=False)
class ToolHost:
    """One client. ``mode`` None: sessions keep theirs, new ones take the configured one."""

    reader: LineReader
    writer: ByteWriter
    cwd: str
    session_id: str
    has_ended: trio.Event = attrs.field(factory=trio.Event)
    has_drained: trio.Event = attrs.field(factory=trio.Event)
    # Why no more answers can be delivered.
    delivery_error: OSError | None = None
    _reading: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _runtime: Runtime | None = None
    _mode: Mode | None = None
    _refusal: StrataflowError | None = None
    _is_decided: trio.Event = attrs.field(factory=trio.Event)
    _lines: dict[tuple[str, str], _Line] = attrs.field(factory=dict)
    _pending: dict[int, Pending] = attrs.field(factory=dict)
    unwritten: int = 0
    _unwritten_bytes: int = 0
    _has_room: trio.Event = attrs.field(factory=trio.Event)
    _answers: deque[tuple[bytes, int]] = attrs.field(factory=deque)
    _has_answer: trio.Event = attrs.field(factory=trio.Event)
    _progress_s: float = 0.0

    # -- the store ----------------------------------------------------------------------------------------------

    def serve(self, runtime: Runtime, mode: Mode | None) -> None:
        """The store is open: requests that wait for it go on."""
        self._runtime, self._mode = runtime, mode
        self._is_decided.set()

    def refuse(self, error: StrataflowError) -> None:
        """The store cannot be used: requests that wait for it, and all later ones, get this error."""
        self._refusal, self._runtime = error, None
        self._is_decided.set()

    def stop_reading(self) -> None:
        """Take no more requests."""
        self._reading.cancel()

    def withdraw_all(self, reason: StrataflowError) -> None:
        """Withdraw every request that may still be withdrawn."""
        for pending in list(self._pending.values()):
            self._withdraw(pending, reason)

    # -- tasks --------------------------------------------------------------------------------------------------

    async def read(self, nursery: trio.Nursery) -> None:
        """Take requests until the input ends, or until ``stop_reading``."""
        with self._reading:
            while await self._read_one(nursery):
                while self.unwritten >= REQUESTS_MAX or self._unwritten_bytes >= REQUEST_BYTES_MAX:  # Q2
                    self._has_room = trio.Event()
                    await self._has_room.wait()
        self.has_ended.set()
        self._note_progress()
        self._look_drained()

    async def _read_one(self, nursery: trio.Nursery) -> bool:
        try:
            line = await self.reader.next_line()
        except LineTooLongError:
            self._count(0)
            self._answer(None, 0, error=RequestError("E_REQUEST", "the line is too long; send smaller patches"))
            return True
        if line is not None:
            self._take(line, nursery)
        return line is not None

    async def expire(self) -> None:
        """Once the input has ended, requests that another process keeps waiting too long are withdrawn (H5)."""
        await self.has_ended.wait()
        while True:
            until = self._progress_s + FOREIGN_WAIT_S
            if trio.current_time() >= until:
                break
            await trio.sleep_until(until)
        busy = StoreError(
            "E_BUSY", f"another process kept the store locked for {FOREIGN_WAIT_S:.0f} s; nothing was stored, try again"
        )
        self.withdraw_all(busy)

    async def write(self) -> None:
        """Write answers as they become ready, for ever."""
        while True:
            while not self._answers:
                self._has_answer = trio.Event()
                await self._has_answer.wait()
            text, size = self._answers.popleft()
            if self.delivery_error is None:
                try:
                    await self.writer.write(text)
                except OSError as error:
                    self.delivery_error = error
                    self.stop_reading()
            self.unwritten -= 1
            self._unwritten_bytes -= size
            self._has_room.set()
            self._look_drained()

    # -- a request ----------------------------------------------------------------------------------------------

    def _take(self, line: bytes, nursery: trio.Nursery) -> None:
        size = len(line)
        self._count(size)
        request = parse_request(line)
        if isinstance(request, Refusal):
            self._answer(None, size, error=request.error)
            return
        try:
            if request.call == "cancel":
                self._answer(request.id, size, result={"withdrawn": self._cancel(request)})
                return
            cwd = self.cwd if request.cwd is None else normalise_cwd(request.cwd)
            key = (cwd, self.session_id if request.session is None else request.session)
        except StrataflowError as error:
            self._answer(request.id, size, error=error)
            return
        pending = Pending(request, size, compact(request.id), self._note_progress)
        self._pending[id(pending)] = pending
        served = self._lines.setdefault(key, _Line(*key))
        served.waiting.append(pending)
        if not served.is_served:
            served.is_served = True
            nursery.start_soon(self._serve, served)

    async def _serve(self, line: _Line) -> None:
        """Carry out what waits in one session, one after the other (H4)."""
        while line.waiting:
            pending = line.waiting.popleft()
            if pending.stage is Stage.WITHDRAWN:
                continue  # has its answer
            pending.is_begun = True
            result: Any = None
            error: StrataflowError | None = None
            with pending.scope:
                try:
                    result = await self._carry_out(line, pending)
                except StrataflowError as caught:
                    error = caught
            self._finish(pending, result, pending.refusal or error)
            self._note_progress()
        line.is_served = False

    async def _carry_out(self, line: _Line, pending: Pending) -> Any:
        _check(pending.request)
        await self._is_decided.wait()
        if self._refusal is not None:
            raise self._refusal
        assert self._runtime is not None
        request = pending.request
        if request.call == "outcome":
            # In its place among the session's requests, and yet nothing that would open the session.
            return (await self._runtime.outcome(request.arguments["request_id"])).to_json()
        if line.session is None:
            line.session = await self._runtime.open_session(line.cwd, line.session_id, self._mode)
        return await line.session.call(
            request.call, request.arguments, admit=pending.admit, request_id=request.request_id
        )

    def _cancel(self, request: ToolRequest) -> bool:
        arguments = request.arguments
        if request.fault is not None:
            raise request.fault
        if type(arguments) is not dict or arguments.keys() != {"id"}:
            raise RequestError("E_REQUEST", 'cancel takes the id of a request: {"id": …}')
        key = compact(arguments["id"])
        reason = CallError("E_ABORTED", "the request was withdrawn by its client; nothing was stored")
        found = [pending for pending in self._pending.values() if pending.key == key]
        return [self._withdraw(pending, reason) for pending in found].count(True) > 0

    def _withdraw(self, pending: Pending, reason: StrataflowError) -> bool:
        was_waiting = pending.stage is Stage.WAITING
        is_withdrawn = pending.withdraw(reason)
        if is_withdrawn and was_waiting and not pending.is_begun:
            self._finish(pending, None, reason)
        return is_withdrawn

    def _finish(self, pending: Pending, result: Any, error: StrataflowError | None) -> None:
        del self._pending[id(pending)]
        self._answer(pending.request.id, pending.size, result=result, error=error)

    # -- answers ------------------------------------------------------------------------------------------------

    def _count(self, size: int) -> None:
        self.unwritten += 1
        self._unwritten_bytes += size

    def _answer(self, id_: Any, size: int, *, result: Any = None, error: StrataflowError | None = None) -> None:
        self._answers.append((answer_line(id_, result, error), size))
        self._has_answer.set()

    def _note_progress(self) -> None:
        self._progress_s = trio.current_time()

    def _look_drained(self) -> None:
        if self.has_ended.is_set() and not self.unwritten:
            self.has_drained.set()


def answer_line(id_: Any, result: Any, error: StrataflowError | None) -> bytes:
    """One answer as it is written (H3)."""
    if error is None:
        return compact({"id": id_, "ok": True, "result": result}).encode() + b"\n"
    described: dict[str, Any] = {"code": error.code, "message": error_text(error)}
    if error.data:
        described["data"] = error.data
    answer = {"id": id_, "ok": False, "error": described}
    try:
        return compact(answer).encode() + b"\n"
    except TypeError:
        # Data that is no JSON must not cost the client its answer.
        described["data"] = {name: str(value)[:96] for name, value in error.data.items()}
        return compact(answer).encode() + b"\n"


def _check(request: ToolRequest) -> None:
    name = request.call
    if name not in CALLS:
        known = ", ".join([*CALLS, "cancel"])
        raise RequestError("E_REQUEST", f"there is no call {shown(name)}; there are {known}", call=name[:96])
    if request.request_id is not None and name not in NAMEABLE:
        raise RequestError("E_REQUEST", f"only {' and '.join(NAMEABLE)} take a request_id, not {name}", call=name)
    if request.fault is not None:
        raise request.fault
    if name == "outcome" and (type(request.arguments) is not dict or request.arguments.keys() != {"request_id"}):
        raise RequestError("E_REQUEST", 'outcome takes the request_id of a call: {"request_id": …}')
