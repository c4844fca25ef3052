"""Crash stories that whole runtimes tell, with their actors, under a MockClock. See ``crash_states``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import trio

from kit.crash_ledger import Json, Ledger
from kit.crash_stories import everywhere, private_files, unseen
from kit.runtimes import refused
from kit.simulated_runtimes import run_seeded, simulated
from strataflow.runtime import Mode, Runtime, Session
from strataflow.runtime.simulation.seams import SimulatedMachine
from strataflow.store import Durability, SessionAddress


@attrs.define(eq=False)
class Client:
    """A session of a runtime that says in the ledger what it does, one call at a time."""

    session: Session
    address: SessionAddress
    ledger: Ledger
    level: Durability

    @classmethod
    async def open(
        cls, runtime: Runtime, ledger: Ledger, session_id: str, level: Durability = "power", mode: Mode = "active"
    ) -> Client:
        address = SessionAddress("/project", session_id, session_id)
        if address not in ledger.addresses:
            ledger.addresses.append(address)
        return cls(await runtime.open_session("/project", session_id, mode), address, ledger, level)

    async def does(self, call: Awaitable[Any], patches: dict[str, Json], request_id: str | None = None) -> None:
        """One call that comes to these patches, by scope name."""
        self.ledger.begin(self.address, patches, request_id)
        await call
        self.ledger.acknowledge(self.level)

    async def patch(self, request_id: str | None = None, **patches: Json) -> None:
        named = {name.rstrip("_"): patch for name, patch in patches.items()}
        await self.does(self.session.patch_state(request_id=request_id, **patches), named, request_id)

    async def transact(self, request_id: str | None = None, **patches: Json) -> None:
        named = {name.rstrip("_"): patch for name, patch in patches.items()}

        def function(tx: Any) -> None:
            tx.read("effective", "keys")
            for name, patch in patches.items():  # several patches of one transaction are one change
                tx.patch(**{name: patch})

        await self.does(self.session.transact(function, request_id=request_id), named, request_id)


def told(body: Callable[[SimulatedMachine, Ledger], Awaitable[None]]) -> Callable[[SimulatedMachine, Ledger], None]:
    """A story from an async function."""

    def story(machine: SimulatedMachine, ledger: Ledger) -> None:
        run_seeded(7, lambda: body(machine, ledger))

    story.__name__ = body.__name__
    return story


@told
async def life_of_a_runtime(machine: SimulatedMachine, ledger: Ledger) -> None:
    async with simulated(machine, history_limit=2) as runtime:
        main = await Client.open(runtime, ledger, "main")
        await main.patch("r1", **everywhere(1, 300))
        await main.transact("r2", global_={"working": {"t": 1}}, session={"working": {"t": 1}})
        await trio.sleep(3)  # the files are written by themselves
        ledger.make_certain()
        await main.session.set_mode("passive")
        await main.session.set_mode("active")
        await main.does(main.session.accept_response("done"), {"session": {"response": "done"}})
        async with simulated(machine, "second", durability="process", history_limit=2) as second:
            other = await Client.open(second, ledger, "other", "process")
            await other.patch("r3", **everywhere(2))
            await other.patch(cwd={"working": {"n1": None}})
            # What the first one shows, it has synced before (M3).
            await main.session.read_state("effective", fresh=True)
            ledger.make_certain()
            await other.transact(cwd={"working": {"t": 2}})
        await main.patch(cwd={"working": {"last": 3}})
        await runtime.checkpoint()
    ledger.make_certain()


@told
async def a_store_shared_with_pi(machine: SimulatedMachine, ledger: Ledger) -> None:
    """Every commit is in the canonical files before it is answered."""
    async with simulated(machine, share_with_pi=True, history_limit=2) as runtime:
        main = await Client.open(runtime, ledger, "main")
        for number in (1, 2):
            await main.patch(f"r{number}", **everywhere(number, 200))
        await main.transact(session={"working": {"t": 1}})


@told
async def journal_removed_while_open(machine: SimulatedMachine, ledger: Ledger) -> None:
    """What the files hold stays, the call that met it is of unknown outcome and kept aside, and all goes on (J9)."""
    async with simulated(machine, history_limit=2) as runtime:
        main = await Client.open(runtime, ledger, "main")
        await main.patch(**everywhere(1))
        await runtime.checkpoint()
        with unseen(machine):
            for path in [*private_files(machine)]:
                if "/journal.db" in path:
                    machine.disk.unlink(path)
            machine.disk.sync_folder(f"{machine.root}/.strataflow")
        # The journal that knew our lock towards Pi is gone: until a new one knows it a crash leaves it as a stranger's.
        ledger.may_need_unlock = True
        with refused("E_BROKEN"):
            await main.patch(**everywhere(2))
        ledger.refuse()
        await main.patch(**everywhere(3))
        ledger.may_need_unlock = False
        await runtime.checkpoint()
        await main.patch(**everywhere(4))
    ledger.make_certain()


RUNTIME_STORIES = (life_of_a_runtime, a_store_shared_with_pi, journal_removed_while_open)
