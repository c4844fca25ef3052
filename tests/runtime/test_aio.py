"""The runtime on an asyncio loop: calls, cancellation that waits for the other side, closing, errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kit.agent_loops import head_of
from kit.hand_stores import CWD
from kit.runtimes import turn_held
from strataflow import aio
from strataflow.store import StoreError, StrataflowError

Body = Callable[[aio.Runtime], Coroutine[Any, Any, None]]


def run_on(root: Path, body: Body) -> None:
    """Run ``body`` on an asyncio loop; afterwards no thread of ours is left."""

    async def main() -> None:
        async with aio.open_runtime(store=str(root), durability="process") as runtime:
            await body(runtime)

    asyncio.run(main())
    assert_no_thread()


def assert_no_thread() -> None:
    assert [thread.name for thread in threading.enumerate() if thread.name == "strataflow"] == []


def test_the_calls_of_a_session_work_on_an_asyncio_loop(tmp_path: Path) -> None:
    async def body(runtime: aio.Runtime) -> None:
        session = await runtime.open_session(CWD, "main", "active")
        patch = {"working": {"a": 1}}
        receipt = await session.patch_state(session=patch)
        assert receipt.changed
        assert (await session.read_state("session.working")).value == {"a": 1}
        assert await session.read_json("session.working.a") == '{"value":1}'
        assert (await session.call("read_state", {"path": "working.a"})) == {"value": 1}
        async with session.run("go") as run:
            assert head_of(await run.project([]))["specification"] == "go"
            assert [verdict.block for verdict in run.preflight([{"id": "1", "name": "bash"}])] == [False]
            assert await run.finish("done") is run.receipt
        assert (await session.read_state("response")).value == "done"
        async with session.transaction() as tx:
            tx.patch(session={"working": {"n": tx.read("session.working.a").value + 1}})
        assert (await session.read_state("session.working.n")).value == 2
        child = await session.fork("child")
        assert (child.mode, child.session_id, child.cwd) == ("active", "child", CWD)
        assert await child.set_mode("off") == "off"
        assert (await runtime.inspect(CWD)).effective is not None
        assert (await runtime.checkpoint()).scopes
        assert len(await session.log()) == 3
        await session.aclose()
        with pytest.raises(StoreError, match="E_CLOSED"):
            await session.status()

    run_on(tmp_path / "s", body)


def test_functions_of_transact_run_on_the_asyncio_loop_and_may_retry(tmp_path: Path) -> None:
    async def body(runtime: aio.Runtime) -> None:
        session = await runtime.open_session(CWD, "main", "active")
        loop = asyncio.get_running_loop()

        async def take(tx: aio.Transaction) -> Any:
            assert asyncio.get_running_loop() is loop
            found = tx.read("session.working").value or {}
            if not found.get("ready"):
                await tx.retry()
            tx.patch(session={"working": {"taken": True}})
            return found["ready"]

        waiting = asyncio.create_task(session.transact(take))
        watch = session.watch("session.working.taken")
        await session.patch_state(session={"working": {"ready": "yes"}})
        assert await waiting == "yes"
        assert (await anext(watch)).paths == ("session.working.taken",)
        await watch.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(watch)
        assert await session.wait_for("session.working.taken", bool) is True

    run_on(tmp_path / "s", body)


def test_a_cancelled_task_withdraws_its_call_and_waits_for_the_end(tmp_path: Path) -> None:
    root = tmp_path / "s"

    async def body(runtime: aio.Runtime) -> None:
        session = await runtime.open_session(CWD, "main", "active")
        with turn_held(root):
            task = asyncio.create_task(session.patch_state(session={"working": {"never": 1}}))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), 0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await session.accept_response("never")
        await session.patch_state(session={"working": {"later": 1}})
        assert (await session.read_state("session")).value == {"working": {"later": 1}}

    run_on(root, body)


def test_errors_come_across_with_their_code_and_arguments_are_copied(tmp_path: Path) -> None:
    async def body(runtime: aio.Runtime) -> None:
        session = await runtime.open_session(CWD, "main", "active")
        with pytest.raises(StrataflowError) as caught:
            await session.patch_state(session={"wrong": {}})
        assert caught.value.code == "E_PLANE"
        given = {"working": {"list": [1]}}
        task = asyncio.create_task(session.patch_state(session=given))
        await asyncio.sleep(0)
        given["working"]["list"].append(2)
        await task
        assert (await session.read_state("session.working.list")).value == [1]

    run_on(tmp_path / "s", body)


def test_many_tasks_share_one_runtime_and_group_their_commits(tmp_path: Path) -> None:
    async def body(runtime: aio.Runtime) -> None:
        sessions = [await runtime.open_session(CWD, f"s{n}", "active") for n in range(5)]

        async def write(number: int) -> None:
            session = sessions[number % 5]
            await session.patch_state(cwd={"working": {f"k{number}": number}})

        await asyncio.gather(*(write(number) for number in range(100)))
        assert len((await sessions[0].read_state("cwd.working")).value) == 100

    run_on(tmp_path / "s", body)


def test_a_body_that_is_cancelled_or_fails_closes_the_store(tmp_path: Path) -> None:
    root = tmp_path / "s"

    async def main() -> None:
        opened = asyncio.Event()

        async def serve() -> None:
            async with aio.open_runtime(store=str(root), durability="process") as runtime:
                await runtime.open_session(CWD, "main", "active")
                opened.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(serve())
        await opened.wait()
        assert (root / ".state-flow-publication.lock").exists()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not (root / ".state-flow-publication.lock").exists()
        with pytest.raises(ZeroDivisionError):
            async with aio.open_runtime(store=str(root), durability="process"):
                raise ZeroDivisionError

    asyncio.run(main())
    assert_no_thread()


def test_a_loop_that_shuts_down_with_the_store_open_closes_it(tmp_path: Path) -> None:
    root = tmp_path / "s"

    async def main() -> None:
        context = aio.open_runtime(store=str(root), durability="process")
        runtime = await context.__aenter__()
        kept.append(context)
        await runtime.open_session(CWD, "main", "active")

    kept: list[Any] = []
    asyncio.run(main())
    assert_no_thread()
    assert not (root / ".state-flow-publication.lock").exists()


def test_a_loop_that_is_closed_under_the_store_ends_the_thread(tmp_path: Path) -> None:
    root = tmp_path / "s"
    loop = asyncio.new_event_loop()
    context = aio.open_runtime(store=str(root), durability="process")
    loop.run_until_complete(context.__aenter__())
    loop.close()
    for thread in threading.enumerate():
        if thread.name == "strataflow":
            thread.join(10)
    assert_no_thread()
    assert not (root / ".state-flow-publication.lock").exists()


def test_a_store_that_can_not_be_opened_is_refused_where_it_was_asked_for(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(StrataflowError) as caught:
            async with aio.open_runtime(store=str(tmp_path), history_limit=1000):
                pytest.fail("it can not have opened")
        assert caught.value.code == "E_CONFIG"

    asyncio.run(main())
    assert_no_thread()


def test_calls_after_the_end_are_refused_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open_runtime(store=str(tmp_path / "s"), durability="process") as runtime:
            session = await runtime.open_session(CWD, "main", "active")
        with pytest.raises(StoreError, match="E_CLOSED"):
            await session.status()

    asyncio.run(main())
