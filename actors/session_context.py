"""What a session's prompts have been told, and what its run is doing: everything that ``project`` needs besides memory.

Nothing here waits or looks at anything: the handle's calls move it at the moment at which something was accepted or
chosen, and ask it for the next request.

::

    idle --begin_run--> begun --prepared--> prepared --answered--> idle
              |  another run begins: the older one is superseded, its waits are withdrawn

Only ``Run`` of the runtime knows those stages; here a run is a token, of which one at most is the present one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, final

import attrs

from ..store import Json, Lineage, Mode, ScopeName, ScopeState
from ..store.projection import (
    NOTHING_SENT,
    AcceptedCall,
    Carried,
    ContextRequest,
    Dump,
    Handoff,
    Message,
    Rebase,
    RehydrationPhase,
    Transition,
    acknowledge_call,
    end_projection,
    leave_active,
    next_rehydration_phase,
    own_transitions,
    project,
)

Scopes = Mapping[ScopeName, ScopeState]
# Own transitions that are remembered: what three full tails can hold, and some more.
OWN_TRANSITIONS_MAX = 1_000


@final
@attrs.define(eq=False)
class SessionContext:
    """Of one session, in one process.

    Attributes:
      carried: what was sent and told.
      phase: of knowledge rehydration.
      run: the present run's token.
      prompt: of that run, as long as its answer was not accepted.
      anchor: see ``observed_anchor``; None: not known.
      has_sought: whether the run's first request was searched for its anchor. Later user messages only steer.
      handoff: the retained boundary of leaving active mode.
      has_conversation: whether messages of a conversation were ever seen.
      awaits_bootstrap: active was chosen when it was not known whether there is a conversation.
      seen: how many messages the last request of the host had.
      own: ids of transitions that this session made, None while those of its past were not looked up.
      last_sent, last_rebase: the last two requests, for the prefix ledger.
      on_run: called with True when a run begins, also over another one, and with False when there is none any more.
    """

    carried: Carried = NOTHING_SENT
    phase: RehydrationPhase | None = None
    run: object | None = None
    prompt: str | None = None
    anchor: float | None = None
    has_sought: bool = False
    handoff: Handoff | None = None
    has_conversation: bool = False
    awaits_bootstrap: bool = False
    seen: int = 0
    knows_own: bool = False
    own: dict[str, None] = attrs.field(factory=dict)
    sent: tuple[Sequence[Message], ...] = ()
    last_rebase: Rebase | None = None
    on_run: Callable[[bool], None] = lambda is_running: None

    # -- what happens -------------------------------------------------------------------------------------------

    def attach(self, *, is_resumed: bool) -> None:
        """The session starts, is reloaded or resumed."""
        self.carried = end_projection(self.carried, "session")
        self.phase = next_rehydration_phase(self.phase, "resume" if is_resumed else "start")
        self.anchor, self.seen = None, 0

    def begin_run(self, run: object, prompt: str, anchor: float | None, *, is_over_unfinished: bool) -> None:
        """A user's run begins (L9)."""
        self.run, self.prompt, self.anchor, self.has_sought = run, prompt, anchor, False
        self.on_run(True)
        self.carried = end_projection(self.carried, "run")
        self.phase = next_rehydration_phase(self.phase, "prompt-over-unfinished" if is_over_unfinished else "prompt")

    def answered(self, run: object | None) -> None:
        """The answer of a run was accepted in active mode (L19). Another one may have begun meanwhile."""
        if self.run is run:
            self.leave_run()
        self.handoff, self.awaits_bootstrap = None, False
        self.carried = end_projection(self.carried, "answer")
        self.phase = next_rehydration_phase(self.phase, "answer")

    def end_run(self, run: object) -> None:
        """A run is over without an answer; what it has prepared stays."""
        if self.run is run:
            self.run = None
            self.on_run(False)

    def leave_run(self) -> None:
        """There is no run any more, and no prompt that waits for an answer."""
        was_running = self.run is not None
        self.run, self.prompt = None, None
        if was_running:
            self.on_run(False)

    def change_mode(self, mode: Mode, handoff: Handoff | None = None) -> None:
        """Another mode holds."""
        self.carried = end_projection(self.carried, "mode")
        if handoff is not None:
            self.handoff = handoff
        if mode == "active":
            self.prompt = None

    def leave_active(
        self, at: float, *, is_unfinished: bool, scopes: Scopes | None, could_not_save: bool = False
    ) -> Handoff:
        """What is kept of the conversation when passive is chosen in active mode (C27)."""
        return leave_active(
            at,
            is_unfinished=is_unfinished,
            anchor=self.anchor,
            captured=scopes,
            could_not_save=could_not_save,
        )

    def compacted(self) -> None:
        """The host compacted its messages: the next request begins anew."""
        self.carried = end_projection(self.carried, "compaction")
        self.seen = 0

    # -- receipts and requests ----------------------------------------------------------------------------------

    def note_own(self, transition_id: str | None) -> None:
        """A transition of this session was staged. (If it is not accepted, nobody will ever ask for its id.)"""
        if transition_id is not None:
            self.own[transition_id] = None
            if len(self.own) > OWN_TRANSITIONS_MAX:
                del self.own[next(iter(self.own))]

    def acknowledge(self, call: AcceptedCall, dump: Dump) -> Json | None:
        """What the receipt of a call tells besides. It counts as told from here on (T30)."""
        self.carried, updates = acknowledge_call(self.carried, call, dump)
        return updates

    def observe(self, messages: Sequence[Message]) -> None:
        """The host's messages of a request: find the message that began the run, if the host did not name it (C23)."""
        if len(messages) < self.seen:
            self.seen = 0  # the host cut: what is new among them is not known
        if self.anchor is None and self.prompt is not None and not self.has_sought:
            self.has_sought = True
            users = [message for message in messages[self.seen :] if message.get("role") == "user"]
            # With an unknown past only a single one can be told for certain.
            if users and (self.seen or len(users) == 1):
                time = users[0].get("timestamp")
                self.anchor = time if type(time) in (int, float) else None
        self.seen = len(messages)
        self.has_conversation = self.has_conversation or bool(messages)

    def project(self, request: ContextRequest, dump: Dump) -> list[Message]:
        """The messages of a request."""
        self.carried, messages, rebase = project(self.carried, request, dump)
        self.sent = (*self.sent[-1:], messages)
        self.last_rebase = rebase
        return list(messages)


def updates_for_nobody(call: AcceptedCall, dump: Dump) -> Json | None:
    """What a receipt tells whose session has no prompt yet: nothing is known, and nothing counts as told."""
    return acknowledge_call(NOTHING_SENT, call, dump)[1]


def transitions_of(scopes: Scopes, lineage: Lineage, own: Collection[str], limit: int) -> list[Transition]:
    """The session's own transitions that its scopes still show, oldest first (C21, Ours-15)."""
    known = {boundary.id for boundary in lineage.known}
    return own_transitions(scopes, own, known, lineage.since, limit)


def has_answers(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Whether there is a conversation besides the message that begins a run."""
    return any(message.get("role") == "assistant" for message in messages)
