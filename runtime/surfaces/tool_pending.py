"""A request of the tool host that has no answer yet.

Where it is (only ``Pending`` moves it)::

    WAITING --staged--> ADMITTED --> answered
       |
       +--withdraw----> WITHDRAWN --> answered (E_ABORTED, E_BUSY)

It waits for its turn in its session, for the store to be opened, or for another process. Until its change is staged
it can be withdrawn, and then certainly nothing was stored. From there it is finished, whoever asks otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import final

import attrs
import trio

from .. import StrataflowError
from .tool_request import ToolRequest


class Stage(enum.Enum):
    """Where a request is; see the drawing."""

    WAITING = "waiting"
    ADMITTED = "admitted"
    WITHDRAWN = "withdrawn"


@final
@attrs.define(eq=False)
class Pending:
    """A request without an answer yet."""

    request: ToolRequest
    size: int
    key: str
    note_progress: Callable[[], None]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    stage: Stage = Stage.WAITING
    is_begun: bool = False
    refusal: StrataflowError | None = None

    def admit(self) -> None:
        """From now on it is finished. Raises the reason if it was withdrawn before. (Q3)"""
        if self.refusal is not None:
            raise self.refusal
        self.stage = Stage.ADMITTED
        self.note_progress()

    def withdraw(self, reason: StrataflowError) -> bool:
        """Withdraw it if that is still possible. Whether it is withdrawn now."""
        if self.stage is Stage.WAITING:
            self.stage, self.refusal = Stage.WITHDRAWN, reason
            self.scope.cancel()
        return self.stage is Stage.WITHDRAWN
