"""A run: one request of a user, from its prompt to its answer: ``async with session.run(prompt) as run``.

::

    begun --project--> prepared --finish--> finished: the answer is memory
      |                    |
      +-- the body ends ---+--> left: what was prepared stays, and the next run takes over
      +-- another run begins --> superseded: what waits is withdrawn, later calls raise E_ABORTED

In passive and off mode nothing is prepared and no answer is stored, so that an agent's loop is the same in every mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, final

import attrs
import trio

from ..store import CallError, Receipt, StoreError, shown
from ..store.projection import (
    Message,
    ToolCall,
    Verdict,
    accepted_answer,
    call_batch,
    failed_ending,
    preflight,
)
from .call_arguments import is_text, response_text
from .changes import Changes, always
from .diagnostics import reduced_content
from .prompting import Prompting, checked_messages

# The tool whose calls may read sources, as hosts call it.
READ_TOOL = "read"

# An entry of a host's session tree by its id, None if there is none.
EntryOf = Callable[[str], Mapping[str, Any] | None]


@final
@attrs.define(eq=False, repr=False)
class Run:
    """One run of a session. Its methods raise StoreError E_ABORTED once another run of the session has begun.

    Attributes:
      prompt: the user's request.
      receipt: of the accepted answer; None before, and in passive and off mode.
    """

    _home: Prompting
    _changes: Changes
    prompt: str
    receipt: Receipt | None = attrs.field(default=None, init=False)
    _is_prepared: bool = attrs.field(default=False, init=False)
    _answer: str | None = attrs.field(default=None, init=False)
    _preparing: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def __repr__(self) -> str:
        return f"<Run of {shown(self._home.cell.session_id)}{' finished' if self._answer is not None else ''}>"

    async def project(self, messages: Sequence[Message]) -> list[Message]:
        """The messages of the next request to the model: memory in front, the host's messages, updates between them.

        ``messages`` are the host's, complete and in order: ``{role, content, timestamp}``, roles of its own included.
        They come back as they are, and must not be changed in place afterwards. The first request of a run in active
        mode records the prompt; then every later one begins with all bytes of the one before.

        Always a checkpoint. If it raises Cancelled, nothing was stored, or the run was prepared whole.

        Raises:
          CallError: E_SHAPE for what is no list of messages; E_FENCED.
          StoreError: E_ABORTED when another run or mode was chosen; the reason why memory can not be read or written.
            The model must not be called then. A later call tries again.
        """
        home = self._home
        self._check()
        messages, has_looked = checked_messages(messages), False
        if self._answer is None and home.cell.mode == "active":
            async with self._preparing:
                if not self._is_prepared:
                    self._check()
                    home.refuse_blocked()
                    await home.prepare(self.prompt, messages)
                    self._is_prepared = has_looked = True
            self._check()
        return await home.project(messages, has_looked=has_looked)

    def preflight(self, calls: Sequence[ToolCall | Mapping[str, Any]] | Mapping[str, Any]) -> tuple[Verdict, ...]:
        """Which tool calls of one assistant message may run: the barrier (L15). Give all calls of the message, each
        with ``id`` and ``name``, or the message itself.

        In active mode ``patch_state`` runs alone; beside two of them nothing runs. A call that is held back is answered
        with its verdict's ``reason``.

        Raises:
          CallError: E_SHAPE for what is no call.
        """
        return barrier(self._home, calls)

    def preflight_call(self, call_id: str, entry_of: EntryOf, leaf: str | None) -> Verdict | None:
        """As ``preflight``, for one tool call that is about to run, looked up in the host's session tree (L14).

        The call's message is the nearest one at or above ``leaf`` that holds ``call_id``. ``entry_of`` gives an entry
        by its id, as ``{type, parentId, message}``, or None; only the entries on the way up to the message are asked
        for. None if no message holds the call, which may run then.
        """
        home = self._home
        home.check()
        verdicts = preflight(call_batch(entry_of, leaf, call_id) or (), home.cell.mode)
        found = tuple(verdict for verdict in verdicts if verdict.id == call_id)[:1]
        home.desk.diagnostics.blocked(home.cell, found)
        return found[0] if found else None

    async def note_read(self, path: str, call_id: str) -> str | None:
        """Tell of a tool call that reads the file ``path``: once before it runs, once more when it has succeeded.

        ``path`` is what the call names, absolute or seen from the session's directory. Of a call that failed only the
        first is told; one that is repeated under its id with another path replaces what was told before.

        In active mode a read counts whose path the last request listed as invalidated, if the file was the same all the
        time: the session's next patch must then hold the whole card of the path, in the scope that was listed. The read
        of a registered Skill obliges nobody; if its card is not current, a text is returned that belongs to the result
        of the tool call. Otherwise None.

        Always a checkpoint. If it raises Cancelled, the read does not count.

        Raises:
          CallError: E_SHAPE for a path or an id that is no text.
          StoreError: E_ABORTED, E_CLOSED.
        """
        self._check()
        return await self._home.desk.artifacts.note_read(self._home.cell, path, call_id)

    async def finish(self, answer: str, *, request_id: str | None = None) -> Receipt | None:
        """End the run with its final answer, which becomes the session's ``response`` (L19). None in passive and off
        mode, where no answer is stored. The same answer once more changes nothing.

        Always a checkpoint. If it raises Cancelled, nothing was stored, or the answer was accepted whole.

        Raises:
          CallError: E_JSON if the answer is no plain string.
          StoreError: E_ABORTED: a newer answer, run or mode superseded this one, or the run has ended with another
            answer; others as ``Session.patch_state``. The run goes on, and the call may be repeated.
        """
        if self._answer is not None:
            await trio.lowlevel.checkpoint()
            if answer == self._answer:
                return self.receipt
            raise StoreError("E_ABORTED", "this run has ended with another answer; begin a new run")
        self._check()
        cell = self._home.cell
        if cell.mode == "active":
            self.receipt = await self._changes.respond({"text": answer}, always, request_id)
        else:
            response_text({"text": answer})  # the same refusals in every mode
            await trio.lowlevel.checkpoint()
            cell.context.end_run(self)
        self._answer = answer
        return self.receipt

    async def settle(self, message: Mapping[str, Any]) -> Receipt | None:
        """End the run with the model's last message, if that is an answer: no tool calls, and not cut off, failed or
        aborted (L18). Otherwise nothing is stored, and the run goes on.

        Cancellation and errors as ``finish``; CallError E_SHAPE for what is no message.
        """
        if not isinstance(message, Mapping):
            raise CallError("E_SHAPE", f"a message is an object, not {shown(message)}")
        found = dict(message)
        text = accepted_answer(found)
        if text is not None:
            return await self.finish(text)
        await trio.lowlevel.checkpoint()
        ending = failed_ending(found)
        home = self._home
        if ending is not None and home.cell.mode == "active":
            home.desk.diagnostics.note(
                home.cell,
                "finalization",
                f"the answer ended with {ending}; it was not accepted",
                content=reduced_content(found.get("content")),
            )
        return None

    def _check(self) -> None:
        self._home.check()
        present = self._home.cell.context.run
        if present is not self and not (present is None and self._answer is not None):
            raise StoreError("E_ABORTED", "this run has ended, or another run of the session has begun")


@final
@attrs.define(eq=False)
class RunContext:
    """What ``session.run(prompt)`` returns: a run for the body of an ``async with``."""

    _home: Prompting
    _changes: Changes
    _prompt: str
    _anchor: float | None
    _open: list[Run] = attrs.field(factory=list, init=False)

    async def __aenter__(self) -> Run:
        # Before it begins: a run whose body never came would stay the present one.
        await trio.lowlevel.checkpoint()
        run = begin_run(self._home, self._changes, self._prompt, self._anchor)
        self._open.append(run)
        return run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """The body has ended, or never came: the run is over, with an answer or without."""
        while self._open:
            self._home.cell.context.end_run(self._open.pop())


def begin_run(home: Prompting, changes: Changes, prompt: str, anchor: float | None) -> Run:
    """A user's run begins: nothing is stored yet (L9). An older run of the session is superseded.

    Raises:
      CallError: E_JSON if the prompt is no plain string.
      StoreError: E_CLOSED.
    """
    home.check()
    if type(prompt) is not str or not is_text(prompt):
        raise CallError("E_JSON", f"the prompt must be a plain string, not {shown(prompt)}", pointer="/prompt")
    cell = home.cell
    cell.waits.withdraw(
        StoreError("E_ABORTED", "another run of the session has begun; nothing was stored"), "preparation", "answer"
    )
    run = Run(home, changes, prompt)
    record = cell.record
    is_over_unfinished = cell.context.prompt is not None or (record is not None and record.specification is not None)
    cell.context.begin_run(run, prompt, anchor, is_over_unfinished=is_over_unfinished)
    cell.artifacts.clear()
    return run


def barrier(home: Prompting, calls: Sequence[ToolCall | Mapping[str, Any]] | Mapping[str, Any]) -> tuple[Verdict, ...]:
    """See ``Run.preflight``."""
    home.check()
    cell = home.cell
    given: Any = calls.get("content") if isinstance(calls, Mapping) else calls
    found = [_tool_call(call) for call in given] if type(given) in (list, tuple) else [None]
    if None in found and not isinstance(calls, Mapping):
        raise CallError("E_SHAPE", "tool calls are a list of objects with id and name")
    verdicts = preflight([call for call in found if call is not None], cell.mode)
    home.desk.diagnostics.blocked(cell, verdicts)
    for call in found:
        if call is not None and call.name != READ_TOOL:
            cell.artifacts.forget(call.id)  # A20
    return verdicts


def _tool_call(call: Any) -> ToolCall | None:
    if isinstance(call, ToolCall):
        return call
    if not isinstance(call, Mapping) or "id" not in call or type(call.get("name")) is not str:
        return None
    return ToolCall(call["id"], call["name"])
