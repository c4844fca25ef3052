"""What a conflict says: which read of a transaction no longer holds, and who changed it."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class ChangedBy:
    """The transition that changed what a transaction had read.

    Attributes:
      transition_id, seq: which one; its row in the journal.
      time_ms: when it was accepted, epoch milliseconds.
      cwd, session: the session that made it.
      request_id: of the call that made it, if it had one.
    """

    transition_id: str
    seq: int
    time_ms: int
    cwd: str
    session: str
    request_id: str | None = None


@attrs.frozen
class Conflict:
    """One outcome that a transaction saw and that is another one now.

    Attributes:
      path: what was read, as it was asked for.
      projection: ``"value"`` or ``"keys"``. ``"patch"``: not a read, but a patch of the transaction, which was accepted
        then and would be refused now, or the other way round; ``path`` is the place of the refusal.
      read, now: what was there then and what is there now; None where there was nothing. Of keys the object with
        ``meta`` and ``keys``; of a patch the code of its refusal, None if it was accepted.
      transition: the newest transition that changed it; None if its record is no longer retained, or if it was not
        a transition (files that another program wrote).
    """

    path: str
    projection: str
    read: Any
    now: Any
    transition: ChangedBy | None = None

    def to_json(self) -> dict[str, Any]:
        """As ``data["conflicts"]`` of the error has it. Shares the values."""
        transition = None if self.transition is None else attrs.asdict(self.transition)
        return {**attrs.asdict(self, recurse=False), "transition": transition}


def conflict_from(document: dict[str, Any]) -> Conflict:
    """The inverse of ``Conflict.to_json``; values that are not told are None."""
    transition = document["transition"]
    return Conflict(
        document["path"],
        document["projection"],
        document.get("read"),
        document.get("now"),
        None if transition is None else ChangedBy(**transition),
    )
