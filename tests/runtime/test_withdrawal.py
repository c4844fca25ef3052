"""What waits for the store's lock is withdrawn at once, while another process still holds it (L12, L28, L29, L33)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import opened, refused, values
from strataflow.runtime import Runtime, Session
from strataflow.store import FlockLocks

_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a+b")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[Callable[[], bool]]:
    """Another process holds a kernel lock for the body; gives the question whether it still does."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        def is_held() -> bool:
            lock = FlockLocks().open(str(path))
            try:
                return holder.poll() is None and not lock.try_acquire()
            finally:
                lock.close()

        yield is_held
        holder.kill()


async def patch(session: Session) -> Any:
    return await session.patch_state(session={"working": {"waited": True}})


async def prepare(session: Session) -> Any:
    async with session.run("never") as run:
        return await run.project([])


async def answer(session: Session) -> Any:
    return await session.accept_response("never")


async def activate(session: Session) -> Any:
    return await session.set_mode("active")


async def cancel(session: Session, scope: trio.CancelScope) -> None:
    scope.cancel()


async def off(session: Session, scope: trio.CancelScope) -> None:
    await session.set_mode("off")


async def close(session: Session, scope: trio.CancelScope) -> None:
    session._cell.close()


def rows(runtime: Runtime) -> int:
    return len(runtime._world.journal.rows_since(0, 1_000))


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*.json*") if ".strataflow" not in path.parts}


@holds("L12", "L28", "L29", "L33", "case agent 135", "case agent 140", "store 3.4.5", "store 6.1.2")
@pytest.mark.parametrize("ending", [cancel, off, close])
@pytest.mark.parametrize("work", [patch, prepare, answer, activate])
async def test_what_waits_is_withdrawn_while_another_process_still_holds_the_lock(
    tmp_path: Path,
    work: Callable[[Session], Awaitable[Any]],
    ending: Callable[[Session, trio.CancelScope], Awaitable[None]],
) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "passive" if work is activate else "active")
        other = await runtime.open_session(CWD, "other", "active")
        await session.patch_state(session={"working": {"kept": True}})
        await runtime.checkpoint()
        before, count = files(root), rows(runtime)
        ended = trio.Event()

        async def wait_for_it() -> None:
            try:
                if (work, ending) == (activate, off):
                    assert await work(session) == "off"  # a choice that gave way to another is no trouble of anybody
                else:
                    with refused("E_ABORTED", "E_OFF", "E_CLOSED"):
                        await work(session)
            finally:
                ended.set()

        with held_by_another_process(root / ".strataflow/turn.lock") as is_held:
            async with trio.open_nursery() as nursery:
                scope = nursery.cancel_scope
                nursery.start_soon(wait_for_it)
                await wait_all_tasks_blocked(0.05)
                assert not ended.is_set()
                await ending(session, scope)
                # In one of the cases the scope is cancelled by now. What waits ends at once; if it hangs, this says so.
                with trio.CancelScope(shield=True), trio.fail_after(5):
                    await ended.wait()
                assert is_held()
                assert rows(runtime) == count
                assert files(root) == before
        # The lock is free again, and nothing of what was withdrawn happens after all.
        await other.patch_state(session={"working": {"later": True}})
        assert rows(runtime) == count + 1
        again = session
        if ending is not cancel:
            await session.aclose()
            again = await runtime.open_session(CWD, "main", "passive")
        assert await values(again, "session.working", "session.response") == [{"kept": True}, None]
        assert again._cell.record is not None
        assert again._cell.record.specification is None
