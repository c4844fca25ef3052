"""Request ids as callers see them: what one may be, and what became of a call (Ours-12).

unseen     it was never staged: withdrawn in time, not sent, not arrived yet, or stopped by trouble of the store
refused    it was refused, by this process
accepted   its change is durable at the level of whoever accepted it; final
"""

from __future__ import annotations

from typing import Any, Final, Literal, final

import attrs

from ..actors import ActorRef, Commit, Wait, Waits
from ..store import CallError, Draft, Json, Receipt, StrataflowError, shown
from .call_arguments import is_text

REQUEST_ID_CHARS_MAX: Final = 200


@final
@attrs.frozen
class Outcome:
    """What became of a call with a request id.

    Attributes:
      state: ``"accepted"``, ``"refused"`` or ``"unseen"``.
      receipt: what the call returned or would have returned; None unless it was accepted.
      error: what the call raised or would have raised; None unless it was refused.
    """

    state: Literal["accepted", "refused", "unseen"]
    receipt: Receipt | None = None
    error: StrataflowError | None = None

    def to_json(self) -> Json:
        """The result of ``outcome`` as the tool protocol gives it."""
        document: Json = {"state": self.state}
        if self.receipt is not None:
            document["receipt"] = self.receipt.to_json()
        if self.error is not None:
            document["error"] = {"code": self.error.code, "message": self.error.message, "data": self.error.data}
        return document


def check_request_id(request_id: Any) -> None:
    """Refuse what can not name a call. None is the call that has no name.

    Raises:
      CallError: E_SHAPE.
    """
    if request_id is None:
        return
    if type(request_id) is not str or not 1 <= len(request_id) <= REQUEST_ID_CHARS_MAX or not is_text(request_id):
        text = f"request id {shown(request_id)} is not a text of 1 to {REQUEST_ID_CHARS_MAX} characters"
        raise CallError("E_SHAPE", text, pointer="/request_id")


async def ask_outcome(store: ActorRef, request_id: str, waits: Waits) -> Outcome:
    """What became of a call, once everything is decided that the store actor has begun with before."""
    check_request_id(request_id)
    if request_id is None:
        raise CallError("E_SHAPE", "a request id is needed: the text that was given with the call")

    def look(draft: Draft) -> Outcome:
        found = draft.requests.find(request_id)
        if isinstance(found, Receipt):
            return Outcome("accepted", receipt=found)
        return Outcome("unseen") if found is None else Outcome("refused", error=found)

    return await waits.ask(Wait("read"), store, Commit(look))
