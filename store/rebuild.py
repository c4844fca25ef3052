"""``strataflow doctor --rebuild``: set a damaged journal aside and start from the canonical files (Ours-1, J11).

    ALONE -> COPIED ASIDE -> LIST FINISHED -> ROWS KEPT -> REMOVED
      |           |                |              |
      +-----------+----------------+--------------+--> stopped here, do it again: the originals are still there

Invariants:
  B1  Nothing is removed before a synced copy of it lies in ``aside/``.
  B2  Every row that can be read and is not in the canonical files is in ``superseded/`` before the database goes.
  B3  The ``-wal`` goes last: a database without its log would be an older one, while SQLite removes a log whose
      database is new.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .algebra import Json, StoreError
from .alone import alone
from .findings import counted
from .foreign import Stamp, write_aside
from .journal_inspection import JournalFacts
from .journal_reader import JournalLook
from .membership import Ground
from .pi_lock import look_at
from .renames import carry_out
from .rows import Row

_DATABASE, _LOG = "journal.db", "journal.db-wal"
_FILES = (_DATABASE, _LOG, "journal.db-shm", "journal.db-journal")


@attrs.frozen
class RebuildReport:
    """What rebuilding did.

    Attributes:
      aside: the folder with the copies; None if there was no journal.
      kept: the file with the rows that are nowhere else; None if there were none.
      rows_kept: how many. ``rows_unreadable``: how many could not be read, as far as that can be told.
      finished: scopes whose prepared checkpoint was finished. ``lost``: those that others had changed.
      cause: why nothing of the journal could be read; "" if it could.
      is_pi_lock_removed: whether a lock of ours towards Pi was taken away with it.
    """

    aside: str | None = None
    kept: str | None = None
    rows_kept: int = 0
    rows_unreadable: int = 0
    finished: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    cause: str = ""
    is_pi_lock_removed: bool = False

    def to_json(self) -> Json:
        """The report as one object."""
        return attrs.asdict(self)

    def lines(self) -> list[str]:
        """The report for a person."""
        if self.aside is None:
            return ["there is no journal; the canonical files are the whole truth"]
        lines = [f"{self.aside}: the old journal"]
        if self.cause:
            lines.append(f"nothing of it could be read: {self.cause}")
        if self.kept:
            lines.append(f"{self.kept}: {counted(self.rows_kept, 'change')} that the canonical files do not hold")
        if self.rows_unreadable:
            lines.append(f"{counted(self.rows_unreadable, 'row')} could not be read")
        lines += [f"{scope or 'global'}: its checkpoint was finished" for scope in self.finished]
        lines += [f"{scope or 'global'}: was changed by others; their files were left" for scope in self.lost]
        if self.is_pi_lock_removed:
            lines.append("our lock towards Pi was removed")
        return lines


def rebuild(ground: Ground, journal: JournalLook, stamp: Stamp) -> RebuildReport:
    """Keep the journal aside and remove it; the next to open the store begins a new one. Blocking.

    Args:
      journal: a reader of the store's journal.
      stamp: the present, and a fresh id.

    Raises:
      StoreError: E_LOCK or E_BUSY if the store is in use, E_UNSUPPORTED for a journal of a newer program, E_DISK.
        Nothing is removed then; do it again when the cause is gone.
    """
    if ground.disk.stat(ground.layout.private()) is None:
        return RebuildReport()
    with alone(ground, "rebuilding"):
        return _rebuild(ground, journal, stamp)


def _rebuild(ground: Ground, journal: JournalLook, stamp: Stamp) -> RebuildReport:
    disk, layout = ground.disk, ground.layout
    present = [name for name in _FILES if disk.stat(layout.private(name)) is not None]
    staged = [f"staged/{name}" for name in disk.list(layout.private("staged")) or ()]
    if not present:
        return RebuildReport()
    facts, cause = None, ""
    try:
        facts = journal.facts()
    except StoreError as error:
        if error.code not in ("E_CORRUPT", "E_DISK"):
            raise
        cause = error.message
    aside = _copy_aside(ground, [*present, *staged], f"{stamp.time_ms}-{stamp.new_id}")  # B1
    report = RebuildReport(aside=aside, cause=cause)
    if facts is not None:
        report = _saved(ground, facts, report, stamp)
    _remove(ground, [*staged, *present])
    for token in disk.list(layout.private("open")) or ():
        disk.unlink(layout.private("open", token))
    return report


def _copy_aside(ground: Ground, names: Sequence[str], folder_name: str) -> str:
    disk, layout = ground.disk, ground.layout
    target = layout.private("aside", folder_name)
    for folder in (layout.private("aside"), target, f"{target}/staged"):
        disk.make_folder(folder)
    for name in names:
        data = disk.read(layout.private(name))
        if data is not None:
            disk.write_new(f"{target}/{name}", data)
            disk.sync_file(f"{target}/{name}")
    for folder in (f"{target}/staged", target, layout.private("aside"), layout.private()):
        disk.sync_folder(folder)
    return target


def _saved(ground: Ground, facts: JournalFacts, report: RebuildReport, stamp: Stamp) -> RebuildReport:
    """Bring what the journal still says to where it can be found without it. (B2)"""
    through = {scope: base.through for scope, base in facts.bases.items()}
    lost: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    if facts.prepared is not None:
        lost = tuple(sorted(carry_out(ground.disk, ground.layout, facts.prepared).left_out))
        finished = tuple(scope for scope in facts.prepared.after if scope not in lost)
        through |= {scope: facts.prepared.after[scope].through for scope in finished}
    rows = [row for row in facts.rows if _is_outside(row, through)]
    return attrs.evolve(
        report,
        kept=write_aside(ground.disk, ground.layout, rows, None, stamp),
        rows_kept=len(rows),
        rows_unreadable=facts.unreadable,
        finished=finished,
        lost=lost,
        is_pi_lock_removed=_free_pi(ground, facts),
    )


def _is_outside(row: Row, through: dict[str, int]) -> bool:
    return any(row.seq > through.get(scope, 0) for scope in row.touches())


def _free_pi(ground: Ground, facts: JournalFacts) -> bool:
    """Our own lock goes with the records that prove it ours; anybody else's stays."""
    try:
        state = look_at(ground.disk, ground.layout, facts.pi_locks, ground.table)
    except StoreError:
        return False
    if state.kind != "ours":
        return False
    ground.disk.unlink(ground.layout.pi_lock)
    ground.disk.sync_folder(ground.layout.root)
    return True


def _remove(ground: Ground, names: Sequence[str]) -> None:
    disk, layout = ground.disk, ground.layout
    for name in names:
        if name != _LOG:
            disk.unlink(layout.private(name))
    disk.sync_folder(layout.private())
    if disk.unlink(layout.private(_LOG)):  # B3
        disk.sync_folder(layout.private())
