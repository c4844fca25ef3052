"""Runs over cards and simulated sources: what the tests of compiling share."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kit.simulated_runtimes import session_in
from strataflow.runtime import Run, Runtime, Session
from strataflow.runtime.simulation.seams import SimulatedMachine

A, B = "/project/a.py", "/project/b.py"
CARD = {"description": "how a works"}
USER = {"role": "user", "content": "go", "timestamp": 1}


def machine_with_sources() -> SimulatedMachine:
    """A machine on which A and B are files."""
    found = SimulatedMachine()
    found.sources.write(A, b"print(1)")
    found.sources.write(B, b"print(2)")
    return found


@asynccontextmanager
async def running(machine: SimulatedMachine, **options: Any) -> AsyncIterator[tuple[Runtime, Session, Run]]:
    """An active session in a run whose first request was made, with a card of A in cwd."""
    async with session_in(machine, **options) as (runtime, session):
        await session.patch_state(cwd={"artifacts": {A: {**CARD, "old": 1}}})
        async with session.run("go") as run:
            await run.project([USER])
            yield runtime, session, run


def head_of(messages: list[dict[str, Any]]) -> Any:
    return json.loads(messages[0]["content"][0]["text"].partition("\n")[2])


def update_of(messages: list[dict[str, Any]]) -> Any:
    return json.loads(messages[-1]["content"][0]["text"].partition("\n")[2])


async def read(run: Run, path: str, call_id: str = "call") -> str | None:
    assert await run.note_read(path, call_id) is None
    return await run.note_read(path, call_id)


async def compiled(session: Session, run: Run) -> None:
    """Read A and store its card."""
    await read(run, A)
    assert (await session.patch_state(cwd={"artifacts": {A: CARD}})).changed
