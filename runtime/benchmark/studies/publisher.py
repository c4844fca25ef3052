"""The job of one publisher: a process that patches when it is told to, as often as there are rounds."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import trio

from ....store import StrataflowError
from ...opening import open_runtime
from .phases import Json


def store_in(folder: str) -> str:
    """The store that the publishers of a folder share."""
    return os.path.join(folder, "store")


def session_of(number: int) -> str:
    """A publisher's own session."""
    return f"publisher-{number}"


async def publish(folder: str, number: int, cwd: str, scope: str, rounds: int) -> Json:
    """Patch once for each line that comes in, then end with one more. Each round is answered by its error, if any."""
    async with open_runtime(store=store_in(folder)) as runtime:
        session = await runtime.open_session(cwd, session_of(number), "active")
        _say("ready")
        for turn in range(1, rounds + 1):
            await trio.to_thread.run_sync(sys.stdin.readline)
            patch = {"working": {session_of(number): {"round": turn}}}
            error: str | None = None
            try:
                if scope == "global":
                    await session.patch_state(global_=patch)
                else:
                    await session.patch_state(session=patch)
            except StrataflowError as refused:
                error = str(refused)
            _say(json.dumps({"round": turn, "error": error}))
        await trio.to_thread.run_sync(sys.stdin.readline)
    return {"number": number}


def _say(line: Any) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
