"""What the clients of a store saw: calls, answers and times, as data that can be written down and read again.

The history checker judges nothing but this, so that it can judge a simulated world, real processes and files alike. One
call is one JSON object on one line; a client that writes one object when it begins a call and another one when it has
the answer can be killed in between, and the half that is there counts as a call without an answer.

    begun --answer--> ok        it returned; ``result`` says what
      |     +-------> refused   nothing was stored: ``error`` has code and data
      |     +-------> unknown   cancelled, or E_BROKEN: it may have been stored, or not
      +-- killed ------------> unknown
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import attrs

from ...store import Durability, Json

CallKind = Literal["patch", "respond", "read", "transaction", "open", "close", "foreign"]
Ending = Literal["ok", "refused", "unknown"]


@attrs.frozen
class Read:
    """One look at memory: by a read call, or inside a transaction.

    Attributes:
      path: as it was asked for.
      projection: ``"value"`` or ``"keys"``.
      found: the value; for keys the object of keys and kinds. None where there was nothing.
      is_absent: whether there was nothing at the path.
    """

    path: str
    found: Any
    is_absent: bool = False
    projection: Literal["value", "keys"] = "value"


# One step of a transaction, in the order in which its function took them: a read, or the patches of one ``tx.patch``.
Step = Read | Json


@attrs.define
class Call:
    """One call of one client.

    Attributes:
      number: unique in the history; calls are named by it.
      process: the process that made it, by a name that a restarted process does not share (such as ``"p1.2"``).
      cwd, session: the session.
      kind: what was called. ``foreign`` is a writer that does not know our locks: ``patches`` then holds the scope's
        whole new value.
      patches: of a patch, by scope; of an answer ``{"session": {"response": text}}``.
      steps: of a transaction, as its last attempt took them; of a read its reads.
      request_id: unique for each call that changes memory, so that it can be found out what became of it.
      begun_s, ended_s: on one clock for all processes; ``ended_s`` None: no answer. "Before" means a smaller number:
        of equal times nobody knows which was first, so a simulated world must never give the same time twice.
      fresh: of a read, whether it followed other processes first.
      changed, seq, revision, transition_id: of the receipt.
      is_choice: of a transaction with an alternative; ``steps`` are then those of the function that came last, after
        what a function had read that retried before it.
      code: of the refusal.
      conflicts: of E_CONFLICT, as the error's data has them.
    """

    number: int
    process: str
    cwd: str
    session: str
    kind: CallKind
    begun_s: float
    patches: Json = attrs.field(factory=dict)
    steps: list[Step] = attrs.field(factory=list)
    request_id: str | None = None
    ended_s: float | None = None
    fresh: bool | None = None
    is_choice: bool | None = None
    ending: Ending = "unknown"
    changed: bool | None = None
    seq: int | None = None
    revision: str | None = None
    transition_id: str | None = None
    code: str | None = None
    conflicts: list[Json] = attrs.field(factory=list)

    def to_json(self) -> Json:
        """The line of this call; members that say nothing are left out."""
        document = {
            name: value for name, value in attrs.asdict(self, recurse=False).items() if value not in (None, [], {})
        }
        if self.steps:
            document["steps"] = [
                {"read": attrs.asdict(step)} if isinstance(step, Read) else {"patch": step} for step in self.steps
            ]
        return document


def call_from(document: Json) -> Call:
    """The inverse of ``Call.to_json``."""
    steps: list[Step] = [
        Read(**step["read"]) if "read" in step else step["patch"] for step in document.get("steps", [])
    ]
    return Call(**{**document, "steps": steps})


def joined(lines: Iterable[Json]) -> Iterator[Call]:
    """The calls of a log in which a later line of the same number completes an earlier one."""
    found: dict[int, Json] = {}
    for line in lines:
        found[line["number"]] = {**found.get(line["number"], {}), **line}
    return map(call_from, found.values())


@attrs.frozen
class Superseded:
    """A scope whose bytes gave way to those of a foreign writer, at this row of the journal (J6).

    Attributes:
      revision: that of the foreign files; None if nobody looked.
      lost_at_s: the power cut that took this row away again, if one did.
    """

    seq: int
    scope: str
    value: Json
    revision: int | None = None
    lost_at_s: float | None = None


@attrs.frozen
class FinalScope:
    """A scope as it was found at the end: through the library, and in the canonical files.

    Attributes:
      scope: its folder, ``""`` for global.
      value, revision: through the library, all six planes.
      file_value: rebuilt from the canonical files alone once everything was closed; None if nobody looked.
      file_problem: why the files can not be read, in words.
    """

    scope: str
    value: Json
    revision: int
    file_value: Json | None = None
    file_problem: str | None = None


@attrs.frozen
class PowerCut:
    """A moment at which all processes died and unsynced data may have gone.

    Attributes:
      at_s: when, on the clock of the calls.
      head: the newest row that was found when the machine was on again. Rows after it are gone, their numbers are
        given away again.
    """

    at_s: float
    head: int


@attrs.frozen
class Life:
    """A process: when it was there. ``level`` is how it opened the store."""

    process: str
    begun_s: float
    ended_s: float | None = None
    level: Durability = "power"


@attrs.define
class History:
    """Everything a checker may look at.

    Attributes:
      calls: in the order in which they began.
      outcomes: what the store said in the end of calls without an answer, by request id: the row, or None if it was
        never accepted. Calls with an answer may be in it too.
      superseded: foreign writes that won.
      final: every scope that was there when all was over.
      may_lose_tail: whether a power cut hit a store of level ``process``, which may take the newest rows away.
      cuts: power cuts, oldest first, if they are known one by one.
      lives: the processes, if they are known.
      initial: scopes that were there before the first call.
    """

    calls: list[Call] = attrs.field(factory=list)
    outcomes: dict[str, int | None] = attrs.field(factory=dict)
    superseded: list[Superseded] = attrs.field(factory=list)
    final: list[FinalScope] = attrs.field(factory=list)
    may_lose_tail: bool = False
    cuts: list[PowerCut] = attrs.field(factory=list)
    lives: list[Life] = attrs.field(factory=list)
    initial: list[FinalScope] = attrs.field(factory=list)


@attrs.frozen
class Violation:
    """A promise that was not kept.

    Attributes:
      rule: its name, such as ``"lost-write"``.
      message: what contradicts what, in a sentence.
      calls: the numbers of the smallest set of calls that can not all be true.
    """

    rule: str
    message: str
    calls: tuple[int, ...]
