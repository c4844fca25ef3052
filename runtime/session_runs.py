"""A session's part in an agent's loop: runs and the requests they consist of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ..store import CallError, HostEntries, Json
from ..store.projection import Message, PrefixReport
from .call_arguments import only_member
from .prompting import Prompting, checked_messages
from .run import Run, RunContext, barrier, begin_run
from .session_handle import SessionHandle

if TYPE_CHECKING:
    from .session import Session


@attrs.frozen(eq=False, repr=False)
class SessionRuns(SessionHandle):
    """What ``Session`` offers to an agent's loop."""

    def run(self, prompt: str, *, anchor: float | None = None) -> RunContext:
        """A run over the user's request ``prompt``: a ``Run`` for the body of ``async with``.

        Another run of the session that is still open is superseded. If the body ends without ``run.finish`` the run is
        unfinished: its prompt stays with the session until the next run begins.

        ``anchor``: the timestamp of the message that holds the prompt. Without it the message is recognised by being
        new, or by its text.

        The beginning is a checkpoint and stores nothing. Raises there CallError E_JSON for a prompt that is no plain
        string, StoreError E_CLOSED.
        """
        return RunContext(self._prompting(), self._changes, prompt, anchor)

    async def project(self, messages: Sequence[Message]) -> list[Message]:
        """As ``Run.project``, for a request that belongs to no run, such as a continuation after an accepted answer.

        In the middle of a run it is the run's.

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          CallError: E_SHAPE for what is no list of messages.
          StoreError: the reason why memory can not be read, in active mode.
        """
        self._check()
        run = self._cell.context.run
        if isinstance(run, Run):
            return await run.project(messages)
        return await self._prompting().project(checked_messages(messages))

    def prefix_report(self) -> PrefixReport | None:
        """How far the last request of this session begins with the bytes of the one before it, and where and why it
        does not; None before there were two. Worked out when it is asked for."""
        self._check()
        return self._prompting().ledger()

    def note_compaction(self) -> None:
        """Tell that the host has compacted its messages: the next request begins anew."""
        self._check()
        self._cell.context.compacted()

    def note_repair(self, count: int) -> None:
        """Tell that an answer had so many lone surrogates, which the host replaced: for the diagnostics log."""
        self._check()
        text = f"the answer had {count} lone surrogates, which were replaced"
        self._prompting().desk.diagnostics.note(self._cell, "finalization", text)

    async def fork(self, child_id: str, *, entries: HostEntries | None = None) -> Session:
        """A new session of this directory that begins with this one's private memory as it is now, in its mode; open.

        Its history begins here, its step is 0, and it has no run. From then on both are independent. While this session
        is off the copy is put off until a mode is chosen for the child, and ``entries`` remembers that.

        ``entries``: the child's own log, see ``Runtime.open_session``.

        Always a checkpoint. If it raises Cancelled, the child was not made, or is there whole, and closed.

        Raises:
          StoreError: E_BRANCH if the child has memory or is open, or this session has none; E_UNSUPPORTED for a bad
            name; the reason why one of them can not be used; others as ``set_mode``.
        """
        self._check()
        return await self._lifetime.fork_session(self._cell, child_id, entries)

    def _prompting(self) -> Prompting:
        lifetime = self._lifetime
        return Prompting(self._cell, self._store, self._state, lifetime.prompts, lifetime.desk, self._check)

    async def _call_run(self, name: str, arguments: Any) -> Any:
        """The calls of the tool protocol that belong to runs."""
        if name == "begin_run":
            begin_run(self._prompting(), self._changes, only_member(arguments, "prompt"), None)
            return {}
        if name == "fork":
            child_id = only_member(arguments, "session")
            child = await self.fork(child_id)
            return {"session": child.session_id}
        if name == "context":
            return await self.project(only_member(arguments, "messages"))
        calls = only_member(arguments, "calls")
        if type(calls) is not list:
            raise CallError("E_SHAPE", "calls are a list of objects with id and name")
        answers: list[Json] = [verdict.to_json() for verdict in barrier(self._prompting(), calls)]
        return answers
