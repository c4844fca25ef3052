"""Session files in simulated worlds: processes share a session's tree while everything goes wrong."""

from __future__ import annotations

import pytest

from kit.session_trees import assistant
from strataflow import StoreError
from strataflow.simulation import Process, RecordedSession, Report, simulate

# What a process may be told when its session's file, or the world, is taken from under it.
_TROUBLE = ("E_DISK", "E_BROKEN", "E_CHANGED", "E_CLOSED")


async def say(session: RecordedSession, entry_id: str, acknowledged: list[str]) -> None:
    async with session.run(entry_id):
        try:
            await session.tree.append_message(assistant(entry_id), entry_id=entry_id)
        except StoreError as error:
            if error.code not in _TROUBLE:
                raise
        else:
            acknowledged.append(entry_id)


def talk_in_a_world(seed: int) -> tuple[Report, list[str]]:
    """Processes that each say something in runs of one shared session; what was acknowledged is known outside."""
    acknowledged: list[str] = []

    async def talk(process: Process) -> None:
        for writer in process.writers:
            session = await process.open_session("/project", "shared", "passive", tree=True)
            for number in range(6):
                await session.patch_state(global_={"working": {f"w{writer}": number}})
                await say(session, f"{process.name}-{writer}-{number}-{len(acknowledged)}", acknowledged)
            await session.aclose()

    async def look(process: Process) -> None:
        session = await process.open_session("/project", "shared", "off", tree=True)
        ids = [entry["id"] for entry in await session.tree.get_entries()]
        assert len(ids) == len(set(ids))
        assert set(acknowledged) <= set(ids)

    return simulate(talk, seed=seed, processes=3, writers=3, check=look), acknowledged


@pytest.mark.parametrize("seed", range(20))
def test_no_acknowledged_entry_is_lost_in_a_world_of_kills_power_cuts_and_slow_disks(seed: int) -> None:
    report, acknowledged = talk_in_a_world(seed)
    report.require_ok()
    assert acknowledged
