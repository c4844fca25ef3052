"""The scripted workload: clients that make every kind of call, and go on where a crash has interrupted them.

What a client remembers (how many calls are left, which answers are open) is kept outside of the processes, as by a
program with notes of its own. Each has a session, which it closes, opens again and selects modes for.

Every second world makes all kinds of calls at their usual weights. In the others some kinds are left out and one is
frequent: where everything happens, what needs two calls of one seldom kind at the same time happens hardly ever.
"""

from __future__ import annotations

import random

import attrs
import trio

from ...store import StrataflowError
from .process import Process
from .recorder import CLIENT, RecordedSession
from .script_calls import KINDS, Calls
from .seams import hash_of
from .world import Workload

CWDS = ("/project", "/project/part")
# Pauses between calls, in virtual seconds: mostly none, sometimes long enough for a checkpoint.
_PAUSES_S = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0005, 0.002, 0.02, 0.3, 2.5)
# After a refusal that may be gone in a moment.
_PATIENCE_S = 0.05
# How often the kind that is frequent is called, where the usual weights make a hundred.
_FREQUENT = 80


def scripted(seed: int, writers: int, steps: int) -> Workload:
    """A workload of ``writers`` clients with ``steps`` calls in all."""
    shares = [steps // writers + (number < steps % writers) for number in range(writers)]
    weights = _weights(random.Random(hash_of(seed, 13)))
    clients = [
        Client(number, writers, shares[number], random.Random(hash_of(seed, number, 11)), weights)
        for number in range(writers)
    ]

    async def workload(process: Process) -> None:
        async with trio.open_nursery() as nursery:
            for number in process.writers:
                nursery.start_soon(clients[number].live, process)

    return workload


def _weights(chance: random.Random) -> dict[str, int]:
    """How often each kind of call is made in one world."""
    weights = dict(KINDS)
    if chance.random() < 0.5:
        for kind in KINDS:
            weights[kind] *= chance.random() < 0.5
        weights[chance.choice([*KINDS])] = _FREQUENT
    return weights


def _cwd_of(number: int) -> str:
    return CWDS[number % 3 == 2]


@attrs.define(eq=False)
class Client:
    """One writer over all its lives. ``left``: how many calls it still has to make."""

    number: int
    writers: int
    left: int
    random: random.Random
    weights: dict[str, int]
    _calls: Calls = attrs.field(init=False)
    _visits: Calls = attrs.field(init=False)
    _session: RecordedSession | None = attrs.field(default=None, init=False)
    _is_changed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._calls = Calls(f"w{self.number}", self.random)
        self._visits = Calls(f"v{self.number}", self.random)

    async def live(self, process: Process) -> None:
        """Call until nothing is left to do, also after calls that were cancelled."""
        self._session = None
        while self.left > 0 and not process.is_gone:
            with trio.CancelScope() as scope:
                CLIENT.set(scope)
                await self._work(process)

    async def _work(self, process: Process) -> None:
        while self.left > 0:
            await trio.sleep(self.random.choice(_PAUSES_S))
            self.left -= 1
            try:
                await self._step(process)
            except StrataflowError as error:
                if error.code in ("E_CLOSED", "E_BROKEN"):
                    self._session = None
                    process.runtime.check()  # closed for good: this life is over
                self._is_changed = error.code == "E_CHANGED"
                await trio.sleep(_PATIENCE_S)

    async def _step(self, process: Process) -> None:
        session = self._session
        if session is not None and self._is_changed:
            # Somebody else has been in it: only one that is opened anew shows what is there now.
            self._session = None
            await session.aclose()
            return
        if session is None:
            session = self._session = await process.open_session(_cwd_of(self.number), f"w{self.number}", "active")
        kind = self.random.choices(tuple(self.weights), tuple(self.weights.values()))[0]
        match kind:
            case "checkpoint":
                await process.runtime.checkpoint()
            case "close":
                self._session = None
                await session.aclose()
            case "mode":
                await session.set_mode("passive")
                await session.set_mode("active")
            case "visit":
                await self._visit(process)
            case _:
                await self._calls.make(kind, session)

    async def _visit(self, process: Process) -> None:
        """Work in a session of another process; that will find out and be told so."""
        # One visitor for each session: whoever closes it would close it for all of its process.
        whose = (self.number + 1) % self.writers
        if whose in process.writers:
            whose = self.number
        session = await process.open_session(_cwd_of(whose), f"w{whose}", self.random.choice(("active", None)))
        await self._visits.make(self.random.choice(("patch", "read", "add")), session)
        if whose != self.number:
            await session.aclose()
