"""What a session's handles and its actor share: which mode holds, why memory can not be written, what waits.

Modes::

    off <--choose--> passive <--choose--> active

    off      holds at once, asks nobody and touches no storage
    passive  holds at once; storing it follows, and if that fails nothing may be written (a fence)
    active   holds once it is stored; until then the mode before it holds

A choice is an object: whoever asks for the mode that is being chosen already shares it, a later choice of another mode
withdraws it. (A choice of passive that is being stored is withdrawn by off alone.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import attrs
import trio

from ..store import (
    CallError,
    MemoryStore,
    Mode,
    RunRecord,
    ScopeState,
    SessionAddress,
    StoreError,
    StrataflowError,
)
from .host_recorder import HostRecorder
from .session_context import Scopes, SessionContext
from .tree_actor import TreeCell
from .waits import Wait, Waits, again


@final
@attrs.define(eq=False)
class Choice:
    """One choice of a mode. ``error``: why it is refused, once ``is_done``. ``askers``: who waits for it."""

    mode: Mode
    wait: Wait = attrs.field(factory=lambda: Wait("mode"))
    is_done: bool = False
    error: StrataflowError | None = None
    askers: int = 0
    done: trio.Event = attrs.field(factory=trio.Event, init=False)

    def settle(self, error: StrataflowError | None = None) -> None:
        """It was carried out, refused or withdrawn."""
        if not self.is_done:
            self.is_done, self.error = True, error
            self.done.set()


@final
@attrs.define(eq=False)
class SessionCell:
    """What a session's handles may see without asking.

    Attributes:
      address: where the session lies; None in off, which looks at no storage, and until a session is attached.
      mode: the selected mode.
      problem: why memory can not be written although the mode wants it; the session is blocked or fenced.
      choice: the newest choice of a mode.
      context: what the session's prompts have been told.
      fork_from: the session whose private memory is still to be copied, before any other memory is looked at.
      memory: the published root, where there is one.
      host: writes to the session's own log.
      tree: the session's tree, if it has one; then that is the log.
      may_be_copied: memory of ``fork_from`` was copied, or is being copied.
      waits: what is asked for and can still be withdrawn.
      is_closed: nobody may use it any more (set by ``close``, which the runtime calls).
      on_change: called with ``watch_name`` when the mode was selected anew and when the session is closed.
    """

    cwd: str
    session_id: str
    mode: Mode = "off"
    address: SessionAddress | None = None
    problem: StrataflowError | None = None
    choice: Choice | None = None
    is_closed: bool = False
    on_change: Callable[[str], None] = lambda _: None
    context: SessionContext = attrs.field(factory=SessionContext)
    fork_from: str | None = None
    memory: MemoryStore | None = None
    host: HostRecorder = attrs.field(default=attrs.Factory(lambda self: HostRecorder(self.session_id), takes_self=True))
    tree: TreeCell | None = None
    may_be_copied: bool = attrs.field(default=False, init=False)
    waits: Waits = attrs.field(factory=Waits, init=False)

    @property
    def watch_name(self) -> str:
        """What the session's watches listen to beside its scopes, to hear of the session itself. No folder's name."""
        return f"\0{self.cwd}\0{self.session_id}"

    def watched(self) -> list[str]:
        """What those listen to who want to know of every change that this session may see.

        Raises:
          CallError: E_OFF, E_BRANCH.
        """
        return [*(scope for _, scope in self.readable().scopes()), self.watch_name]

    # -- memory -------------------------------------------------------------------------------------------------

    def scopes(self) -> Scopes | None:
        """All three scopes as they are published now; None while one of them can not be read."""
        if self.memory is None or self.address is None:
            return None
        view = self.memory.view(self.address)
        return None if view.unreadable else view.scopes

    def states(self) -> tuple[ScopeState, ScopeState, ScopeState] | None:
        """As ``scopes``, of global, cwd and session, at hardly any cost."""
        return None if self.memory is None or self.address is None else self.memory.states(self.address)

    @property
    def record(self) -> RunRecord | None:
        """The session's run record as it is published now."""
        if self.memory is None or self.address is None:
            return None
        return self.memory.trio(self.address)[2].run

    @property
    def is_in_order(self) -> bool:
        """Whether the session is active and nothing keeps it from writing."""
        if self.mode != "active" or self.problem is not None or self.address is None or self.memory is None:
            return False
        return self.address.scope("session") not in self.memory.fences

    def note_accepted(self) -> None:
        """Something of this session was accepted: its host's log gets a checkpoint."""
        if self.host.entries is None or self.memory is None or self.address is None:
            return
        boundaries = self.memory.boundaries(self.address)
        self.host.checkpoint(boundaries[-1].id, self.mode, self.record)

    # -- choices ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """From now on nobody may use the session."""
        self.is_closed = True
        self.withdraw_all()
        self.on_change(self.watch_name)

    def withdraw_all(self) -> None:
        """Whatever waits comes to nothing: the session or its runtime is closing."""
        text = f"session {self.session_id} of {self.cwd} was closed; nothing was stored"
        self.waits.withdraw(StoreError("E_CLOSED", text), "mode", "preparation", "answer", "patch", "read")
        if self.choice is not None and not self.choice.is_done:
            self.choice.wait.withdraw(StoreError("E_CLOSED", text))

    def choose(self, mode: Mode) -> Choice:
        """Begin a choice of active or passive, or join the one that is under way."""
        last = self.choice
        if last is not None and not last.is_done and last.mode == mode and last.wait.refusal is None:
            return last
        if last is not None and not last.is_done and last.mode == "active":
            last.wait.withdraw(superseded_choice())
        self.choice = Choice(mode)
        return self.choice

    def turn_off(self) -> None:
        """Off holds from here on; everything that waits is withdrawn."""
        if self.choice is not None and not self.choice.is_done:
            self.choice.wait.withdraw(superseded_choice())
        choice = self.choice = Choice("off")
        choice.settle()
        self.waits.withdraw(tools_are_off(), "preparation", "answer", "patch", "read")
        was = self.mode
        self.mode, self.address = "off", None
        if self.problem is not None and self.problem.code != "E_FENCED":
            self.problem = None  # off looks at no memory, so none can be unreadable; a fence outlives it
        if was != "off":
            self.host.marker(**{"from": was, "mode": "off", "memoryDeferred": True})
            self.context.change_mode("off")
        self.on_change(self.watch_name)

    def leave_branch(self) -> None:
        """The session's tree has gone elsewhere: what waits to be stored for the branch that was left is withdrawn, and
        its run is over (L12)."""
        reason = StoreError("E_ABORTED", "the session went to another branch of its tree; nothing was stored")
        self.waits.withdraw(reason, "preparation", "answer")
        self.context.leave_run()
        self.host.forget_last()

    def go_passive(self) -> None:
        """Passive holds from here on; storing it is to follow."""
        if self.mode == "passive":
            return
        reason = StoreError("E_ABORTED", "passive was chosen meanwhile; nothing was stored")
        self.waits.withdraw(reason, "preparation", "answer")
        was, handoff = self.mode, None
        if was == "active":
            record, context = self.record, self.context
            # What was never worked into memory stays in the messages.
            is_unfinished = record is not None and (record.specification is not None or record.bootstrap)
            if record is not None and record.bootstrap:
                context.anchor = None
            handoff = context.leave_active(self.host.now_ms(), is_unfinished=is_unfinished, scopes=self.scopes())
            self.host.marker(**{"from": was, "preserveContext": handoff.keeps_context, "mode": "passive"})
        self.mode = "passive"
        self.context.change_mode("passive", handoff)
        self.on_change(self.watch_name)

    def fence(self, cause: StrataflowError) -> None:
        """The choice of passive could not be stored: nothing is written until a choice is (L27)."""
        text = f"writing is paused, since the choice of passive could not be stored ({cause}); select passive or active"
        was_fenced = self.problem is not None and self.problem.code == "E_FENCED"
        self.problem = CallError("E_FENCED", text, cause=cause.code)
        handoff = self.context.handoff
        if handoff is not None and not handoff.keeps_context:
            self.context.change_mode("passive", attrs.evolve(handoff, keeps_context=True, anchor=None))
        if not was_fenced:
            self.host.marker(
                mode="passive", persistenceError=" ".join(str(cause).split()), preserveContext=handoff is not None
            )

    # -- use ----------------------------------------------------------------------------------------------------

    def writable(self) -> SessionAddress:
        """The address, if memory may be changed (T9 rows 1 to 3).

        Raises:
          CallError: E_OFF, E_BRANCH, E_FENCED.
        """
        address = self.readable()
        if self.problem is not None and self.problem.code == "E_FENCED":
            raise again(self.problem)
        return address

    def readable(self) -> SessionAddress:
        """The address, if memory may be read.

        Raises:
          CallError: E_OFF, E_BRANCH.
        """
        if self.mode == "off":
            raise tools_are_off()
        if self.address is None:
            if self.problem is not None:
                raise again(self.problem)
            raise CallError("E_BRANCH", "the session's memory is being attached; ask again when the mode is selected")
        return self.address


def tools_are_off() -> CallError:
    """Why a call in off mode is refused."""
    return CallError("E_OFF", "the memory tools are off in this session; select active or passive first")


def superseded_choice() -> StoreError:
    """Why a choice that waits comes to nothing."""
    return StoreError("E_ABORTED", "another mode was chosen meanwhile")
