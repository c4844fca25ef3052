"""The journal as ``doctor`` checks it: SQLite's own check, the sequence, the prepared list, what was set aside."""

from __future__ import annotations

from collections.abc import Iterator

from .algebra import CallError
from .codec import identity, parse_strict
from .findings import Finding, counted, summary
from .journal_inspection import JournalFacts
from .layout import Layout
from .ports import Disk


def check_journal(disk: Disk, layout: Layout, facts: JournalFacts | None) -> Iterator[Finding]:
    """Everything that can be said without the canonical files."""
    path = layout.private("journal.db")
    if facts is None:
        yield Finding("ok", "journal", path, "there is none; the canonical files are the whole truth")
        return
    words = f"is sound, {counted(len(facts.rows), 'row')} up to {facts.head}"
    yield from summary("journal", path, words, _soundness(path, facts))
    waiting = sum(bool(row.touches()) for row in facts.rows if row.seq > facts.fact("checkpointed_through"))
    if waiting:
        words = f"{counted(waiting, 'change')} wait for the next checkpoint; nothing is missing"
        yield Finding("note", "rows-waiting", path, words)
    stat = disk.stat(path)
    ground = (facts.facts.get("device"), facts.facts.get("inode"))
    if stat is not None and ground != (None, None) and ground != (stat.device, stat.inode):
        yield Finding("note", "copied-store", path, "the store was copied or moved here; opening it notes that")
    yield from _prepared(disk, layout, facts)


def _soundness(path: str, facts: JournalFacts) -> Iterator[Finding]:
    remedy = "`strataflow doctor --rebuild` keeps it aside and starts from the canonical files"
    for problem in facts.problems:
        yield Finding("problem", "journal-damaged", path, f"{problem}; {remedy}")
    if facts.unreadable:
        words = f"{counted(facts.unreadable, 'row')} can not be read; {remedy}"
        yield Finding("problem", "rows-unreadable", path, words)
    pruned, done, synced = (facts.fact(f"{name}_through") for name in ("pruned", "checkpointed", "synced"))
    kept = [row.seq for row in facts.rows if row.seq > pruned]
    missing = facts.head - pruned - len(kept) if kept else 0
    if missing > 0 and not facts.unreadable:
        yield Finding("problem", "sequence-gap", path, f"{counted(missing, 'row')} after {pruned} are gone; {remedy}")
    through = [base.through for base in facts.bases.values()]
    if max([pruned, done, synced, *through]) > facts.head or pruned > done:
        words = f"its counters (pruned {pruned}, checkpointed {done}) do not fit its newest row {facts.head}; {remedy}"
        yield Finding("problem", "counters", path, words)
    positions = [row.content.position for row in facts.rows]
    ids = [row.content.transition_id for row in facts.rows if row.content.transition_id is not None]
    requests = [row.content.request_id for row in facts.rows if row.content.request_id is not None]
    if positions != sorted(positions) or any(len(set(found)) != len(found) for found in (ids, requests)):
        yield Finding("problem", "row-order", path, f"its rows contradict each other in order or id; {remedy}")


def _prepared(disk: Disk, layout: Layout, facts: JournalFacts) -> Iterator[Finding]:
    named = {move.staged for move in facts.prepared.moves} if facts.prepared else set()
    folder = layout.private("staged")
    stray = [name for name in disk.list(folder) or () if name not in named]
    if stray:
        words = f"{counted(len(stray), 'file')} of an unfinished checkpoint; the next one removes them"
        yield Finding("note", "staged-left", folder, words)
    if facts.prepared is None:
        return
    words = f"a checkpoint of {counted(len(named), 'file')} is prepared; the next one to open the store finishes it"
    yield Finding("note", "checkpoint-prepared", layout.private("journal.db"), words)
    for move in facts.prepared.moves:
        target = layout.file(move.scope, move.name)
        if identity(disk.read(target)) == move.before and disk.stat(layout.private("staged", move.staged)) is None:
            words = f"its staged copy {move.staged} is gone; the scope counts as changed by others"
            yield Finding("problem", "staged-missing", target, words)


def check_kept_aside(disk: Disk, layout: Layout) -> Iterator[Finding]:
    """What gave way to files of others, and what rebuilding kept (J6, J11)."""
    folder = layout.private("superseded")
    for name in disk.list(folder) or ():
        path = f"{folder}/{name}"
        yield from _kept(path, disk.read(path) or b"")
    folder = layout.private("aside")
    for name in disk.list(folder) or ():
        yield Finding("note", "kept-aside", f"{folder}/{name}", "an old journal; remove it when nobody needs it")


def _kept(path: str, data: bytes) -> Iterator[Finding]:
    lines = data.splitlines()
    try:
        for line in lines:
            parse_strict(line)
    except CallError as error:
        yield Finding("warning", "superseded", path, f"holds a line that can not be read: {error.message}")
        return
    words = f"{counted(len(lines), 'change')} that gave way to files written by others; nothing else holds them"
    yield Finding("note", "superseded", path, words)
