"""What waits for a lock that another process holds is withdrawn by off and by closing, whatever it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kit.agent_loops import AgentLoop, head_of
from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, turn_held, value
from strataflow.runtime import MemoryEntries, Runtime, Session


async def transaction(runtime: Runtime, session: Session) -> None:
    async with session.transaction() as tx:
        tx.patch(session={"working": {"never": tx.read("session.working.a").value}})


CALLS: dict[str, Callable[[Runtime, Session], Awaitable[Any]]] = {
    "patch": lambda runtime, session: session.patch_state(session={"working": {"never": 1}}),
    "answer": lambda runtime, session: session.accept_response("never"),
    "transaction": transaction,
    "transact": lambda runtime, session: session.transact(lambda tx: tx.patch(session={"working": {"never": 1}})),
    "fresh read": lambda runtime, session: session.read_state("session", fresh=True),
}
OF_THE_RUNTIME: dict[str, Callable[[Runtime, Session], Awaitable[Any]]] = {
    "passive": lambda runtime, session: session.set_mode("passive"),
    "fork": lambda runtime, session: session.fork("child"),
    "outcome": lambda runtime, session: runtime.outcome("anything"),
    "open": lambda runtime, session: runtime.open_session(CWD, "another", "active"),
}


async def withdrawn(root: Path, call: str, code: str, how: Callable[[Runtime, Session], Awaitable[Any]]) -> None:
    """The call waits for the turn; it ends with ``code`` by ``how`` while the turn is still held; nothing is stored."""
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "active")
        await session.patch_state(session={"working": {"a": 1}})
        with turn_held(root):
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    with refused(code):
                        await {**CALLS, **OF_THE_RUNTIME}[call](runtime, session)

                nursery.start_soon(ask)
                await wait_all_tasks_blocked(0.02)
                await how(runtime, session)
            if code == "E_CLOSED":
                assert (await runtime.aclose()).left_behind == ()  # the first report
    async with session_of(root, "main", mode="active") as session:
        assert await value(session, "session") == {"working": {"a": 1}}


@holds("L28", "case agent 140")
@pytest.mark.parametrize("call", CALLS)
async def test_off_withdraws_every_call_that_waits(tmp_path: Path, call: str) -> None:
    await withdrawn(tmp_path / "s", call, "E_OFF", lambda runtime, session: session.set_mode("off"))


@holds("L33")
@pytest.mark.parametrize("call", [*CALLS, *OF_THE_RUNTIME])
async def test_closing_the_runtime_withdraws_every_call_that_waits(tmp_path: Path, call: str) -> None:
    await withdrawn(tmp_path / "s", call, "E_CLOSED", lambda runtime, session: runtime.aclose())


@holds("L3", "L28")
async def test_an_off_session_opens_while_another_one_waits_for_the_store(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime, trio.open_nursery() as nursery:
        with turn_held(root):
            nursery.start_soon(runtime.open_session, CWD, "waits", "active")
            await wait_all_tasks_blocked(0.02)
            session = await runtime.open_session(CWD, "off", entries=MemoryEntries())
            assert session.mode == "off"
            assert await session.fork("child", entries=MemoryEntries())
            await session.aclose()
            nursery.cancel_scope.cancel()


@holds("C21")
async def test_an_accepted_transaction_is_an_own_transition_with_a_checkpoint_entry(tmp_path: Path) -> None:
    entries = MemoryEntries()
    async with opened(tmp_path / "s") as runtime:
        session = await runtime.open_session(CWD, "main", "active", entries=entries)
        loop = AgentLoop(session)
        await loop.turn("first")
        count = len(entries.entries)
        async with session.transaction() as tx:
            tx.patch(cwd={"working": {"mine": 1}})
        assert len(entries.entries) == count + 1
        async with session.transaction() as tx:
            tx.read("cwd.working.mine")
        assert len(entries.entries) == count + 1
        recent = head_of(await loop.turn("second"))["recent_transitions"]
        assert [entry["transitions"] for entry in recent][1:] == [[{"scope": "cwd", "patch": {"working": {"mine": 1}}}]]
