"""A reader who knows of the memory only what a prompt says, and who applies it as the protocol asks.

It takes the state from the head, then goes through the messages: patches of accepted calls are merged onto what it
knows, then the receipt of the call sets right what came out otherwise; updates set what others changed. What belongs
to another projection is history.
"""

from __future__ import annotations

import json
import re
from typing import Any

import attrs

from kit.conversations import content_of, is_update, label_of
from kit.naive_model import naive_merge, naive_prune

Json = dict[str, Any]
_INDEX = re.compile(r"\[(0|[1-9]\d*)\]")


@attrs.define
class PromptReader:
    """What the reader holds after a request.

    Attributes:
      navigation: the catalog as last told; None if it was never told.
    """

    state: Json = attrs.field(factory=dict)
    navigation: Json | None = None
    invalidations: list[Json] = attrs.field(factory=list)
    phase: Any = None
    projection: str | None = None

    @classmethod
    def of(cls, messages: list[Json]) -> PromptReader:
        """Read a request."""
        head = content_of(messages[0])
        assert "State Flow" in label_of(messages[0])
        reader = cls(head["state"], head.get("lazy_navigation"), head.get("artifact_invalidations", []))
        reader.phase = head.get("knowledge_rehydration")
        reader.projection = messages[0]["content"][1]["text"].removeprefix("State Flow projection: ")
        began = messages[0]["timestamp"]
        calls: Json = {}
        for message in messages[1:]:
            if message["role"] == "assistant":
                tools = [block for block in message["content"] if block["type"] == "toolCall"]
                calls |= {block["id"]: block["arguments"] for block in tools}
            elif message["role"] == "toolResult" and message["timestamp"] > began:
                reader._receive(calls[message["toolCallId"]], message)
            elif is_update(message):
                reader._apply(content_of(message))
        reader.state = naive_prune(reader.state)
        return reader

    def _receive(self, patches: Json, result: Json) -> None:
        texts = [block["text"] for block in result["content"]]
        updates = json.loads(texts[1])["state_updates"] if len(texts) > 1 else {"effective": []}
        if updates.get("projection", self.projection) != self.projection:
            return
        for scope in ("global", "cwd", "session"):
            if scope in patches:
                authored = _without(scope, patches[scope], updates.get("cascaded", []))
                patch = _writes({plane: authored[plane] for plane in authored if plane not in ("lazy", "artifacts")})
                self.state = _merged(self.state, patch)
                self.state = _with_cards(self.state, authored.get("artifacts", {}))
        self.state = naive_prune(self.state)
        self._apply({"state_updates": updates})

    def _apply(self, update: Json) -> None:
        told = update.get("state_updates")
        if told is not None and told.get("projection", self.projection) == self.projection:
            for entry in told["effective"]:
                self.state = _placed(self.state, entry["path"], entry)
            self.navigation = told.get("lazy_navigation", self.navigation)
        self.invalidations = update.get("artifact_invalidations", self.invalidations)
        self.phase = update.get("knowledge_rehydration", self.phase)


def _without(scope: str, patch: Json, cascaded: list[str]) -> Json:
    """A patch without what it wrote to places that went with their intent."""
    copy: Json = json.loads(json.dumps(patch))
    for path in cascaded:
        first, *keys = path.split(".")
        node: Any = copy
        for key in keys[:-1]:
            node = node.get(key) if isinstance(node, dict) else None
        if first == scope and isinstance(node, dict):
            node.pop(keys[-1], None)
    return copy


def _writes(patch: Json) -> Json:
    """What a patch writes: null and empty objects write nothing, what they came to is for the receipt."""
    found = {key: _writes(value) if isinstance(value, dict) else value for key, value in patch.items()}
    return {key: value for key, value in found.items() if value is not None and value != {}}


def _with_cards(state: Json, patch: Json) -> Json:
    """A card is one value: what is foreseen is the known one with the authored one merged onto it, deletions included.
    That a whole card went is for the receipt."""
    known = state.get("artifacts", {})
    cards = {path: naive_merge(known.get(path, {}), card) for path, card in patch.items() if card}
    return {**state, "artifacts": {**known, **cards}} if cards else state


def _merged(target: Any, patch: Any) -> Any:
    """As the patch language says; an index that the reader's array does not have is left to the receipt."""
    if not isinstance(patch, dict):
        return patch
    if isinstance(target, list) and patch and all(_INDEX.fullmatch(key) for key in patch):
        items = list(target)
        for key, value in patch.items():
            index = int(key[1:-1])
            if index < len(items):
                items[index] = _merged(items[index], value)
        return items
    members = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        members[key] = _merged(members.get(key), value)
    return members


def _placed(node: Any, path: list[Any], entry: Json) -> Any:
    """``node`` with one entry of an update in its place."""
    if not path:
        return entry["value"]
    step, *rest = path
    if isinstance(step, int):
        items = list(node)
        items[step] = _placed(items[step], rest, entry)
        return items
    members = dict(node) if isinstance(node, dict) else {}
    if not rest and entry.get("deleted"):
        members.pop(step, None)
    elif rest and entry.get("deleted") and step not in members:
        return members
    else:
        members[step] = _placed(members.get(step), rest, entry)
    return members
