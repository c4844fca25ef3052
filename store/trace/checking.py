"""What is broken in a session file, and where (``strataflow sessions check``). Looks only, line by line.

Every finding begins with the number of its line, the header being 1 in a file in good order. Problems keep an entry
from being read as it was meant, warnings keep a session from being continued as it is, notes are worth knowing.
"""

from __future__ import annotations

from typing import Final, final

import attrs

from ..algebra import StoreError, shown
from ..findings import Finding, Severity, refusal
from .calls import Calls
from .entries import is_header, needs_ids, parent_of
from .files import TORN_SUFFIX, lines_of
from .lines import BLANK, Entry, parse_line
from .reading import file_at
from .seams import TraceSeams

FINDING_CODES: Final = (
    "no-header",
    "second-header",
    "bad-line",
    "torn-line",
    "no-newline",
    "no-id",
    "double-id",
    "orphan",
    "cycle",
    "call-without-result",
    "result-without-call",
    "unknown-target",
    "torn-aside",
)


def check_session(seams: TraceSeams, path: str) -> list[Finding]:
    """What is broken in a session file, in the order of its lines; a file that cannot be read is a finding."""
    try:
        size = file_at(seams, path).size_bytes
        checker = _Checker(path)
        for number, (_, line, is_ended) in enumerate(lines_of(seams, path, 0, size), 1):
            checker.take(number, line, is_ended)
        checker.finish()
        if seams.disk.stat(path + TORN_SUFFIX) is not None:
            checker.say("note", "torn-aside", 0, f"half a line of an earlier crash is kept in {path}{TORN_SUFFIX}")
    except StoreError as error:
        return [refusal(error, path)]
    return [finding for _, finding in sorted(checker.findings, key=lambda found: found[0])]


@final
@attrs.define(eq=False)
class _Checker:
    path: str
    findings: list[tuple[int, Finding]] = attrs.field(factory=list)
    _head: Entry | None = None
    _ids: list[str] = attrs.field(factory=list)
    _lines: list[int] = attrs.field(factory=list)
    _parents: list[str | None] = attrs.field(factory=list)
    _places: dict[str, int] = attrs.field(factory=dict)
    _calls: Calls = attrs.field(factory=Calls)
    _targets: list[tuple[int, str, str]] = attrs.field(factory=list)

    def say(self, severity: Severity, code: str, line: int, words: str) -> None:
        where = f"line {line}: " if line else ""
        self.findings.append((line, Finding(severity, code, self.path, where + words)))

    def take(self, number: int, line: bytes, is_ended: bool) -> None:
        found = parse_line(line)
        if found is None:
            if line.strip(BLANK):
                self._take_broken(number, line, is_ended)
            return
        if not is_ended:
            self.say("note", "no-newline", number, "the last line has no line break; the next append adds it")
        if self._head is None:
            self._take_head(number, found)
        elif found["type"] == "session":
            self.say("warning", "second-header", number, "another header; the first one counts")
        if found["type"] != "session":
            self._take_entry(number, found)

    def _take_broken(self, number: int, line: bytes, is_ended: bool) -> None:
        if is_ended:
            words = f"{len(line)} bytes that are no entry; they are passed over, and what followed them is an orphan"
            self.say("problem", "bad-line", number, words)
        else:
            words = f"{len(line)} bytes of an entry that was not written whole; the next append sets them aside"
            self.say("problem", "torn-line", number, words)

    def _take_head(self, number: int, found: Entry) -> None:
        self._head = found
        if not is_header(found):
            self.say("problem", "no-header", number, "the first entry is no header, so the file does not open")

    def _take_entry(self, number: int, found: Entry) -> None:
        if self._head is not None and needs_ids(self._head):
            return  # a version that had no ids: the order of lines is the tree
        entry_id = found.get("id")
        if type(entry_id) is not str:
            self.say("problem", "no-id", number, "an entry without id; it is passed over")
            return
        place = len(self._ids)
        if (older := self._places.get(entry_id)) is not None:
            words = f"the id {shown(entry_id)} stands on line {self._lines[older]} too; it means this one"
            self.say("problem", "double-id", number, words)
        self._ids.append(entry_id)
        self._lines.append(number)
        self._parents.append(parent_of(found))
        self._places[entry_id] = place
        self._calls.take(place, found)
        if found["type"] == "label" and type(target := found.get("targetId")) is str:
            self._targets.append((number, "a label", target))
        elif found["type"] == "compaction" and type(kept := found.get("firstKeptEntryId")) is str:
            self._targets.append((number, "a compaction", kept))

    def finish(self) -> None:
        """What only the whole file tells."""
        if self._head is None:
            self.say("problem", "no-header", 1, "there is no header")
        for place, parent in enumerate(self._parents):
            if parent is not None and parent not in self._places:
                words = f"the parent {shown(parent)} of {shown(self._ids[place])} is not there; the entry is a root"
                self.say("problem", "orphan", self._lines[place], words)
        self._find_cycles()
        unanswered, strays = self._calls.settle(self._above)
        for call in unanswered:
            words = f"the call {shown(call.id)} of {shown(call.name)} has no result; a model may refuse the session"
            self.say("warning", "call-without-result", self._lines[call.place], words)
        for place, call_id in strays:
            words = f"a result of the call {shown(call_id)}, which does not stand before it or has a result already"
            self.say("warning", "result-without-call", self._lines[place], words)
        for line, what, target in self._targets:
            if target not in self._places:
                self.say("note", "unknown-target", line, f"{what} names {shown(target)}, which is not there")

    def _find_cycles(self) -> None:
        seen: dict[int, int] = {}  # place -> the walk that has come by
        for walk in range(len(self._parents)):
            place: int | None = walk
            while place is not None and place not in seen:
                seen[place] = walk
                place = self._above(place)
            if place is not None and seen[place] == walk:
                words = f"{shown(self._ids[place])} is among its own ancestors; a branch through it ends there"
                self.say("problem", "cycle", self._lines[place], words)

    def _above(self, place: int) -> int | None:
        parent = self._parents[place]
        return None if parent is None else self._places.get(parent)
