"""Did the store keep what it acknowledged? Judged by what the clients saw, the journal's order and the files.

Nothing here is shared with the path that stores a patch: the state is put together from the canonical files by the
few lines below, and the order is that of the sequence numbers which the clients were given. For each place the last
acknowledged patch must have won, unless a later one did whose client never learned of it: a process that was killed
between asking and noting may have changed the store, and only for those is either outcome right.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from .demo_plan import places

Place = tuple[str, ...]
# The journal's rows as ``log --json`` tells them: sequence -> net records by scope.
Rows = Mapping[int, Mapping[str, Any]]


@attrs.define
class Claim:
    """One patch as its client saw it. ``seq`` None: asked for, never answered."""

    token: str
    session: str
    number: int
    places: tuple[Place, ...]
    seq: int | None = None


@attrs.frozen
class Verdict:
    """What became of all patches.

    Attributes:
      acknowledged: how many were; ``present`` are those of them that still stand somewhere in the state, all others
        were overwritten everywhere by later ones.
      unanswered: asked for, but the client died first; ``unanswered_kept`` of them are in the store all the same.
      faults: one line for each broken promise; empty if the store kept its word.
    """

    acknowledged: int
    present: int
    unanswered: int
    unanswered_kept: int
    faults: tuple[str, ...]


def read_claims(files: Iterable[Path]) -> list[Claim]:
    """The notes of all processes. A last line that was cut short by a kill never happened."""
    claims: dict[str, Claim] = {}
    for file in files:
        *lines, _cut = file.read_bytes().split(b"\n")
        for line in lines:
            note = json.loads(line)
            if note["event"] == "send":
                where = tuple(places(note["session"], note["patch"]))
                claims[note["token"]] = Claim(note["token"], note["session"], note["number"], where)
            else:
                claims[note["token"]].seq = note["seq"]
    return list(claims.values())


def read_state(folder: Path) -> dict[str, Any]:
    """The memory of one scope from its canonical files: the checkpoint, and every later record merged over it.

    Empty if there are none. Raises ValueError for a file that does not parse.
    """
    if not (folder / "checkpoint.json").exists():
        return {}
    state: dict[str, Any] = json.loads((folder / "checkpoint.json").read_bytes())
    for line in (folder / "patches.jsonl").read_bytes().splitlines():
        if line.strip():
            _merge(state, json.loads(line))
    return state


def _merge(state: dict[str, Any], record: Mapping[str, Any]) -> None:
    for key, value in record.items():
        if value is None:
            state.pop(key, None)
        elif isinstance(value, dict):
            below = state.get(key)
            if not isinstance(below, dict):
                below = state[key] = {}
            _merge(below, value)
        else:
            state[key] = value


def count_parsed(store: Path) -> int:
    """Parse every canonical file and return how many there are. Raises ValueError that names a bad one."""
    count = 0
    for file in sorted(store.rglob("*.json*")):
        if not {".strataflow", ".git"}.isdisjoint(file.parts):
            continue
        lines = [line for line in file.read_bytes().splitlines() if line.strip()]
        for text in lines if file.suffix == ".jsonl" else [file.read_bytes()]:
            try:
                json.loads(text)
            except ValueError as error:
                raise ValueError(f"{file}: {error}") from error
        count += 1
    return count


def judge(claims: Sequence[Claim], states: Mapping[str, Any], rows: Rows) -> Verdict:
    """Compare claims with the state.

    Args:
      states: the memory of each scope, by the first step of a place: ``global``, ``cwd``, a session's id.
      rows: what was seen of the journal; rows that were pruned before anybody looked may be absent.
    """
    by_token = {claim.token: claim for claim in claims}
    found_at = {claim.token: seq for seq, row in rows.items() for claim in _writers(row, by_token)}
    acknowledged = [claim for claim in claims if claim.seq is not None]
    faults = [*_order_faults(acknowledged, rows, found_at)]
    by_place: dict[Place, list[Claim]] = defaultdict(list)
    for claim in claims:
        for place in claim.places:
            by_place[place].append(claim)
    standing: set[str] = set()
    for place, writers in by_place.items():
        mark = _value_at(states, place)
        standing.add(str(mark))
        faults += _place_faults(place, mark, writers, by_token, found_at)
    unanswered = [claim for claim in claims if claim.seq is None]
    return Verdict(
        acknowledged=len(acknowledged),
        present=sum(claim.token in standing for claim in acknowledged),
        unanswered=len(unanswered),
        unanswered_kept=sum(claim.token in standing or claim.token in found_at for claim in unanswered),
        faults=tuple(faults),
    )


def _place_faults(
    place: Place, mark: Any, writers: Sequence[Claim], by_token: Mapping[str, Claim], found_at: Mapping[str, int]
) -> list[str]:
    answered = [claim for claim in writers if claim.seq is not None]
    last = max(answered, key=lambda claim: claim.seq or 0, default=None)
    winner = by_token.get(mark) if isinstance(mark, str) else None
    where = ".".join(place)
    if mark is None:
        return [f"{where}: the acknowledged {last.token!r} is gone"] if last else []
    if winner is None or winner not in writers:
        return [f"{where}: holds {str(mark)[:96]!r}, which nobody wrote there"]
    if last is None or winner is last:
        return []
    seq = winner.seq if winner.seq is not None else found_at.get(winner.token)
    if winner.seq is None and (seq is None or seq > (last.seq or 0)):
        return []  # its client died before it learned of the answer
    return [f"{where}: holds {winner.token!r} (row {seq}) although {last.token!r} (row {last.seq}) came later"]


def _order_faults(acknowledged: Sequence[Claim], rows: Rows, found_at: Mapping[str, int]) -> list[str]:
    """Each acknowledged patch has a row of its own, the one it was told of, and a session's rows are in its order."""
    faults = []
    taken: dict[int, Claim] = {}
    latest: dict[str, Claim] = {}
    for claim in sorted(acknowledged, key=lambda claim: claim.seq or 0):
        seq = claim.seq or 0
        if seq in taken:
            faults.append(f"{claim.token!r} and {taken[seq].token!r} were both told row {seq}")
        taken[seq] = claim
        if seq in rows and found_at.get(claim.token) != seq:
            faults.append(f"row {seq} does not hold {claim.token!r}, whose client was told so")
        before = latest.get(claim.session)
        if before is not None and before.number > claim.number:
            faults.append(f"{claim.token!r} came after {before.token!r}, which was asked for later")
        latest[claim.session] = claim
    return faults


def _writers(row: Mapping[str, Any], by_token: Mapping[str, Claim]) -> Iterable[Claim]:
    """The patch that a row's records come from."""
    marks = {mark for mark in _strings(row) if mark in by_token}
    return [by_token[mark] for mark in marks]


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, str):
        yield value


def _value_at(states: Mapping[str, Any], place: Place) -> Any:
    value: Any = states
    for key in place:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
