"""A conversation over pure memory: what a runtime will do around the projection, without any actor.

It keeps the host's messages, calls the pure functions at the moments at which a run calls them, and remembers every
request that went out. Time is a counter, ids are numbered.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from kit.pure_harness import PureHarness, PureSession
from strataflow.store.algebra import SCOPES, Boundary, Json, ScopeName, ScopeState, check_patch_arguments
from strataflow.store.projection import (
    NOTHING_SENT,
    AcceptedCall,
    Carried,
    ContextRequest,
    Handoff,
    Message,
    Rebase,
    RehydrationPhase,
    SentRequest,
    Transition,
    acknowledge_call,
    end_projection,
    leave_active,
    observed_anchor,
    project,
    receipt_text,
)
from strataflow.store.projection.section import Mode

ORIGIN = Boundary("origin", None, 1)


def dump(value: Any) -> str:
    """Compact JSON; what it was called with can be counted by whoever wraps it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def named(scopes: Json) -> Json:
    """Keyword arguments as scopes: ``global_`` is global."""
    return {name.rstrip("_"): patch for name, patch in scopes.items()}


@attrs.define
class Conversation:
    """One session's conversation. Other sessions of its directory change memory through ``foreign``."""

    memory: PureHarness = attrs.field(factory=PureHarness)
    key: str = "main"
    mode: Mode = "active"
    carried: Carried = NOTHING_SENT
    native: list[Message] = attrs.field(factory=list)
    sent: list[SentRequest] = attrs.field(factory=list)
    specification: str | None = None
    anchor: float | None = None
    bootstrap: bool = False
    handoff: Handoff | None = None
    hints: dict[str, str] = attrs.field(factory=dict)
    invalidations: list[Json] = attrs.field(factory=list)
    phase: RehydrationPhase | None = None
    transitions: list[Transition] = attrs.field(factory=list)
    is_loaded: bool = True
    now: int = 1000
    requests: int = 0
    calls: int = 0

    # -- the host -----------------------------------------------------------------------------------------------

    def say(self, role: str, text: str = "", **more: Any) -> Message:
        """One more native message."""
        self.now += 1
        message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": self.now, **more}
        self.native.append(message)
        self.anchor = observed_anchor(self.anchor, message)
        return message

    def run(self, prompt: str) -> None:
        """A user's run begins."""
        self.anchor = None
        self.specification = prompt if self.mode == "active" else None
        self.carried = end_projection(self.carried, "run")
        self.say("user", prompt)

    def answer(self, text: str) -> None:
        """The run ends with an accepted answer."""
        self.say("assistant", text, stopReason="stop")
        if self.mode == "active":
            self.memory.call("accept_response", {"text": text}, session=self.key)
            self.specification, self.bootstrap, self.handoff, self.phase = None, False, None, "step"
            self.carried = end_projection(self.carried, "answer")

    def switch(self, mode: Mode) -> None:
        """Another mode is chosen."""
        self.now += 1
        if (self.mode, mode) == ("active", "passive"):
            is_unfinished = self.specification is not None
            self.handoff = leave_active(
                self.now, is_unfinished=is_unfinished, anchor=self.anchor, captured=self.scopes(), hints=self.hints
            )
        if mode == "active" and self.mode != "active":
            self.bootstrap = bool(self.native) or self.handoff is not None
            self.specification = None
        self.mode = mode
        self.carried = end_projection(self.carried, "mode")

    def reload(self) -> None:
        """The session is attached anew: what the process knew is gone, what the session keeps stays."""
        self.carried = NOTHING_SENT
        self.anchor = None
        if self.handoff is not None:
            self.handoff = attrs.evolve(self.handoff, captured=None)

    # -- memory -------------------------------------------------------------------------------------------------

    def session(self) -> PureSession:
        """The session in memory."""
        return self.memory.session(key=self.key)

    def scopes(self) -> dict[ScopeName, ScopeState]:
        """The three scopes now."""
        return self.memory.states(self.session())

    def patch(self, *, is_silent: bool = False, is_lost: bool = False, **scopes: Json) -> Json | None:
        """A patch of this session; the ``state_updates`` of its receipt. It stands in the messages, unless it is silent
        (nobody expects it there) or lost on its way there."""
        arguments = named(scopes)
        patches = check_patch_arguments(arguments)
        before = self.scopes()
        answer = self.memory.call("patch_state", arguments, session=self.key)
        after = self.scopes()
        self._note(before, after)
        self.calls += 1
        call = AcceptedCall(
            patches=patches,
            before=before,
            after=after,
            cascaded=tuple(answer["cascaded"]),
            hints=self.hints,
            mode=self.mode,
            call_id=None if is_silent else f"c{self.calls}",
        )
        self.carried, updates = acknowledge_call(self.carried, call, dump)
        if not is_silent and not is_lost:
            tool = {"type": "toolCall", "id": f"c{self.calls}", "name": "patch_state", "arguments": arguments}
            self.say("assistant", content=[tool], stopReason="toolUse")
            texts = [answer["text"], *([receipt_text(updates, dump)] if updates is not None else [])]
            blocks = [{"type": "text", "text": text} for text in texts]
            self.say("toolResult", content=blocks, toolCallId=tool["id"], toolName="patch_state", isError=False)
        return updates

    def _note(self, before: dict[ScopeName, ScopeState], after: dict[ScopeName, ScopeState]) -> None:
        moved = {name: after[name].tail[-1] for name in SCOPES if after[name].revision > before[name].revision}
        if moved:
            boundary = next(iter(moved.values())).boundary
            records = {name: record.patch for name, record in moved.items()}
            self.transitions.append(Transition(boundary.id, boundary.position, records))

    def foreign(self, key: str = "other", **scopes: Json) -> None:
        """A patch of another session of the directory."""
        self.memory.call("patch_state", named(scopes), session=key)

    # -- requests -----------------------------------------------------------------------------------------------

    def context(self) -> ContextRequest:
        """The request that would go out now."""
        self.requests += 1
        return ContextRequest(
            mode=self.mode,
            messages=list(self.native),
            scopes=self.scopes() if self.is_loaded else None,
            time_ms=self.now,
            new_id=f"00000000-0000-4000-8000-{self.requests:012}",
            specification=self.specification,
            anchor=self.anchor,
            bootstrap=self.bootstrap,
            handoff=self.handoff,
            hints=self.hints,
            invalidations=self.invalidations,
            phase=self.phase,
            transitions=self.transitions,
            history_limit=self.memory.limit,
        )

    def request(self) -> list[Message]:
        """A request goes out: its messages."""
        self.carried, messages, rebase = project(self.carried, self.context(), dump)
        self.sent.append(SentRequest(list(messages), rebase))
        return list(messages)

    @property
    def rebase(self) -> Rebase | None:
        """What the last request said of its prefix."""
        return self.sent[-1].rebase


def content_of(message: Message) -> Json:
    """The JSON below the label of a synthetic message."""
    found: Json = json.loads(message["content"][0]["text"].split("\n", 1)[1])
    return found


def label_of(message: Message) -> str:
    """The first line of a message."""
    return str(message["content"][0]["text"]).split("\n", 1)[0]


def id_of(messages: list[Message]) -> str:
    """The projection id of a request."""
    text: str = messages[0]["content"][1]["text"]
    return text.removeprefix("State Flow projection: ")


def updates_in(messages: list[Message]) -> list[Json]:
    """All updates of a request, oldest first."""
    return [content_of(message) for message in messages if is_update(message)]


def is_update(message: Message) -> bool:
    """Whether a message is a synthetic update."""
    return message["role"] == "user" and "context update" in label_of(message)
