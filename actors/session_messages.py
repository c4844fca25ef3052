"""What the session actor is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs

from ..store import Mode, Receipt
from ..store.trace import TraceTree
from .actor import Request
from .session_cell import Choice
from .tree_actor import TreeAnswer
from .waits import Wait


def always() -> None:
    """Every asker may go on."""


@final
@attrs.frozen
class SelectMode(Request[Mode]):
    """Carry out a choice of a mode. The answer is the mode that holds afterwards, which may be that of a later choice.

    ``choice``: None begins one. ``admit``: as for ``AcceptResponse``. ``is_told``: nobody waits for the answer.
    """

    mode: Mode
    admit: Callable[[], None] = always
    choice: Choice | None = None
    is_told: bool = False


@final
@attrs.frozen
class AcceptResponse(Request[Receipt]):
    """End the current run, or an implicit one, with this answer (store 3.4), unless ``request_id`` was used before.

    ``admit`` is called when the answer is staged; it may raise instead, and then nothing is stored. ``wait``: to be
    withdrawn by, from outside. ``run``: the run that it ends.
    """

    text: str
    admit: Callable[[], None] = always
    request_id: str | None = None
    wait: Wait = attrs.field(factory=lambda: Wait("answer"))
    run: object | None = None


@final
@attrs.frozen
class MoveTree(Request[TreeAnswer]):
    """Let the session's tree go to another branch, and memory follow. The answer is what ``call`` returns or raises."""

    call: Callable[[TraceTree], Any]
