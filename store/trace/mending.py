"""A better session file from a broken one, under another name (``strataflow sessions repair``).

What was read stays byte for byte wherever it can. The first pass decides, the second copies.

=================  ====================================================================================
no header          one is made, with a new id and what is left of one that had none
bad or torn line   left out; the old file keeps it
entry without id   gets one, and follows the entry before it
double id          equal lines are one; of others the earlier gets a new id, since the id means the later
orphan             follows the entry that stands before it in the file: what was lost stood between them
cycle              its first entry becomes a root
call without       gets one that says so right behind it, and what followed the call follows that; a result without
result             its call stays
=================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, final

import attrs

from ..algebra import StoreError, shown
from ..disk_paths import named
from .calls import Calls
from .entries import header, is_header, iso_time, needs_ids, parent_of, session_uuid
from .files import lines_of, write_whole
from .lines import BLANK, Entry, line_of, parse_line
from .reading import file_at, short_ids
from .seams import TraceSeams

_UNKNOWN_CWD: Final = "/"
_OF_HEADS: Final = ("timestamp", "cwd", "parentSession")


@final
@attrs.frozen
class Mended:
    """What a repair did. ``changes`` tells each, with the number of the line in the old file."""

    path: str
    entries: int
    changes: tuple[str, ...]


def mend_session(seams: TraceSeams, source: str, target: str, *, is_synced: bool = True) -> Mended:
    """Write what can be read of ``source`` as a session in good order to ``target``, which must not exist.

    Raises:
      StoreError: E_CORRUPT if nothing in it can be read; E_CHANGED if ``target`` exists; E_DISK.
    """
    size = file_at(seams, source).size_bytes
    plan = _Plan(short_ids(seams.new_id))
    for number, (_, line, _ended) in enumerate(lines_of(seams, source, 0, size), 1):
        plan.look(number, line)
    if plan.head is None and not plan.ids:
        text = f"{named(source)}: no line of it is an entry; nothing can be repaired"
        raise StoreError("E_CORRUPT", text, path=source)
    plan.decide()
    now = seams.now_ms()
    head = plan.head or header(session_uuid(now, seams.new_id()), iso_time(now), _UNKNOWN_CWD) | plan.remains
    write_whole(seams, target, _copied(seams, source, size, head, plan), is_synced=is_synced)
    return Mended(target, plan.kept, tuple(f"line {number}: {words}" for number, words in sorted(plan.changes)))


@final
@attrs.define(eq=False)
class _Plan:
    """What becomes of each line."""

    new_id: Callable[[], str]
    head: Entry | None = None
    remains: Entry = attrs.field(factory=dict)  # of a header that is none
    ids: list[str] = attrs.field(factory=list)
    parents: list[str | None] = attrs.field(factory=list)
    numbers: list[int] = attrs.field(factory=list)
    changes: list[tuple[int, str]] = attrs.field(factory=list)
    rewritten: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    dropped: set[int] = attrs.field(factory=set)
    added: dict[int, list[Entry]] = attrs.field(factory=dict)
    _calls: Calls = attrs.field(factory=Calls)
    _adopted: list[int] = attrs.field(factory=list)
    _places: dict[str, int] = attrs.field(factory=dict)
    _digests: dict[int, int] = attrs.field(factory=dict)

    @property
    def kept(self) -> int:
        return len(self.ids) + sum(map(len, self.added.values()))

    def look(self, number: int, line: bytes) -> None:
        found = parse_line(line)
        if found is None:
            self.dropped.add(number)
            if line.strip(BLANK):
                self.changes.append((number, f"{len(line)} bytes that are no entry are left out"))
        elif found["type"] == "session":
            self._look_at_head(number, found)
        elif self.head is None or not needs_ids(self.head):
            self._look_at_entry(number, found, hash(line.strip(BLANK)))
        else:  # so old that the order of lines is the tree
            self._keep(number, f"line {number}", None)

    def _look_at_head(self, number: int, found: Entry) -> None:
        self.dropped.add(number)
        if not is_header(found):
            self.changes.append((number, "a header without an id is made anew, or left out behind another"))
            self.remains = self.remains or {name: found[name] for name in _OF_HEADS if type(found.get(name)) is str}
            return
        if self.head is not None or self.ids:
            self.changes.append((number, "a further header is left out"))
        self.head = self.head or found

    def _look_at_entry(self, number: int, found: Entry, digest: int) -> None:
        entry_id = found.get("id")
        if type(entry_id) is not str:
            entry_id = self.new_id()
            self.rewritten[number] = {"id": entry_id}
            self.changes.append((number, f"an entry without id is now {entry_id}"))
            self._adopted.append(len(self.ids))
            self._calls.take(len(self.ids), found)
            self._keep(number, entry_id, None)
            return
        older = self._places.get(entry_id)
        if older is not None and self._digests.get(older) == digest:
            self.dropped.add(number)
            self.changes.append((number, f"{entry_id} stands on line {self.numbers[older]} already and is left out"))
            return
        if older is not None:
            renamed = self.ids[older] = self.new_id()
            self._places[renamed] = older
            self.rewritten.setdefault(self.numbers[older], {})["id"] = renamed
            self.changes.append((self.numbers[older], f"{entry_id} is now {renamed}: a later line has that id"))
        self._digests[len(self.ids)] = digest
        self._calls.take(len(self.ids), found)
        self._keep(number, entry_id, parent_of(found))

    def _keep(self, number: int, entry_id: str, parent: str | None) -> None:
        self._places[entry_id] = len(self.ids)
        self.ids.append(entry_id)
        self.parents.append(parent)
        self.numbers.append(number)

    def decide(self) -> None:
        """Give every entry a parent that is there, no entry itself as an ancestor, and every call a result."""
        for place in self._adopted:
            self._move(place, self._before(place), "it had no parent either")
        for place, parent in enumerate(self.parents):
            if parent is not None and parent not in self._places:
                self._move(place, self._before(place), f"its parent {parent} is not there")
        seen: dict[int, int] = {}
        for walk in range(len(self.parents)):
            above: int | None = walk
            trail: list[int] = []
            while above is not None and above not in seen:
                seen[above] = walk
                trail.append(above)
                above = self._above(above)
            if above is not None and seen[above] == walk:
                self._move(min(trail[trail.index(above) :]), None, "it was among its own ancestors")
        self._answer_calls()

    def _answer_calls(self) -> None:
        last: dict[int, str] = {}  # the place of a call -> the id of the result that is made for it
        for call in self._calls.settle(self._above)[0]:
            number, before = self.numbers[call.place], last.get(call.place, self.ids[call.place])
            while (made := self.new_id()) in self._places:
                pass
            last[call.place] = made
            self.added.setdefault(number, []).append(call.result_line(made, before))
            words = f"the call {shown(call.id)} is followed by {made} now, a result that says that there is none"
            self.changes.append((number, words))
        for place in range(len(self.parents)):
            above = self._above(place)
            if above in last:
                self.rewritten.setdefault(self.numbers[place], {})["parentId"] = last[above]

    def _before(self, place: int) -> str | None:
        return self.ids[place - 1] if place else None

    def _above(self, place: int) -> int | None:
        parent = self.parents[place]
        return None if parent is None else self._places[parent]

    def _move(self, place: int, parent: str | None, why: str) -> None:
        self.parents[place] = parent
        self.rewritten.setdefault(self.numbers[place], {})["parentId"] = parent
        where = "is a root now" if parent is None else f"follows {parent} now"
        self.changes.append((self.numbers[place], f"{self.ids[place]} {where}: {why}"))


def _copied(seams: TraceSeams, source: str, size: int, head: Entry, plan: _Plan) -> Iterator[bytes]:
    yield line_of(head)
    for number, (_, line, _ended) in enumerate(lines_of(seams, source, 0, size), 1):
        if number not in plan.dropped:
            changed = plan.rewritten.get(number)
            yield line.strip(BLANK) if changed is None else line_of({**(parse_line(line) or {}), **changed})
        yield from map(line_of, plan.added.get(number, ()))
