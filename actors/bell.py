"""The bell that never rings: for worlds where the system does not tell when a file is written."""

from __future__ import annotations

from typing import final

import attrs
import trio

from .limits import POLL_BEAT_S


@final
@attrs.frozen
class PollingBell:
    """A ``JournalBell`` whose listeners must look at every beat. ``trouble``: why nothing better is to be had."""

    trouble: str = ""
    beat_s: float = POLL_BEAT_S

    async def wait_rung(self) -> None:
        """See ``JournalBell.wait_rung``."""
        await trio.sleep_forever()

    def close(self) -> None:
        """See ``JournalBell.close``."""
