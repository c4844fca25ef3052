"""What a session's own log says of its memory: checkpoints and markers, and the policy that follows (store 6.3).

A host keeps a log of each session (its conversation). Two kinds of entries in it are ours. They hold no memory; they
tell which mode the session is in, whether a run is unfinished, and why writing is paused::

    {"type": "custom", "customType": name, "data": {…}}
    state-flow-snapshot      {boundary, mode, step, bootstrap?, specification?}
                             {"mode": "passive" | "off"}, before any memory
    state-flow-passive-stop  {owner, at, from, preserveContext, mode,
                              persistenceError, memoryDeferred, forkPending, parent, reset}

Everything else in the log is the host's. Of it only ``{"type": "message", "message": {"role": …}}`` is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from .algebra import Json
from .documents import MODES, STEP_MAX, Mode, is_count

CHECKPOINT_ENTRY = "state-flow-snapshot"
MARKER_ENTRY = "state-flow-passive-stop"
_TURNS = ("user", "assistant", "toolResult")
_CHECKPOINT_KEYS = frozenset({"boundary", "mode", "enabled", "step", "bootstrap", "specification"})


class HostEntries(Protocol):
    """A session's log, as far as memory needs it. Both methods are quick; they are called on the event loop."""

    def branch(self) -> Sequence[Mapping[str, Any]]:
        """The entries of the selected branch, oldest first."""

    def append(self, custom_type: str, data: Json) -> None:
        """Add an entry of ours at the end of the branch."""


@attrs.frozen
class HostPolicy:
    """What the log says.

    Attributes:
      mode: recorded; None if nothing is, or nothing can be used.
      specification, bootstrap, step, boundary: of the newest usable checkpoint.
      is_new: nobody has said anything yet and no mode is recorded (store 6.2.1).
      is_unavailable: there are entries of ours and none can be used.
      skipped: malformed checkpoints that were passed over.
      fence: why writing is paused.
      left_active_at: when active was left, epoch milliseconds, if that boundary is retained.
      keeps_context: whether all messages before that boundary stay.
      is_fork_pending: the memory of ``fork_parent`` is still to be copied.
      has_conversation: whether there are turns; ``has_news``: since the newest usable checkpoint.
    """

    mode: Mode | None = None
    specification: str | None = None
    bootstrap: bool = False
    step: int = 0
    boundary: str | None = None
    is_new: bool = True
    is_unavailable: bool = False
    skipped: int = 0
    fence: str | None = None
    left_active_at: float | None = None
    keeps_context: bool = False
    is_fork_pending: bool = False
    fork_parent: str | None = None
    has_conversation: bool = False
    has_news: bool = False


def checkpoint_data(
    boundary: str | None, mode: Mode, step: int = 0, *, bootstrap: bool = False, specification: str | None = None
) -> Json:
    """The data of a checkpoint entry (store 6.3.1). Without a boundary there is no memory yet."""
    if boundary is None:
        return {"mode": mode}
    data: Json = {"boundary": boundary, "mode": mode, "step": step}
    if bootstrap:
        data["bootstrap"] = True
    if specification is not None:
        data["specification"] = specification
    return data


def read_policy(branch: Sequence[Mapping[str, Any]], session_id: str, inactive: Mode) -> HostPolicy:
    """What the entries of a branch say of a session. ``inactive``: what entries of old forms mean (store 7.4)."""
    found, at, skipped, count, is_stopped = _newest_checkpoint(branch, inactive)
    turns = [index for index, entry in enumerate(branch) if _is_turn(entry)]
    policy = HostPolicy(
        is_new=not turns and not count,
        is_unavailable=found is None and (count > 0 or is_stopped),
        skipped=skipped,
        has_conversation=bool(turns),
        has_news=bool(turns) and turns[-1] > at,
        **({} if found is None else found),
    )
    return _with_markers(policy, branch, session_id, at)


def _newest_checkpoint(
    branch: Sequence[Mapping[str, Any]], inactive: Mode
) -> tuple[dict[str, Any] | None, int, int, int, bool]:
    """The newest usable one and its place; how many were skipped and how many there are; whether the search ended."""
    count = sum(_data_of(entry, CHECKPOINT_ENTRY) is not None for entry in branch)
    skipped = 0
    for index in range(len(branch) - 1, -1, -1):
        data = _data_of(branch[index], CHECKPOINT_ENTRY)
        if data is None:
            continue
        if "revision" in data:
            return None, -1, skipped, count, True  # an unsupported form: what is older must not be taken for the truth
        found = _checkpoint(data, inactive)
        if found is not None:
            return found, index, skipped, count, False
        skipped += 1
    return None, -1, skipped, count, False


def _checkpoint(data: Json, inactive: Mode) -> dict[str, Any] | None:
    if data == {"disabled": True}:
        return {"mode": inactive}
    if not data.keys() <= _CHECKPOINT_KEYS or ("mode" in data) == ("enabled" in data):
        return None
    enabled = data.get("enabled")
    mode = data.get("mode", "active" if enabled is True else inactive if enabled is False else None)
    if type(mode) is not str or mode not in MODES:
        return None
    if data.keys() == {"mode"}:
        return None if mode == "active" else {"mode": mode}
    boundary, specification = data.get("boundary"), data.get("specification")
    is_fine = (
        type(boundary) is str
        and bool(boundary.strip())
        and is_count(data.get("step"), most=STEP_MAX)
        and data.get("bootstrap", True) is True
        and (specification is None or type(specification) is str)
    )
    if not is_fine:
        return None
    bootstrap = "bootstrap" in data
    return {
        "mode": mode,
        "boundary": boundary,
        "step": data["step"],
        "bootstrap": bootstrap,
        "specification": specification,
    }


def _with_markers(
    policy: HostPolicy, branch: Sequence[Mapping[str, Any]], session_id: str, checkpoint_at: int
) -> HostPolicy:
    """The policy after the markers, oldest first; only the session's own count for more than a boundary (6.3.4)."""
    for index, entry in enumerate(branch):
        data = _data_of(entry, MARKER_ENTRY)
        if data is None:
            continue
        owner = data.get("owner")
        if owner not in (None, session_id):
            continue
        if data.get("reset") is True:
            policy = attrs.evolve(policy, left_active_at=None, keeps_context=False, fence=None, is_fork_pending=False)
            continue
        time = data.get("at")
        if data.get("from") == "active" and (type(time) is int or type(time) is float):
            keeps = data.get("preserveContext") is True
            policy = attrs.evolve(policy, left_active_at=float(time), keeps_context=keeps)
        if owner == session_id:
            policy = attrs.evolve(policy, is_new=False, **_own_marker(data, is_newer=index > checkpoint_at))
    return policy


def _own_marker(data: Json, *, is_newer: bool) -> dict[str, Any]:
    """What a marker of the session's own says; a later checkpoint supersedes it."""
    said: dict[str, Any] = {}
    if is_newer:
        error, mode = data.get("persistenceError"), data.get("mode")
        if type(error) is str:
            said["fence"] = error
        if type(mode) is str and mode in ("passive", "off"):
            said |= {"mode": mode, "is_unavailable": False}
        parent = data.get("parent")
        said["is_fork_pending"] = data.get("forkPending") is True
        said["fork_parent"] = parent if type(parent) is str else None
    return said


def _data_of(entry: Mapping[str, Any], custom_type: str) -> Json | None:
    if entry.get("type") != "custom" or entry.get("customType") != custom_type:
        return None
    data = entry.get("data")
    return data if type(data) is dict else {"malformed": data}


def _is_turn(entry: Mapping[str, Any]) -> bool:
    message = entry.get("message")
    return entry.get("type") == "message" and isinstance(message, Mapping) and message.get("role") in _TURNS
