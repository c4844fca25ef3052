"""Which tool calls of a session have results: no model takes a call without one, nor a result without its call. Pure.

A result answers the call of its id that stands above it, unless another result between them does. An answer that failed
or was aborted may end in the middle of its calls; those that nobody answered are sent to nobody and no fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, final

import attrs

from .entries import entry, kind_of, time_ms
from .lines import Entry

NO_RESULT: Final = "No result was recorded for this call."
_UNFINISHED: Final = ("error", "aborted")


@final
@attrs.frozen
class Call:
    """A tool call. ``place``, ``timestamp``: of the entry that makes it."""

    place: int
    timestamp: str
    id: str
    name: str

    def result_line(self, entry_id: str, parent: str) -> Entry:
        """An entry with the result that says that there is none."""
        said = {"role": "toolResult", "toolCallId": self.id, "toolName": self.name}
        content = [{"type": "text", "text": NO_RESULT}]
        rest = {"content": content, "isError": True, "timestamp": time_ms(self.timestamp) or 0}
        return entry("message", entry_id, parent, self.timestamp, message=said | rest)


@final
@attrs.define(eq=False)
class Calls:
    """The calls and results of a session's entries, by place."""

    _calls: dict[int, dict[str, Call]] = attrs.field(factory=dict)
    _unfinished: set[int] = attrs.field(factory=set)
    _results: dict[int, str] = attrs.field(factory=dict)

    def take(self, place: int, found: Entry) -> None:
        """Take in the next entry."""
        kind = kind_of(found)
        if kind == "message:assistant":
            message, timestamp = found["message"], str(found.get("timestamp", ""))
            blocks = _calls_in(message.get("content"))
            calls = {call_id: Call(place, timestamp, call_id, name) for call_id, name in blocks}
            if calls:
                self._calls[place] = calls
            if message.get("stopReason") in _UNFINISHED:
                self._unfinished.add(place)
        elif kind == "message:toolResult" and type(call_id := found["message"].get("toolCallId")) is str:
            self._results[place] = call_id

    def settle(self, above: Callable[[int], int | None]) -> tuple[list[Call], list[tuple[int, str]]]:
        """The calls that have no result on any branch, and places and call ids of the results that answer no call.

        Args:
          above: the place of an entry's parent; None for a root.
        """
        answered: set[tuple[int, str]] = set()
        strays = []
        for place, call_id in self._results.items():
            found = self._answered_by(place, call_id, above)
            if found is None:
                strays.append((place, call_id))
            else:
                answered.add((found, call_id))
        finished = (calls for place, calls in self._calls.items() if place not in self._unfinished)
        return [call for calls in finished for call in calls.values() if (call.place, call.id) not in answered], strays

    def _answered_by(self, place: int, call_id: str, above: Callable[[int], int | None]) -> int | None:
        """Where the call of a result is."""
        seen = {place}
        current = above(place)
        while current is not None and current not in seen and self._results.get(current) != call_id:
            if call_id in self._calls.get(current, ()):
                return current
            seen.add(current)
            current = above(current)
        return None


def _calls_in(content: Any) -> Iterator[tuple[str, str]]:
    for block in content if type(content) is list else ():
        if type(block) is dict and block.get("type") == "toolCall" and type(block.get("id")) is str:
            yield block["id"], str(block.get("name"))
