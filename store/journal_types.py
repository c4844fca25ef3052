"""What the journal keeps besides rows, and the Protocol that its real and its simulated form share (J1 to J6, J12)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal, Protocol

import attrs

from .algebra import Json, Lineage
from .ports import ProcessIdentity
from .rows import Durability, NewRow, Row

# Accepted requests whose outcome is remembered at least, the newest (Ours-12).
REQUESTS_KEPT: Final = 10_000

# As ``after`` of a view: the journal's facts without any of its rows.
NO_ROWS: Final = 2**63 - 1


class JournalBusyError(Exception):
    """SQLite's write lock is held by somebody else. Nothing was written; wait a little and ask again (J3)."""


@attrs.frozen
class Base:
    """What the journal knows of a scope's canonical files: their identity and what they contain (J5, J12)."""

    identity: Mapping[str, str]
    through: int
    floor: int
    # Sessions only: where the history begins, and who wrote the private scope last, at which row.
    lineage: Lineage | None = None
    last_writer: str | None = None
    last_seq: int = 0


@attrs.frozen
class FileMove:
    """One file of a prepared checkpoint: ``staged`` lies in ``staged/``; before and after are file identities."""

    scope: str
    name: str
    staged: str
    before: str
    after: str


@attrs.frozen
class CheckpointList:
    """A prepared checkpoint: everything a stranger needs to finish it (J5)."""

    through: int
    before: Mapping[str, Mapping[str, str]]
    after: Mapping[str, Base]
    moves: tuple[FileMove, ...]


@attrs.frozen
class JournalView:
    """One read transaction: what an opener or follower needs (J1, J5).

    ``rows`` are those after the number asked for. ``pruned_through`` above that number means that some are gone:
    reload from files and rows.
    """

    head: int
    position: int
    pruned_through: int
    checkpointed_through: int
    synced_through: int
    bases: Mapping[str, Base]
    prepared: CheckpointList | None
    rows: tuple[Row, ...]


@attrs.frozen
class Participant:
    """A runtime that has the store open. It holds the kernel lock on ``open/<token>`` for life (J8)."""

    token: str
    process: ProcessIdentity


@attrs.frozen
class PiLockRecord:
    """A lock of ours towards Pi: which file it is and for which process it stands (J8)."""

    device: int
    inode: int
    process: ProcessIdentity


Appended = Literal["appended", "moved", "busy"]


class Members(Protocol):
    """Who has the store open. Every change is one FULL transaction."""

    def participants(self) -> list[Participant]:
        """Everybody who joined and has not left or been found dead."""

    def set_participants(self, members: Sequence[Participant], share_with_pi: bool | None) -> None:
        """Replace the list of participants and the way the store is shared with Pi (None: nobody has it open)."""

    def share_with_pi(self) -> bool | None:
        """How the present participants opened the store; None if nobody has."""

    def pi_locks(self) -> list[PiLockRecord]:
        """The locks of ours that may be in place."""

    def set_pi_locks(self, records: Sequence[PiLockRecord]) -> None:
        """Replace the records of our locks. Durable before the lock itself is put in place (J8)."""

    def fact(self, name: str) -> int | None:
        """A single value by name (see the schema)."""

    def set_facts(self, **facts: int | None) -> None:
        """Replace single values."""


class JournalViews(Protocol):
    """What is needed to read scopes: a journal, or a look at one that opens nothing for writing (J10)."""

    def view(self, after: int | None, scopes: Collection[str] = ()) -> JournalView:
        """One consistent look. ``after`` None: rows that are not in the canonical files yet."""


class Journal(Protocol):
    """Append conditional on the head, rows since, checkpoint lists. Synchronous; an inner lock serialises the calls,
    so that any thread may make them.

    Methods that change something besides ``append`` run in one FULL transaction (J4, J5) and wait, with the pause
    given at opening, while SQLite is busy. Failures are StoreErrors: E_DISK where the old state is certain, E_BROKEN
    where it is not, E_CORRUPT for a damaged database.
    """

    @property
    def appended_bytes(self) -> int:
        """Bytes of text that this object has appended so far."""

    @property
    def members(self) -> Members:
        """Participants, locks towards Pi, single facts."""

    def append(self, rows: Sequence[NewRow], *, head: int) -> Appended:
        """Append all rows after ``head`` in one statement, or nothing: "moved" if the head is another one by now."""

    def view(self, after: int | None, scopes: Collection[str] = ()) -> JournalView:
        """One consistent look. ``after`` None: rows that are not in the canonical files yet."""

    def rows_since(self, seq: int, limit: int) -> list[Row]:
        """At most ``limit`` rows after ``seq``, oldest first. Quick: an event loop may call it."""

    def outcome_of(self, request_id: str) -> Json | None:
        """The receipt that an accepted call with this id got (receipts.py); None if none is remembered. Quick, too."""

    def sync(self) -> int:
        """Make everything appended so far survive power loss (J4). Returns the sequence it is certain up to."""

    def prepare(self, prepared: CheckpointList) -> None:
        """Store the list. From here the checkpoint will be finished by whoever comes (J5)."""

    def finish(self, prepared: CheckpointList) -> None:
        """Mark the list done and set the base of each of its scopes, in one transaction (J5)."""

    def rows_of(self, scope: str, after: int) -> list[Row]:
        """All rows after ``after`` with a part for this scope in force, oldest first."""

    def supersede(self, scope: str, base: Base, row: NewRow, *, head: int) -> bool:
        """Mark this scope's part of every row not in its files as superseded, set its base, add the row (J6).

        The base contains everything up to the added row. False, and nothing changed, if the head is another one by
        now: rows may have come that were not copied aside.
        """

    def changed_since(self, through: int) -> Mapping[str, int]:
        """The scopes whose files contain more than row ``through``, as far as this journal wrote or took them over,
        each with what its files contain."""

    def note_bases(self, bases: Mapping[str, Base]) -> None:
        """Remember what scopes' files are, where nothing was known. What is known stays."""

    def prune(self, keep_newest: int, keep_requests: int = REQUESTS_KEPT) -> int:
        """Delete rows that are in the files and not among the newest of any of their scopes. Returns how many.

        The same transaction keeps the receipts of the newest requests among all that were ever deleted (I2).
        """

    def log(self, limit: int) -> list[Row]:
        """The newest rows that changed memory, oldest first."""

    def log_of(self, scopes: Collection[str], limit: int, before: int | None = None) -> list[Row]:
        """The newest rows that changed memory of one of ``scopes``, below row ``before``; the newest first.

        Parts that gave way to foreign bytes count: they were accepted once.
        """

    def quick_check(self) -> list[str]:
        """What SQLite finds wrong; empty if nothing."""

    def size_bytes(self) -> int:
        """Bytes of the database and its log on disk."""

    def is_on_its_ground(self) -> bool:
        """Whether the files at the journal's paths are still those that were opened (J9).

        False too where that can not be found out: an append that succeeded must not end as E_DISK, "nothing written".
        """

    def close(self) -> None:
        """Close. Nothing is lost; in a forked child this only forgets the connection (J11)."""


OpenJournal = Callable[[Durability], Journal]
