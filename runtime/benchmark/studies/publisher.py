"""The job of one publisher: a process that patches and answers when it is told to."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import Any

import trio

from ....store import StrataflowError
from ...assembly import Runtime
from ...opening import open_runtime
from .phases import Json

_TROUBLES = ("backup-failed", "backup-deferred", "push-failed", "push-skipped")


def store_in(folder: str) -> str:
    """The store that the publishers of a folder share."""
    return os.path.join(folder, "store")


def session_of(number: int) -> str:
    """A publisher's own session."""
    return f"publisher-{number}"


async def publish(folder: str, number: int, cwd: str, scope: str) -> Json:
    """Do what each line that comes in says, and answer it, until ``end``; then tell how often backups had trouble.

    ``patch``: patch the memory of ``scope``; what is said has its error, if any. ``answer``: accept an answer.
    ``settle``: wait until no backup or push is under way; what is said has how the last push ended, and whether a
    backup is due.
    """
    async with open_runtime(store=store_in(folder)) as runtime:
        session = await runtime.open_session(cwd, session_of(number), "active")
        _say("ready")
        turn = 0
        while (command := await _line()) != "end":
            if command == "patch":
                turn += 1
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
            elif command == "answer":
                await session.accept_response(f"Round {turn} is done.")
                _say("{}")
            else:
                _say(json.dumps(await _settle(runtime)))
        return dict(Counter(event.name for event in runtime.events if event.name in _TROUBLES))


async def _settle(runtime: Runtime) -> Json:
    report = await runtime.backups.wait_pushed()
    return {"push": report and report.outcome, "isDue": (await runtime.backups.status()).is_due}


async def _line() -> str:
    return (await trio.to_thread.run_sync(sys.stdin.readline)).strip() or "end"


def _say(line: Any) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
