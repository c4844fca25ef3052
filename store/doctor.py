"""``strataflow doctor``: everything that can be said of a store by looking, and nothing changed (J10).

Files, journal and locks are looked at one after another while others may work; a finding that comes and goes with a
running checkpoint is repeated by ``load`` until it rests, or reported as busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .algebra import StrataflowError
from .doctor_files import check_ground, check_settings, walk
from .doctor_journal import check_journal, check_kept_aside
from .doctor_locks import LockHolder, check_locks
from .doctor_scopes import check_scopes
from .findings import Diagnosis, Finding, refusal
from .journal_inspection import JournalFacts
from .journal_reader import JournalLook, NoJournal
from .layout import KERNEL_LOCKS, PRIVATE_FOLDER
from .lock import lock_holder_pid
from .membership import Ground
from .repository.files import BACKUP_FOLDER, BACKUP_NOTE

_ROUNDS_MAX = 5
_FOLDERS = ("open", "staged", "superseded", "aside", BACKUP_FOLDER)
_FILES = (*KERNEL_LOCKS, BACKUP_NOTE, *".gitignore journal.db journal.db-wal journal.db-shm journal.db-journal".split())
_PRIVATE_NAMES = frozenset((*_FILES, *_FOLDERS))


def diagnose(ground: Ground, journal: JournalLook, holder: LockHolder = lock_holder_pid) -> Diagnosis:
    """Look at one store. Blocking. What can not be read is a finding, never an exception.

    Args:
      journal: a reader of the store's journal.
      holder: tells which process holds a kernel lock.
    """
    found: dict[tuple[str, str], Finding] = {}
    for finding in _findings(ground, journal, holder):
        # The walk and each scope below may meet the same trouble; it is told once.
        found.setdefault((finding.path, finding.words), finding)
    return Diagnosis(ground.layout.root, tuple(found.values()))


def _findings(ground: Ground, journal: JournalLook, holder: LockHolder) -> Iterator[Finding]:
    disk, layout = ground.disk, ground.layout
    try:
        root = disk.stat(layout.root)
    except StrataflowError as error:
        yield refusal(error, layout.root)
        return
    if root is None:
        yield Finding("ok", "store", layout.root, "there is none yet")
        return
    if root.kind != "folder":
        yield Finding("problem", "wrong-kind", layout.root, f"is a {root.kind} where a folder should be; move it away")
        return
    yield from _guarded(layout.root, lambda: check_ground(disk, layout))
    yield from _guarded(layout.config, lambda: check_settings(disk, layout))
    tree = walk(disk, layout)
    yield from tree.findings
    facts: JournalFacts | None = None
    try:
        facts, findings = _at_rest(ground, journal, holder)
    except StrataflowError as error:
        yield refusal(error, layout.private("journal.db"))
        journal = NoJournal()
        findings = list(_guarded(layout.private(), lambda: check_locks(ground, None, holder)))
    yield from findings
    yield from _guarded(layout.root, lambda: check_scopes(disk, layout, journal, facts, tree.scopes))
    yield from _guarded(layout.private(), lambda: _private(ground))
    yield from _guarded(layout.private(), lambda: check_kept_aside(disk, layout))


def _at_rest(ground: Ground, journal: JournalLook, holder: LockHolder) -> tuple[JournalFacts | None, list[Finding]]:
    """What journal and locks say of each other. Bad news counts only if the journal says the same before and after."""
    facts = journal.facts()
    for _ in range(_ROUNDS_MAX):
        findings = _of_moment(ground, facts, holder)
        if all(finding.severity in ("ok", "note") for finding in findings):
            break
        seen, facts = facts, journal.facts()
        if _members(facts) == _members(seen):
            break
    return facts, findings


def _of_moment(ground: Ground, facts: JournalFacts | None, holder: LockHolder) -> list[Finding]:
    path = ground.layout.private("journal.db")
    return [
        *_guarded(path, lambda: check_journal(ground.disk, ground.layout, facts)),
        *_guarded(ground.layout.private(), lambda: check_locks(ground, facts, holder)),
    ]


def _members(facts: JournalFacts | None) -> tuple[object, ...]:
    return (facts.participants, facts.pi_locks, facts.prepared) if facts else ()


def _private(ground: Ground) -> Iterator[Finding]:
    for name in ground.disk.list(ground.layout.private()) or ():
        if name not in _PRIVATE_NAMES and not name.startswith(("pi.lock.", f"{BACKUP_NOTE}.")):
            yield Finding("note", "unknown-name", ground.layout.private(name), f"is not part of {PRIVATE_FOLDER}")


def _guarded(path: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of one check up to where it fails, and why."""
    try:
        yield from check()
    except StrataflowError as error:
        yield refusal(error, path)
