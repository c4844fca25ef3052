"""The scripted workload: clients that make every kind of call, and go on where a crash has interrupted them.

What a client remembers (how many calls are left, which answers are open) is kept outside of the processes, as by a
program with notes of its own.
"""

from __future__ import annotations

import random
from typing import Any

import attrs
import trio

from ...store import StrataflowError
from .process import Process
from .recorder import CLIENT, RecordedSession
from .seams import hash_of
from .world import Workload

CWDS = ("/project", "/project/part")
KEYS = ("k0", "k1", "k2", "own")
# Pauses between calls, in virtual seconds: mostly none, sometimes long enough for a checkpoint.
_PAUSES_S = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0005, 0.002, 0.02, 0.3, 2.5)
# After a refusal that may be gone in a moment.
_PATIENCE_S = 0.05


def scripted(seed: int, writers: int, steps: int) -> Workload:
    """A workload of ``writers`` clients with ``steps`` calls in all."""
    shares = [steps // writers + (number < steps % writers) for number in range(writers)]
    clients = [
        Client(number, random.Random(hash_of(seed, number, 11)), CWDS[number % 3 == 2], shares[number])
        for number in range(writers)
    ]

    async def workload(process: Process) -> None:
        async with trio.open_nursery() as nursery:
            for number in process.writers:
                nursery.start_soon(clients[number].live, process)

    return workload


@attrs.define(eq=False)
class Client:
    """One writer over all its lives."""

    number: int
    random: random.Random
    cwd: str
    left: int
    _count: int = 0
    _session: RecordedSession | None = None
    # Values this client has sent: for changes that change nothing.
    _sent: dict[str, Any] = attrs.field(factory=dict)
    _open_request: tuple[str, dict[str, Any]] | None = None

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
                if self._session is None:
                    self._session = await process.open_session(self.cwd, f"w{self.number}", "active")
                await self._step(process, self._session)
            except StrataflowError as error:
                if error.code in ("E_CLOSED", "E_BROKEN"):
                    self._session = None
                    process.runtime.check()  # closed for good: this life is over
                await trio.sleep(_PATIENCE_S)

    async def _step(self, process: Process, session: RecordedSession) -> None:
        kind = self.random.choices(_KINDS, _WEIGHTS)[0]
        match kind:
            case "patch":
                await self._patch(session)
            case "again":
                await self._again(session)
            case "nothing":
                await session.patch_state(session={"working": {"same": 1}})
            case "read":
                await self._read(session)
            case "respond":
                await session.accept_response(self._token())
            case "checkpoint":
                await process.runtime.checkpoint()
            case "close":
                self._session = None
                await session.aclose()
            case "mode":
                await session.set_mode("passive")
                await session.set_mode("active")

    def _token(self) -> str:
        self._count += 1
        return f"w{self.number}.{self._count}"

    async def _patch(self, session: RecordedSession) -> None:
        scopes = self.random.sample(("global_", "cwd", "session"), self.random.choice((1, 1, 1, 2, 3)))
        patches = {scope: {"working": self._change()} for scope in sorted(scopes)}
        request_id = f"w{self.number}-{self._token()}"
        self._open_request = request_id, patches
        await session.patch_state(**patches, request_id=request_id)

    async def _again(self, session: RecordedSession) -> None:
        if self._open_request is None:
            return await self._patch(session)
        request_id, patches = self._open_request
        await session.patch_state(**patches, request_id=request_id)
        return None

    def _change(self) -> dict[str, Any]:
        key = self.random.choice(KEYS)
        if key == "own":
            key = f"own{self.number}"
        value: Any
        match self.random.randrange(8):
            case 0:
                value = None
            case 1:
                value = [self._token(), self._token()]
            case 2:
                value = {"[0]": self._token()}
            case 3 | 4:
                value = {self.random.choice("abc"): self._token()}
            case _:
                value = self._token()
        return {key: value}

    async def _read(self, session: RecordedSession) -> None:
        path = self.random.choice(_PATHS)
        projection: Any = "keys" if self.random.random() < 0.15 and "[" not in path else "value"
        await session.read_state(path, projection=projection, fresh=self.random.random() < 0.3)


_PATHS = (
    "global.working",
    "cwd.working",
    "session.working",
    "session",
    "effective",
    "effective.working",
    "global.working.k0",
    "cwd.working.k1",
    "effective.working.k2",
    "global[1].working",
    "session[1].working",
)
_KINDS = ("patch", "again", "nothing", "read", "respond", "checkpoint", "close", "mode")
_WEIGHTS = (40, 4, 3, 30, 5, 3, 4, 2)
