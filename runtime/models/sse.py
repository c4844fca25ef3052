"""Server-sent events: bytes in, events out, whatever the pieces in which the bytes come. Pure.

A line ends with CR, LF or CRLF; an empty line ends an event; a line that begins with a colon is a comment. Of the
fields only ``event`` and ``data`` mean something here: nobody resumes an answer by ``id``, and how long to wait before
asking again is not the stream's business (``retry``).

Invariants:
  E1  The events depend on the bytes alone, never on how they were cut. Lines are cut as bytes, in which a line's end
      can not be part of a character, and decoded as a whole; so a character that came in two pieces stays whole.
  E2  What waits for its end never exceeds the bound: neither one line nor the lines of one event.
  E3  An event that the end of the stream cut off is not given: half of it could mean something else.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

import attrs

# The longest event that is taken in. Answers come in pieces of some bytes; the largest things in one event are whole
# tool calls and sealed thoughts. A server that never ends a line must not fill the memory.
SSE_EVENT_BYTES_MAX: Final = 8 << 20

_BOM: Final = b"\xef\xbb\xbf"


class EventTooLong(Exception):
    """More bytes than the bound came without the end of an event. Nothing after that can be understood."""


class SseEvent(NamedTuple):
    """One event: its name (``message`` where the server gave none) and its data, lines joined by LF."""

    name: str
    data: str


@final
@attrs.define(eq=False)
class SseParser:
    """The state between two pieces. ``feed`` gives the events that a piece completes."""

    bytes_max: int = SSE_EVENT_BYTES_MAX
    _pieces: list[bytes] = attrs.field(factory=list, init=False)  # of a line whose end has not come
    _waiting: int = attrs.field(default=0, init=False)  # bytes in the pieces
    _name: str = attrs.field(default="", init=False)
    _data: list[str] = attrs.field(factory=list, init=False)
    _held: int = attrs.field(default=0, init=False)  # bytes of the event's lines so far
    _is_after_cr: bool = attrs.field(default=False, init=False)
    _is_first_line: bool = attrs.field(default=True, init=False)

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The events that are complete with ``piece``.

        Raises:
          EventTooLong: see there (E2). Events that were complete before are lost with it: the stream is not sound.
        """
        if self._is_after_cr and piece:
            # The CR ended the line already; an LF right after it belongs to it.
            self._is_after_cr = False
            piece = piece.removeprefix(b"\n")
        if not piece:
            return []
        if piece.startswith(b"data: ") and self._is_one_event(piece):
            self._is_first_line = False
            return [SseEvent("message", piece[6:-2].decode("utf-8", "replace"))]
        lines = piece.splitlines(keepends=True)
        last = lines[-1]
        self._is_after_cr = last.endswith(b"\r")
        rest = b"" if last.endswith((b"\n", b"\r")) else lines.pop()
        found: list[SseEvent] = []
        for line in lines:
            if self._pieces:
                line = b"".join((*self._pieces, line))
                self._pieces.clear()
                self._waiting = 0
            self._line(line.rstrip(b"\r\n"), found)
        if rest:
            self._pieces.append(rest)
            self._waiting += len(rest)
            self._check(self._waiting)
        return found

    def _is_one_event(self, piece: bytes) -> bool:
        """Whether nothing waits and ``piece`` is one line of data and its event's end, as most pieces are."""
        return (
            not (self._pieces or self._data or self._name)
            and piece.find(b"\n") == len(piece) - 2
            and piece.endswith(b"\n")
            and b"\r" not in piece
            and len(piece) <= self.bytes_max
        )

    def _check(self, more: int) -> None:
        if self._held + more > self.bytes_max:
            raise EventTooLong(f"an event of the stream is longer than {self.bytes_max:,} bytes")

    def _line(self, line: bytes, found: list[SseEvent]) -> None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                found.append(SseEvent(self._name or "message", "\n".join(self._data)))
                self._data = []
            self._name = ""
            self._held = 0
            return
        self._check(len(line))
        if line.startswith(b"data:"):
            self._held += len(line)
            self._data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
        elif line.startswith(b"event:"):
            self._name = line[6:].removeprefix(b" ").decode("utf-8", "replace")
        elif line == b"data":
            self._held += len(line)
            self._data.append("")
        elif line == b"event":
            self._name = ""
