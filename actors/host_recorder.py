"""What a session writes to its host's log when something was accepted or chosen (store 6.3).

A log that can not be written changes nothing that was accepted: it is reported, and never tried again (L31).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import attrs

from ..store import (
    CHECKPOINT_ENTRY,
    MARKER_ENTRY,
    HostEntries,
    HostPolicy,
    Json,
    Mode,
    RunRecord,
    checkpoint_data,
    read_policy,
)


@final
@attrs.define(eq=False)
class HostRecorder:
    """Of one session.

    Attributes:
      entries: the session's log; None if nobody keeps one.
      now_ms: the wall clock.
      report: takes an event by name; must not raise.
    """

    session_id: str
    entries: HostEntries | None = None
    now_ms: Callable[[], int] = lambda: 0
    report: Callable[..., None] = lambda name, **data: None
    _last: Json | None = attrs.field(default=None, init=False)

    def policy(self, inactive: Mode) -> HostPolicy | None:
        """What the log says; None if there is none.

        Raises:
          StrataflowError, OSError: whatever the log raises.
        """
        return None if self.entries is None else read_policy(self.entries.branch(), self.session_id, inactive)

    def checkpoint(self, boundary: str | None, mode: Mode, run: RunRecord | None) -> None:
        """Something was accepted: where the session stands now. The same again is not written twice."""
        if run is None or boundary is None:
            data = checkpoint_data(None, mode) if mode != "active" else None
        else:
            data = checkpoint_data(boundary, mode, run.step, bootstrap=run.bootstrap, specification=run.specification)
        if data is not None and data != self._last:
            self._append(CHECKPOINT_ENTRY, data)
            self._last = data

    def marker(self, **data: Any) -> None:
        """A choice that no checkpoint can tell: its owner and time are added."""
        self._append(MARKER_ENTRY, {"owner": self.session_id, "at": self.now_ms(), **data})
        self._last = None

    def forget_last(self) -> None:
        """The log is on another branch: what was written last does not stand there."""
        self._last = None

    def _append(self, custom_type: str, data: Json) -> None:
        if self.entries is None:
            return
        try:
            self.entries.append(custom_type, data)
        except Exception as error:  # of whatever kind: the log is somebody else's, and what was accepted stays so
            self.report("host-entry-failed", session=self.session_id, entry=custom_type, error=error)
