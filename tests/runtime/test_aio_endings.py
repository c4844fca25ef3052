"""Cancellation and ends on an asyncio loop, at awkward moments: nothing hangs, no thread stays, no error is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.hand_stores import CWD
from kit.runtimes import turn_held
from strataflow import RuntimeFailed, StoreError, StrataflowError, aio
from strataflow.runtime.aio import opening


def opened(root: Path) -> Any:
    return aio.open_runtime(store=str(root), durability="process")


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "strataflow"]


@pytest.mark.slow
def test_an_opening_that_is_cancelled_at_any_step_ends_its_thread_and_its_store(tmp_path: Path) -> None:
    root = tmp_path / "s"

    async def serve() -> None:
        async with opened(root) as runtime:
            session = await runtime.open_session(CWD, "main", "active")
            async with session.run("go") as run:
                await run.project([])
                await run.finish("done")
            await asyncio.Event().wait()

    async def main() -> None:
        for steps in [*range(30), *range(30, 400, 40)]:
            task = asyncio.create_task(serve())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert threads() == []
            assert not (root / ".state-flow-publication.lock").exists()

    asyncio.run(main())


def test_a_body_that_is_cancelled_again_while_the_store_closes_ends_its_thread(tmp_path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def serve() -> None:
            async with opened(tmp_path / "s"):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(serve())
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert threads() == []

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_is_closed_under_a_function_of_transact_ends_the_thread(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    context = opened(tmp_path / "s")
    runtime = loop.run_until_complete(context.__aenter__())
    kept: list[Any] = [context]

    async def begin() -> None:
        session, begun = await runtime.open_session(CWD, "main", "active"), asyncio.Event()

        async def never(tx: aio.Transaction) -> None:
            begun.set()
            await asyncio.Event().wait()

        kept.append(asyncio.ensure_future(session.transact(never)))
        await begun.wait()

    loop.run_until_complete(begin())
    loop.set_exception_handler(lambda _, context: None)  # the tasks that are left pending are what is tested
    loop.close()
    for thread in threads():
        thread.join(10)
    assert threads() == []


def test_a_run_whose_beginning_was_cancelled_is_not_the_sessions_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path / "s") as runtime:
            session = await runtime.open_session(CWD, "main", "active")

            async def begin() -> None:
                async with session.run("never"):
                    await asyncio.Event().wait()

            for steps in range(6):
                task = asyncio.create_task(begin())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await session.project([])
            assert session._inner._cell.context.run is None
            assert session._inner._cell.record.specification is None

    asyncio.run(main())


def test_the_error_of_a_runs_body_is_raised_also_after_the_end_of_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path / "s") as runtime:
            session = await runtime.open_session(CWD, "main", "active")
            context = session.run("go")
            await context.__aenter__()
        assert await context.__aexit__(None, None, None) is None

    asyncio.run(main())


def test_a_fork_that_was_made_for_a_cancelled_caller_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path / "s") as runtime:
            session = await runtime.open_session(CWD, "main", "active")
            await session.patch_state(session={"working": {"a": 1}})
            for number in range(0, 30, 3):
                task = asyncio.create_task(session.fork(f"child{number}"))
                for _ in range(number):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await (await task).aclose()
            assert list(runtime._inner._sessions._cells) == [(CWD, "main")]

    asyncio.run(main())


def test_a_runtime_that_fails_cancels_the_body_and_raises_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail: list[Any] = []

    @asynccontextmanager
    async def failing(*_: Any, **options: Any) -> AsyncIterator[Any]:
        with trio.CancelScope() as scope:
            fail.append(scope.cancel)
            yield object()
        raise RuntimeFailed("E_BROKEN", "the store's actor ended again and again")

    monkeypatch.setattr(opening, "open_on_trio", failing)

    async def serve(*, waits: bool) -> None:
        async with opened(tmp_path / "s") as runtime:
            runtime._bridge.ask(fail.pop())
            if waits:
                await asyncio.Event().wait()

    async def main() -> None:
        current = asyncio.current_task()
        assert current is not None
        for waits in (True, False):  # also when the body was about to end
            with pytest.raises(RuntimeFailed):
                await serve(waits=waits)
            assert current.cancelling() == 0

    asyncio.run(main())
    assert threads() == []


def test_a_call_from_another_asyncio_loop_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path / "s") as runtime:
            session = await runtime.open_session(CWD, "main", "active")
            with pytest.raises(StoreError, match="E_UNSUPPORTED"):
                await asyncio.to_thread(lambda: asyncio.run(session.accept_response("never")))
            assert (await session.read_state("session")).value == {}

    asyncio.run(main())


def test_an_argument_without_an_end_is_refused_like_on_the_other_side(tmp_path: Path) -> None:
    async def main() -> None:
        endless: dict[str, Any] = {}
        endless["again"] = endless
        async with opened(tmp_path / "s") as runtime:
            session = await runtime.open_session(CWD, "main", "active")
            for call in (
                session.patch_state(session={"working": endless}),
                session.call("patch_state", {"session": {"working": endless}}),
            ):
                with pytest.raises(StrataflowError) as caught:
                    await call
                assert caught.value.code == "E_JSON"

    asyncio.run(main())


def test_patches_that_wait_are_withdrawn_with_their_tasks_while_the_turn_is_held(tmp_path: Path) -> None:
    root = tmp_path / "s"

    async def main() -> None:
        async with opened(root) as runtime:
            session = await runtime.open_session(CWD, "main", "active")
            with turn_held(root):
                tasks = [asyncio.create_task(session.patch_state(session={"working": {"a": n}})) for n in range(5)]
                await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                found = await asyncio.gather(*tasks, return_exceptions=True)
                assert {type(error) for error in found} == {asyncio.CancelledError}
            assert (await session.read_state("session")).value == {}

    asyncio.run(main())
    assert threads() == []
