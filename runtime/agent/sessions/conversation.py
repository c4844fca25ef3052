"""What an agent knows of its session: the conversation, where it stands in the tree, and what was said of it there.

Invariants:
  S1  The agent's messages are those of the leaf's context, but for failed answers that were asked for again, what a
      user put there by hand, and what is on its way to the tree.
  S2  Nothing stands between a tool call and its result: what is said beside a run is recorded when it is over.
  S3  A model or level is recorded before the first message that it is used for, and only if it is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast, final

import attrs

from ....store.trace import SessionContext, TraceTree
from ..messages import AgentMessage, json_of
from ..model_stream import Model, ThinkingLevel
from ..queue_file import append_new
from ..recording import NewEntry, recorded_as
from ..state import UNKNOWN_MODEL, AgentState
from .tree_desk import TreeDesk

# Entries that change nothing of what a model sees.
_SILENT = ("custom", "label", "session_info", "model_change", "thinking_level_change")
_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")


@attrs.frozen
class Found:
    """A branch as it was found: its context, its leaf, whether it says which level holds, its latest compaction."""

    context: SessionContext
    leaf: str | None
    has_level: bool
    compaction: Mapping[str, Any] | None


@attrs.frozen
class Changed:
    """What was recorded of model and level; ``level`` is the new one, if an earlier one held."""

    level: str | None = None


@final
@attrs.define(eq=False)
class Conversation:
    """The conversation of one agent with one tree."""

    desk: TreeDesk
    state: AgentState
    _leaf: str | None = attrs.field(default=None, init=False)
    _model: tuple[str, str] | None = attrs.field(default=None, init=False)
    _level: str | None = attrs.field(default=None, init=False)
    # The latest compaction of the branch.
    compaction: Mapping[str, Any] | None = attrs.field(default=None, init=False)
    _beside: list[AgentMessage] = attrs.field(factory=list, init=False)

    # -- taking up ---------------------------------------------------------------------------------------------------

    async def look(self) -> Found:
        """The branch as it is now. Changes nothing."""
        return await self.desk.ask(_found)

    def take_up(self, found: Found) -> None:
        """Go on from there: the messages of the branch are the agent's."""
        context = found.context
        self.state.messages = cast("list[AgentMessage]", context.messages)
        self._model = None if context.model is None else (context.model["provider"], context.model["modelId"])
        self._level = context.thinking_level if found.has_level else None
        self._leaf, self.compaction = found.leaf, found.compaction

    @property
    def recorded_model(self) -> tuple[str, str] | None:
        """Provider and id of the model that the branch tells of."""
        return self._model

    @property
    def recorded_level(self) -> ThinkingLevel | None:
        """The level that the branch tells of, if it is one."""
        return cast("ThinkingLevel | None", self._level if self._level in _LEVELS else None)

    async def follow(self) -> bool:
        """Take up what others have added, or another branch if the tree went there (S1). Whether anything was new."""
        known = self._leaf
        if self.desk.leaf_id == known:
            return False
        leaf, is_new = await self.desk.ask(lambda tree: (tree.get_leaf_id(), _has_gone_on(tree, known)))
        if is_new:
            self.take_up(await self.look())
        else:
            self._leaf = leaf
        return is_new

    def note_leaf(self) -> None:
        """What was appended last is the agent's own."""
        self._leaf = self.desk.leaf_id

    # -- recording ----------------------------------------------------------------------------------------------------

    async def record_settings(self) -> Changed:
        """Record model and level as they are now, as far as they are news (S3). A model that can not reason has the
        level ``off``. Cancelled: what was recorded is known to be."""
        model, is_first = self.state.model, self._model is None
        if is_first:
            await self._record_model(model)
        changed = await self._record_level(_effective(self.state))
        if not is_first:
            await self._record_model(model)
        return changed

    async def _record_model(self, model: Model) -> None:
        named = (model.provider, model.id)
        if model is not UNKNOWN_MODEL and named != self._model:
            await self._append(lambda tree: tree.append_model_change(*named), partial(setattr, self, "_model", named))

    async def _record_level(self, level: str) -> Changed:
        if level == self._level:
            return Changed()
        changed = Changed(level if self._level is not None else None)
        await self._append(
            lambda tree: tree.append_thinking_level_change(level), partial(setattr, self, "_level", level)
        )
        return changed

    def say_beside(self, message: AgentMessage) -> None:
        """Keep a message for when nothing stands between a call and its result any more (S2)."""
        self._beside.append(message)

    async def record_beside(self) -> None:
        """Record what was said beside a run."""
        while self._beside:
            await self.record(self._beside[0])
            del self._beside[0]

    async def record(self, message: AgentMessage) -> None:
        """Record a message, and add it to the agent's. Cancelled: both or neither."""
        # What no run brings is stored here, where it arises (2.7.2).
        new = recorded_as(message) or NewEntry("message", {"message": json_of(message)})

        def append(tree: TraceTree) -> str:
            return str(append_new(tree, new))

        await self._append(append, lambda: self.state.messages.append(message))

    async def record_name(self, name: str) -> None:
        """Name the session."""
        await self._append(lambda tree: tree.append_session_info(name))

    async def _append(self, call: Callable[[TraceTree], str], then: Callable[[], None] = lambda: None) -> None:
        """Append an entry; ``then`` follows in the moment in which that is known, whoever is cancelled."""
        tree, made = self.desk.tree, list[str]()
        try:
            await self.desk.work(lambda: made.append(call(tree)))
        finally:
            if made:
                self._leaf = made[0]
                then()


def _effective(state: AgentState) -> str:
    return state.thinking_level if state.model.reasoning else "off"


def _found(tree: TraceTree) -> Found:
    path = tree.get_branch()
    has_level = any(entry["type"] == "thinking_level_change" for entry in path)
    latest = next((entry for entry in reversed(path) if entry["type"] == "compaction"), None)
    return Found(tree.build_session_context(), tree.get_leaf_id(), has_level, latest)


def _has_gone_on(tree: TraceTree, known: str | None) -> bool:
    """Whether the leaf is more than silent entries behind the known one."""
    at = tree.get_leaf_id()
    while at != known:
        entry: Mapping[str, Any] | None = None if at is None else tree.get_entry(at)
        if entry is None or entry["type"] not in _SILENT:
            return True
        at = entry.get("parentId")
    return False
