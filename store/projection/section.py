"""The system section: the protocol between ``<state_flow>`` tags, in the system prompt (C1, C2).

Only the section is ever touched. A prompt that holds it already is returned as the same object, so that whoever
compares by identity sees that nothing changed. Taking the section out again leaves what was there before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from .messages import Message
from .texts import BOOTSTRAP, PASSIVE_PROTOCOL, PROTOCOL

Mode = Literal["active", "passive", "off"]

SECTION_TAG = "state_flow"
_OPEN, _CLOSE = f"<{SECTION_TAG}>", f"</{SECTION_TAG}>"
# With the empty line before it. A section holds no other opening tag, so a stray one in a text takes nothing along.
_SECTION = re.compile(rf"(?:\n\n)?({_OPEN}\n(?:(?!{_OPEN}).)*?\n{_CLOSE})", re.DOTALL)


def section_for(mode: Mode, *, bootstrap: bool = False, is_loaded: bool = True) -> str | None:
    """The text of the section in a mode, None if there is to be none."""
    if mode == "active":
        return PROTOCOL + BOOTSTRAP if bootstrap else PROTOCOL
    return PASSIVE_PROTOCOL if mode == "passive" and is_loaded else None


def with_section_text(prompt: str, section: str | None) -> str:
    """A system prompt that is a plain string, with exactly this section, or without any."""
    wanted = _wrapped(section)
    rest, found = _without(prompt)
    return prompt if found == wanted else str(_with(rest, wanted))


def with_section(messages: Sequence[Message], section: str | None, place: int | None = None) -> Sequence[Message]:
    """The messages with exactly this section; the same object if they are so already.

    Without a system message nothing is invented. Contents other than the section, other members and the order stay.

    Args:
      place: the section goes on the last of the first so many system messages; by default on the last of all. So it
        stays where it was sent when a later system message joins.
    """
    places = [index for index, message in enumerate(messages) if message.get("role") == "system"]
    places = [index for index in places if type(messages[index].get("content")) in (str, list)]
    if not places:
        return messages
    wanted = _wrapped(section)
    parts = {index: _without(messages[index]["content"]) for index in places}
    if [text for _, found in parts.values() for text in found] == wanted:
        return messages
    target = places[min(place or len(places), len(places)) - 1]
    contents = {index: _with(rest, wanted if index == target else []) for index, (rest, _) in parts.items()}
    result = list(messages)
    for index, content in contents.items():
        if content is not messages[index]["content"]:
            result[index] = {**messages[index], "content": content}
    return result


def _wrapped(section: str | None) -> list[str]:
    return [] if section is None else [f"{_OPEN}\n{section}\n{_CLOSE}"]


def _without(content: Any) -> tuple[Any, list[str]]:
    """A content without any section (itself if it had none), and the sections it had."""
    if type(content) is str:
        found = _SECTION.findall(content) if _OPEN in content else []
        return (_SECTION.sub("", content), found) if found else (content, [])
    rest: list[Any] = []
    sections: list[str] = []
    for block in content:
        text = block.get("text") if type(block) is dict and block.get("type") == "text" else None
        left, found = _without(text) if type(text) is str else (None, [])
        sections += found
        if not found:
            rest.append(block)
        elif left:  # a block that held nothing else was ours
            rest.append({**block, "text": left})
    return (rest, sections) if sections else (content, [])


def _with(content: Any, wanted: list[str]) -> Any:
    if not wanted:
        return content
    if type(content) is str:
        return f"{content}\n\n{wanted[0]}" if content else wanted[0]
    return [*content, {"type": "text", "text": wanted[0]}]
