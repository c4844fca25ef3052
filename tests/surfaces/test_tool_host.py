"""Goal: the tool host's limits and its patience. Method: the host in this process, over pipes, under a mock clock.

The store is real and its threads are too, so that the clock moves only when a test says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from kit.tool_process import held_turn
from strataflow.runtime import CallError, StoreError, open_runtime
from strataflow.runtime.surfaces import tool_host
from strataflow.runtime.surfaces.line_streams import ByteWriter, LineReader
from strataflow.runtime.surfaces.tool_host import FOREIGN_WAIT_S, ToolHost, answer_line

A = {"cwd": {"working": {"a": 1}}}


@attrs.define(eq=False)
class Client:
    """The other end of a host's pipes."""

    host: ToolHost
    requests: int
    answers: LineReader

    def send(self, id_: Any, call: str, arguments: Any, session: str = "main") -> None:
        """One request."""
        request = {"id": id_, "call": call, "arguments": arguments, "session": session}
        os.write(self.requests, json.dumps(request).encode() + b"\n")

    async def answer(self) -> Any:
        """The next answer."""
        line = await self.answers.next_line()
        assert line is not None
        return json.loads(line)


@asynccontextmanager
async def client_of_host(agent_dir: Path) -> AsyncIterator[Client]:
    """A client, whose host runs over a real store until the body ends."""
    requests, to_host = os.pipe()
    answers, from_host = os.pipe()
    reader, writer = LineReader(requests), ByteWriter(from_host)
    client = Client(ToolHost(reader, writer, "/project", "main"), to_host, LineReader(answers))
    async with open_runtime(str(agent_dir), durability="process") as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.host.read, nursery)
            nursery.start_soon(client.host.write)
            nursery.start_soon(client.host.expire)
            client.host.serve(runtime, "active")
            yield client
            nursery.cancel_scope.cancel()
    if client.requests >= 0:
        os.close(client.requests)
    for end in (reader, writer, client.answers):
        end.close()


def end_input(client: Client) -> None:
    os.close(client.requests)
    client.requests = -1


async def test_after_the_end_of_input_a_foreign_lock_is_waited_for_thirty_seconds(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with client_of_host(tmp_path) as client:
        client.send(0, "status", {})
        assert (await client.answer())["ok"]
        with held_turn(tmp_path):
            client.send(1, "patch_state", A)
            client.send(2, "read_state", {"path": "cwd"})
            client.send(3, "read_state", {"path": "effective"}, "unopened")
            end_input(client)
            await client.host.has_ended.wait()
            mock_clock.jump(FOREIGN_WAIT_S - 1)
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            assert not client.host.has_drained.is_set()
            mock_clock.jump(2)
            answers = {answer["id"]: answer for answer in [await client.answer() for _ in range(3)]}
            assert {answer["error"]["code"] for answer in answers.values()} == {"E_BUSY"}
            await client.host.has_drained.wait()
        async with open_runtime(str(tmp_path), durability="process") as runtime:
            session = await runtime.open_session("/project")
            assert (await session.status())["step"] == 0


async def test_before_the_end_of_input_a_wait_has_no_limit(tmp_path: Path, mock_clock: MockClock) -> None:
    async with client_of_host(tmp_path) as client:
        client.send(0, "status", {})
        assert (await client.answer())["ok"]
        with held_turn(tmp_path):
            client.send(1, "patch_state", A)
            client.send("sync", "cancel", {"id": None})
            assert (await client.answer())["id"] == "sync"
            for _ in range(100):
                mock_clock.jump(60)
                await trio.lowlevel.checkpoint()
        assert await client.answer() == await _accepted(1)


async def _accepted(id_: int) -> Any:
    result = {"changed": True, "scopes": ["cwd"], "step": 1, "revision": "g0c1s0"}
    result |= {"missing_deletions": [], "cascaded": [], "text": "\nPatch accepted in cwd scope."}
    await trio.lowlevel.checkpoint()
    return {"id": id_, "ok": True, "result": result}


async def test_beyond_the_limit_of_requests_nothing_more_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_host, "REQUESTS_MAX", 5)
    async with client_of_host(tmp_path) as client:
        client.send(0, "status", {})
        assert (await client.answer())["ok"]
        with held_turn(tmp_path):
            for number in range(10):
                client.send(number, "patch_state", {"cwd": {"working": {"n": number}}})
            client.send("late", "cancel", {"id": "nobody"})
            while client.host.unwritten < 5:
                await trio.lowlevel.checkpoint()
            for _ in range(50):
                await trio.lowlevel.checkpoint()
            assert client.host.unwritten == 5
        answers = [await client.answer() for _ in range(11)]
        assert [answer["id"] for answer in answers if answer["id"] != "late"] == list(range(10))
        assert all(answer["ok"] for answer in answers)


async def test_one_large_request_is_let_in_alone_and_a_huge_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_host, "REQUEST_BYTES_MAX", 1_000)
    async with client_of_host(tmp_path) as client:
        client.host.reader._line_bytes_max = 20_000
        client.send(1, "patch_state", {"cwd": {"working": {"a": "x" * 10_000}}})
        client.send(2, "patch_state", {"cwd": {"working": {"a": "y" * 30_000}}})
        client.send(3, "read_state", {"path": "cwd.working.a"})
        answers = [await client.answer() for _ in range(3)]
        assert {answer["id"] for answer in answers} == {1, None, 3}
        assert next(answer for answer in answers if answer["id"] is None)["error"]["code"] == "E_REQUEST"
        assert next(answer for answer in answers if answer["id"] == 3)["result"]["value"] == "x" * 10_000


async def test_an_accepted_change_is_not_withdrawn_any_more(tmp_path: Path) -> None:
    async with client_of_host(tmp_path) as client:
        client.send(0, "status", {})
        assert (await client.answer())["ok"]
        withdrawn: list[bool] = []
        admit = tool_host.Pending.admit

        def admit_and_withdraw(pending: tool_host.Pending) -> None:
            admit(pending)
            withdrawn.append(pending.withdraw(CallError("E_ABORTED", "too late")))

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tool_host.Pending, "admit", admit_and_withdraw)
            client.send(1, "patch_state", A)
            assert await client.answer() == await _accepted(1)
        assert withdrawn == [False]


def test_data_that_is_no_json_does_not_cost_the_answer() -> None:
    line = answer_line(1, None, StoreError("E_DISK", "no", path=b"\xff", number=3))
    assert json.loads(line)["error"]["data"] == {"path": "b'\\xff'", "number": "3"}
