"""A Starlette application under uvicorn, as a real process: many sessions, clients that leave, an end, a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from kit.runtimes import turn_held
from kit.server_process import NoAnswer, ServerProcess, server_process

USERS = [f"user{number}" for number in range(20)]
FEW = 3


@attrs.define
class Known:
    """What the clients of one user were told: ``count`` was acknowledged, 1 by ``first``, and ``asked`` was the last
    that they asked for."""

    user: str
    count: int = 0
    asked: int = 0
    first: Any = None

    @property
    def request_id(self) -> str:
        return f"{self.user} counts {self.asked}"

    def memory(self, count: int) -> Any:
        working = {"name": self.user, "step": FEW - 1, **({"count": count} if count else {})}
        return {"working": working, "response": f"{self.user} is served"}


def turn_of(user: str) -> Any:
    patches = [{"session": {"working": {"name": user, "step": step}}} for step in range(FEW)]
    patches.append({"cwd": {"working": {user: "was here"}}})
    return {"prompt": f"serve {user}", "patches": patches, "answer": f"{user} is served"}


async def ask(server: ServerProcess, path: str, given: Any = None) -> Any:
    status, answer = await server.ask(path, given)
    assert status == 200, answer
    return answer


async def serve_everybody(server: ServerProcess) -> None:
    async with trio.open_nursery() as nursery:
        for user in USERS:
            nursery.start_soon(ask, server, f"/turn/{user}", turn_of(user))


async def leave_while_the_store_is_busy(server: ServerProcess, root: Path) -> None:
    never = {"working": {"never": True}}
    with turn_held(root):
        async with trio.open_nursery() as nursery:
            for number, user in enumerate(USERS):
                given = {"patch": never, "request_id": f"{user} left"}
                turn = {"prompt": "never", "patches": [{"session": never}], "answer": "never"}
                nursery.start_soon(ask, server, *((f"/patch/{user}", given) if number % 2 else (f"/turn/{user}", turn)))
            await ask(server, f"/until/at_work/{len(USERS)}")
            nursery.cancel_scope.cancel()
        # Another process still holds the turn: they were withdrawn, and did not just come through.
        await ask(server, f"/until/withdrawn/{len(USERS)}")
    for user in USERS[1::2]:
        assert await ask(server, f"/outcome/{user} left") == {"state": "unseen"}


async def count_until_the_end(server: ServerProcess, known: Known, counted: trio.abc.SendChannel[str]) -> None:
    """Count in a session's memory, one patch after the other, until nobody answers any more."""
    async with counted:
        while True:
            known.asked = known.count + 1
            given = {"patch": {"working": {"count": known.asked}}, "request_id": known.request_id}
            try:
                answer = await ask(server, f"/patch/{known.user}", given)
            except NoAnswer:
                return
            known.count, known.first = known.asked, known.first or answer
            if known.count == FEW:
                await counted.send(known.user)


async def end_in_the_middle(server: ServerProcess, everybody: list[Known]) -> None:
    send, receive = trio.open_memory_channel[str](len(everybody))
    async with trio.open_nursery() as nursery:
        for known in everybody:
            nursery.start_soon(count_until_the_end, server, known, send.clone())
        await send.aclose()
        for _ in everybody:
            await receive.receive()
        await server.end()
    assert "Traceback" not in server.said, server.said
    assert "Application shutdown complete" in server.said


@pytest.mark.slow
async def test_a_server_keeps_what_it_acknowledged_over_clients_that_leave_and_a_restart(tmp_path: Path) -> None:
    root = tmp_path / "s"
    everybody = [Known(user) for user in USERS]
    async with server_process(root) as server:
        await serve_everybody(server)
        await leave_while_the_store_is_busy(server, root)
        await end_in_the_middle(server, everybody)
    assert not (root / ".state-flow-publication.lock").exists()

    async with server_process(root) as server:
        for known in everybody:
            last = await ask(server, f"/outcome/{known.request_id}")
            count = known.asked if last["state"] == "accepted" else known.count
            assert known.count >= FEW
            assert await ask(server, f"/memory/{known.user}") == [
                {},
                {"working": dict.fromkeys(USERS, "was here")},
                known.memory(count),
            ]
            again = {"patch": {"working": {"count": 0}}, "request_id": f"{known.user} counts 1"}
            assert await ask(server, f"/patch/{known.user}", again) == known.first
            assert (await ask(server, f"/memory/{known.user}"))[2] == known.memory(count)
        await server.end()

    # Nobody but them has memory, and nothing of what was withdrawn is anywhere.
    assert sorted(path.parent.name for path in root.glob("*/*/runtime.json")) == sorted(USERS)
    assert [path for path in root.rglob("*") if path.is_file() and b"never" in path.read_bytes()] == []
