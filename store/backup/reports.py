"""What backups tell: of one attempt, of one push, and of the repository over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import attrs

from .redaction import printable

WARNING_CHARS_MAX = 220


@final
@attrs.frozen
class BackupReport:
    """What one backup did.

    Attributes:
      commit: the commit that was made; None: everything was in the branch already.
      branch: the branch, without ``refs/heads/``.
      files: how many files the commit changes.
      head: the commit that the branch is at now; None while it has none.
      blocked: scopes whose files could not be written for this backup, with the cause: they are in it as they were.
      duration_s: how long it took, in seconds, with its wait for the locks.
    """

    commit: str | None
    branch: str
    files: int
    head: str | None
    blocked: Mapping[str, str]
    duration_s: float


PushOutcome = Literal["pushed", "nowhere", "skipped", "failed", "cancelled"]


@final
@attrs.frozen
class PushReport:
    """How a push ended.

    Attributes:
      outcome: ``pushed``; ``nowhere``, the branch has no remote; ``skipped``, another process pushes; ``failed``;
        ``cancelled`` by off, by closing, or by the end of the runtime.
      commit: what was to be pushed.
      remote: where to, as the configuration names it; empty for nowhere. Secrets are redacted.
      error: what went wrong, redacted; empty if nothing.
    """

    outcome: PushOutcome
    commit: str
    remote: str = ""
    error: str = ""


@final
@attrs.frozen
class Happening:
    """Something that happened to the backups of a store: when, in Unix milliseconds, and what."""

    time_ms: int
    what: str
    detail: str = ""


@final
@attrs.frozen
class BackupRecord:
    """What is remembered from one backup to the next, by whatever process, in ``.strataflow/backup.json``.

    It is a note, not the truth: lost or old, it costs a complete look at the files.

    Attributes:
      commit: the commit of the last backup: the files as of journal row ``through`` are in it.
      journal: which journal that row is of.
      seen: the newest row that was accepted then; whatever comes after it makes a backup due.
      complete_ms: when all files were looked at last.
      moving: the commit that the branch is just being moved to. If it still stands here later, its maker has died, and
        the user's index may not have been told of it.
    """

    commit: str | None = None
    through: int = 0
    journal: str = ""
    seen: int = 0
    complete_ms: int = 0
    last_commit: Happening | None = None
    last_push: Happening | None = None
    last_failure: Happening | None = None
    moving: str | None = None

    def to_json(self) -> dict[str, Any]:
        """For the file."""
        return attrs.asdict(self)


def record_from(document: Any) -> BackupRecord:
    """The inverse of ``to_json``; an empty record for anything else."""
    try:
        happenings = {
            name: None if document[name] is None else Happening(**document[name])
            for name in ("last_commit", "last_push", "last_failure")
        }
        return BackupRecord(
            document["commit"],
            int(document["through"]),
            str(document["journal"]),
            int(document["seen"]),
            int(document["complete_ms"]),
            **happenings,
            moving=document.get("moving"),
        )
    except (TypeError, KeyError, ValueError):
        return BackupRecord()


@final
@attrs.frozen
class BackupStatus:
    """How the backups of a store are.

    Attributes:
      has_repository: whether the store is a repository at all.
      is_due: whether something was accepted that the last backup does not hold.
      record: what happened last.
      is_pushing: whether a push of this runtime is under way.
    """

    has_repository: bool
    is_due: bool
    record: BackupRecord
    is_pushing: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain data: times are Unix milliseconds."""
        record = self.record
        return {
            "repository": self.has_repository,
            "due": self.is_due,
            "pushing": self.is_pushing,
            "last_commit": attrs.asdict(record.last_commit) if record.last_commit else None,
            "last_push": attrs.asdict(record.last_push) if record.last_push else None,
            "last_failure": attrs.asdict(record.last_failure) if record.last_failure else None,
        }


def warning(text: str) -> str:
    """One line of at most 220 characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= WARNING_CHARS_MAX else line[: WARNING_CHARS_MAX - 1] + "…"
