"""How commands show things: colour and moving lines on a terminal only, plain lines everywhere else."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import time
from typing import Final, TextIO, final

import attrs

from .. import compact

_ANY_TEXT: Final = "strataflow-any-text"
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_BAR_CHARS = 30
# Work that is over sooner shows nothing.
_SHOW_AFTER_S = 1.0
_BAR_EVERY_S = 0.1
_LINE_EVERY_S = 2.0


def say_any_text() -> None:
    """Let all output be said: names of files may be no UTF-8 and come out as their bytes; halves of characters, which
    old sessions can hold, come out as ``\\ud83d``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ANY_TEXT)


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    sign = error.object[error.start]
    is_byte = "\udc80" <= sign <= "\udcff"
    return bytes([ord(sign) - 0xDC00]) if is_byte else f"\\u{ord(sign):04x}", error.start + 1


codecs.register_error(_ANY_TEXT, _spell)


def print_json(value: object) -> None:
    """One line of JSON; what is no whole character is escaped."""
    try:
        text = compact(value)
    except TypeError:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    print(text)


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at this stream, at a terminal that understands colours."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """``text`` in a style such as "red", if the stream (default: standard output) shows colours."""
    if is_terminal(stream or sys.stdout) and "NO_COLOR" not in os.environ:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"
    return text


@final
@attrs.define(eq=False)
class Progress:
    """How far work of a known length has come: a bar that moves, or now and then a line. On standard error."""

    label: str
    total: int
    is_shown: bool = True
    _started_s: float = attrs.field(factory=time.monotonic, init=False)
    _shown_s: float = attrs.field(default=0.0, init=False)
    _has_bar: bool = attrs.field(default=False, init=False)

    def show(self, done: int, note: str = "") -> None:
        """Show how much is done, unless that was shown a moment ago or the work is short."""
        now = time.monotonic()
        moves = is_terminal(sys.stderr)
        if not self.is_shown or now - self._started_s < _SHOW_AFTER_S:
            return
        if now - self._shown_s < (_BAR_EVERY_S if moves else _LINE_EVERY_S):
            return
        self._shown_s = now
        text = f"{self.label} {done}/{self.total}{'  ' + note if note else ''}"
        if moves:
            full = _BAR_CHARS * done // max(self.total, 1)
            sys.stderr.write(f"\r\x1b[K[{'#' * full}{'.' * (_BAR_CHARS - full)}] {text}")
            self._has_bar = True
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def say(self, text: str) -> None:
        """A line of its own, above the bar."""
        if self.is_shown:
            self.end()
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the bar away."""
        if self._has_bar:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._has_bar = False
