"""Ctrl-C ends a simulated run, and is not one more thing that befalls its processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from strataflow.simulation import FaultPlan, Process, simulate


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A program that was started in the background ignores Ctrl-C, and so do its children, such as these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def _interrupted(process: Process) -> None:
    session = await process.open_session("/project")
    await session.patch_state(cwd={"working": {"by": process.number}})
    if process.number == 1:
        signal.raise_signal(signal.SIGINT)
    await session.patch_state(cwd={"working": {"later": process.number}})


@pytest.mark.parametrize("seed", range(5))
def test_an_interrupted_run_raises_the_interruption_itself(seed: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        simulate(_interrupted, seed=seed)


def test_a_run_after_an_interrupted_one_is_as_any_other() -> None:
    before = simulate(seed=3, writers=2, steps=6, faults=FaultPlan.none()).trace_hash
    with pytest.raises(KeyboardInterrupt):
        simulate(_interrupted)
    assert simulate(seed=3, writers=2, steps=6, faults=FaultPlan.none()).trace_hash == before
