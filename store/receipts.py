"""The answer to a call that changes memory."""

from __future__ import annotations

import attrs

from .algebra import Json, MissingDeletion, ScopeName


@attrs.frozen
class Receipt:
    """The answer to a call that changes memory.

    Attributes:
      changed: whether a transition was accepted.
      scopes: the scopes given, in the order global, cwd, session.
      step: accepted transitions in this session's life.
      revision: the vector of the three revisions, such as ``"g1c0s2"``.
      missing_deletions: authored deletions of what was not there.
      cascaded: read paths of what was deleted together with the intent that owned it.
      text: the acknowledgement for a model.
      transition_id: None if nothing changed.
      seq: the newest row of the journal this answer rests on.
    """

    changed: bool
    scopes: tuple[ScopeName, ...]
    step: int
    revision: str
    missing_deletions: tuple[MissingDeletion, ...] = ()
    cascaded: tuple[str, ...] = ()
    text: str = ""
    transition_id: str | None = None
    seq: int = 0

    def to_json(self) -> Json:
        """The result of ``patch_state`` as the tool protocol gives it."""
        return {
            "changed": self.changed,
            "scopes": list(self.scopes),
            "step": self.step,
            "revision": self.revision,
            "missing_deletions": [attrs.asdict(item) for item in self.missing_deletions],
            "cascaded": list(self.cascaded),
            "text": self.text,
        }


def receipt_row(receipt: Receipt) -> Json:
    """A receipt as the row of a call with a request id keeps it."""
    return {**receipt.to_json(), "transition_id": receipt.transition_id, "seq": receipt.seq}


def receipt_from(document: Json) -> Receipt:
    """The inverse of ``receipt_row``."""
    return Receipt(
        changed=document["changed"],
        scopes=tuple(document["scopes"]),
        step=document["step"],
        revision=document["revision"],
        missing_deletions=tuple(MissingDeletion(**item) for item in document["missing_deletions"]),
        cascaded=tuple(document["cascaded"]),
        text=document["text"],
        transition_id=document["transition_id"],
        seq=document["seq"],
    )
