"""Forks: a session that begins with another one's private memory as it is now (store 6.4).

Only the private scope is copied; global and the directory stay live for both. The child's history begins with its
origin: what its parent did before is in the copied records and at none of its offsets.
"""

from __future__ import annotations

from .algebra import StoreError, shown
from .documents import RunRecord
from .draft import Draft
from .image import fresh_lineage
from .layout import SessionAddress


def check_fork(parent: SessionAddress, child: SessionAddress) -> None:
    """Refuse a child that can not be one of this parent (6.4.4).

    Raises:
      StoreError: E_BRANCH.
    """
    if parent.cwd != child.cwd:
        raise StoreError("E_BRANCH", f"a fork stays in its directory {parent.cwd}; {child.cwd} is another one")
    if parent.session_id == child.session_id or parent.key == child.key:
        raise StoreError("E_BRANCH", f"session {shown(child.session_id)} can not be forked to itself: name another id")


def stage_fork(draft: Draft, parent: SessionAddress, child: SessionAddress) -> None:
    """Stage a child with the parent's present private memory, mode and bootstrap; step 0, no prompt (6.4.1, 6.4.2).

    Raises:
      StoreError: E_BRANCH if the child has memory or the parent has none; the reason why one of them can not be used.
    """
    check_fork(parent, child)
    source, target = draft.readable(parent)[2], draft.writable(child)
    if source.run is None or source.state is None:
        raise StoreError("E_BRANCH", f"session {shown(parent.session_id)} has no memory of its own to be forked")
    if target[2].run is not None or target[2].state is not None:
        raise StoreError(
            "E_BRANCH", f"session {shown(child.session_id)} has memory already: fork to an id that nobody has used"
        )
    draft.position += 1
    lineage = fresh_lineage(f"files:{draft.new_id()}", draft.position)
    run = RunRecord(source.run.mode, bootstrap=source.run.bootstrap)
    draft.add("fork", child, target, run=run, lineage=lineage, boundary=lineage.known[0], copied=source.state)
