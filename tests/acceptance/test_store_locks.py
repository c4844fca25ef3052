"""Who may use the store: Pi's lock, our turn, membership (store 2.1, cases 31 to 40, Ours-3)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.hand_stores import HandStore
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, turn_held, value, values
from strataflow.store import StoreError

LOCK = ".state-flow-publication.lock"


def lock_of(root: Path, content: str | None = None) -> Path:
    """The lock of Pi, with this content if one is given."""
    root.mkdir(exist_ok=True)
    if content is not None:
        (root / LOCK).write_text(content)
    return root / LOCK


@pytest.fixture
def fast_clock() -> MockClock:
    """Time that passes five times as fast. It can not jump: threads at work would seem to hang."""
    return MockClock(rate=5)


async def keep_open(root: Path, is_open: trio.Event) -> None:
    """Have the store open until cancelled, and say so."""
    async with opened(root):
        is_open.set()
        await trio.sleep_forever()


@holds("case store 31", "store 2.1.1", "store 2.1.4", "Ours-3")
async def test_a_living_process_that_holds_the_lock_is_waited_for(tmp_path: Path, fast_clock: MockClock) -> None:
    store = HandStore(tmp_path).write()
    lock = lock_of(tmp_path, f"{os.getppid()}\n")
    done = trio.Event()

    async def patch() -> None:
        async with session_of(tmp_path) as session:
            assert (await session.patch_state(cwd={"working": {"a": 1}})).changed
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(patch)
        for _ in range(22):  # the loop is free meanwhile
            await trio.sleep(0.1)
        assert not done.is_set()
        assert lock.read_text() == f"{os.getppid()}\n"
        lock.unlink()
    assert done.is_set()
    assert store.get("cwd", "patches.jsonl") == [{"working": {"a": 1}}]
    assert not lock.exists()


@holds("case store 32", "store 2.1.9", "J7")
async def test_a_wait_for_the_lock_can_be_cancelled_and_changes_nothing(tmp_path: Path, fast_clock: MockClock) -> None:
    store = HandStore(tmp_path).write()
    before = store.bytes()
    lock = lock_of(tmp_path, f"{os.getppid()}\n")
    with trio.move_on_after(1) as scope:
        async with session_of(tmp_path):
            raise AssertionError("opened")
    assert scope.cancelled_caught
    assert lock.read_text() == f"{os.getppid()}\n"
    assert store.bytes() == before
    assert list((tmp_path / ".strataflow/open").iterdir()) == []


@holds("case store 33", "case store 36", "store 2.1.3", "store 2.1.6", "store 2.1.7", "Ours-3")
@pytest.mark.parametrize(
    "content", ["unrecognized", "interrupted\n", "007\n", "-1\n", "1 2\n", "99999999999999999999\n"]
)
async def test_a_lock_that_names_no_process_is_refused_and_stays(tmp_path: Path, content: str) -> None:
    lock = lock_of(tmp_path, content)
    with refused("E_LOCK") as caught:
        async with opened(tmp_path):
            raise AssertionError("opened")
    assert caught.value.data["path"] == str(lock)
    assert lock.read_text() == content


@holds("case store 33", "store 2.1.6", "Ours-3")
async def test_a_lock_of_a_dead_stranger_is_refused_with_its_owner(tmp_path: Path) -> None:
    pid = (await trio.run_process([sys.executable, "-c", "import os; print(os.getpid())"], capture_stdout=True)).stdout
    lock = lock_of(tmp_path, f"{int(pid)}\n")
    with refused("E_LOCK") as caught:
        async with opened(tmp_path):
            raise AssertionError("opened")
    assert caught.value.data["pid"] == int(pid)
    assert "unlock" in caught.value.message
    assert lock.read_text() == f"{int(pid)}\n"


@holds("case store 34", "store 2.1.3")
@pytest.mark.parametrize("kind", ["folder", "symlink", "broken-symlink"])
async def test_a_lock_that_is_no_file_is_refused_and_untouched(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "state-flow"
    lock, target = lock_of(store), tmp_path / "target"
    if kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(target)
    if kind == "symlink":
        target.write_text(f"{os.getppid()}\n")
    with refused("E_LOCK"):
        async with opened(store):
            raise AssertionError("opened")
    assert lock.is_dir() if kind == "folder" else lock.is_symlink()
    assert target.exists() == (kind == "symlink")


@holds("case store 35", "store 2.1.5")
async def test_a_lock_that_stays_empty_is_given_two_seconds(tmp_path: Path, fast_clock: MockClock) -> None:
    lock = lock_of(tmp_path, "")
    began = trio.current_time()
    with refused("E_LOCK"):
        async with opened(tmp_path):
            raise AssertionError("opened")
    assert trio.current_time() - began >= 2.0
    assert lock.read_text() == ""


@holds("case store 35", "case store 36", "store 2.1.5")
async def test_a_lock_that_is_filled_in_time_is_waited_for(tmp_path: Path, fast_clock: MockClock) -> None:
    lock = lock_of(tmp_path, "")
    async with trio.open_nursery() as nursery:
        is_open = trio.Event()
        nursery.start_soon(keep_open, tmp_path, is_open)
        await trio.sleep(1.5)
        lock.write_text(f"{os.getppid()}\n")
        await trio.sleep(5)
        assert not is_open.is_set()
        lock.unlink()
        await is_open.wait()
        nursery.cancel_scope.cancel()
    assert not lock.exists()


@holds("case store 37", "store 2.1.8", "Ours-3")
async def test_a_second_runtime_of_the_same_process_works_beside_the_first(tmp_path: Path) -> None:
    # The lock is held by processes and turns, not by chains of calls: nothing can ask for what itself holds.
    async with session_of(tmp_path, "one") as one:
        await one.patch_state(global_={"working": {"a": 1}})
        async with session_of(tmp_path, "two") as two:
            await two.patch_state(global_={"working": {"b": 2}})
            assert await value(two, "global.working") == {"a": 1, "b": 2}
        assert lock_of(tmp_path).read_text() == f"{os.getpid()}\n"
        await one.patch_state(global_={"working": {"c": 3}})
    assert not lock_of(tmp_path).exists()


@holds("case store 38", "store 2.1.10", "Ours-3")
async def test_a_lock_that_others_put_in_place_of_ours_stays(tmp_path: Path) -> None:
    lock = lock_of(tmp_path)
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(cwd={"working": {"a": 1}})
        lock.unlink()
        lock.write_text(f"{os.getppid()}\n")
        report = await runtime.aclose()
    assert lock.read_text() == f"{os.getppid()}\n"
    assert not report.pi_lock_removed
    assert LOCK in " ".join(report.left_behind)
    lock.unlink()
    async with session_of(tmp_path) as session:
        assert await value(session, "cwd.working.a") == 1


@holds("case store 38", "store 2.1.10", "Ours-3", "J8")
async def test_a_refused_checkpoint_and_a_strange_lock_are_both_reported(tmp_path: Path) -> None:
    lock, blocked = lock_of(tmp_path), tmp_path / "--project--"
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(cwd={"working": {"a": 1}})
        blocked.write_text("a file where the folder should be")
        lock.unlink()
        lock.write_text("strange\n")
        report = await runtime.aclose()
    assert lock.read_text() == "strange\n"
    assert not report.pi_lock_removed
    assert report.left_behind
    lock.unlink()
    blocked.unlink()
    async with session_of(tmp_path) as session:
        assert await value(session, "cwd.working.a") == 1


@holds("case store 39", "store 2.1.9", "store 3.3.4", "Ours-3")
async def test_of_three_waiting_calls_the_cancelled_one_alone_does_not_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        scopes = [trio.CancelScope() for _ in range(3)]

        async def patch(number: int) -> None:
            with scopes[number]:
                await session.patch_state(session={"working": {f"n{number}": number}})

        async with trio.open_nursery() as nursery:
            with turn_held(tmp_path):
                for number in range(3):
                    nursery.start_soon(patch, number)
                    await wait_all_tasks_blocked()
                scopes[1].cancel()
                await wait_all_tasks_blocked()
                assert (await session.status())["step"] == 0
        assert [scope.cancelled_caught for scope in scopes] == [False, True, False]
        assert await value(session, "session.working") == {"n0": 0, "n2": 2}
        assert await value(session, "session[1].working") == {"n0": 0}
    assert not lock_of(tmp_path).exists()


@holds("case store 39", "J8")
async def test_of_three_waiting_runtimes_the_cancelled_one_alone_does_not_open(
    tmp_path: Path, fast_clock: MockClock
) -> None:
    lock = lock_of(tmp_path, f"{os.getppid()}\n")
    async with trio.open_nursery() as nursery:
        scopes, opens = [trio.CancelScope() for _ in range(3)], [trio.Event() for _ in range(3)]

        async def wait(number: int) -> None:
            with scopes[number]:
                await keep_open(tmp_path, opens[number])

        for number in range(3):
            nursery.start_soon(wait, number)
        await trio.sleep(1)
        scopes[1].cancel()
        await trio.sleep(1)
        assert not any(event.is_set() for event in opens)
        lock.unlink()
        await opens[0].wait()
        await opens[2].wait()
        assert not opens[1].is_set()
        assert lock.read_text() == f"{os.getpid()}\n"
        nursery.cancel_scope.cancel()
    assert not lock.exists()


@holds("case store 40", "store 2.1.11")
async def test_a_handle_that_outlives_its_runtime_is_closed(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        early = await runtime.open_session("/project", "s2", "active")
        await early.aclose()
        with refused("E_CLOSED"):
            await early.patch_state(session={"working": {"a": 1}})
    before = HandStore(tmp_path).bytes()
    with refused("E_CLOSED"):
        await session.patch_state(session={"working": {"a": 1}})
    with refused("E_CLOSED"):
        await session.read_state("session")
    with refused("E_CLOSED"):
        await runtime.open_session("/project", "s3", "active")
    assert HandStore(tmp_path).bytes() == before


@holds("store 2.1.11", "P21", "store 3.1.14")
async def test_a_call_that_waits_while_its_session_closes_is_whole_or_not_at_all(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(session={"working": {"a": 1}})
        outcomes: list[str] = []

        async def patch() -> None:
            try:
                await session.patch_state(session={"working": {"a": 2}})
            except StoreError as error:
                outcomes.append(error.code)
            else:
                outcomes.append("accepted")

        async with trio.open_nursery() as nursery:
            with turn_held(tmp_path):
                nursery.start_soon(patch)
                await wait_all_tasks_blocked()
                nursery.start_soon(session.aclose)
                await wait_all_tasks_blocked()
        assert outcomes in (["E_CLOSED"], ["accepted"])
        again = await runtime.open_session("/project", "s1")
        expected = [1, {}] if outcomes == ["E_CLOSED"] else [2, {"working": {"a": 1}}]
        assert await values(again, "session.working.a", "session[1]") == expected


@holds("Ours-3", "J8", "store 1.1.2", "store 2.1.1")
async def test_the_lock_towards_pi_names_a_living_process_until_the_last_one_leaves(tmp_path: Path) -> None:
    lock = lock_of(tmp_path)
    async with opened(tmp_path) as last:
        async with opened(tmp_path):
            assert lock.read_text() == f"{os.getpid()}\n"
            assert lock.stat().st_mode & 0o777 == 0o600
        assert lock.read_text() == f"{os.getpid()}\n"
        report = await last.aclose()
        assert report.was_last
        assert report.pi_lock_removed
        assert report.left_behind == ()
    assert not lock.exists()


@holds("Ours-3", "J7")
async def test_a_store_is_open_one_way_only(tmp_path: Path) -> None:
    async with opened(tmp_path):
        with refused("E_LOCK") as caught:
            async with opened(tmp_path, share_with_pi=True):
                raise AssertionError("opened")
        assert "shared with Pi" in caught.value.message
        assert "exclusively" in caught.value.message
    async with opened(tmp_path, share_with_pi=True):
        assert not lock_of(tmp_path).exists()
        with refused("E_LOCK"):
            async with opened(tmp_path):
                raise AssertionError("opened")


@holds("Ours-3", "store 2.1.2", "store 2.3.1")
async def test_a_shared_store_is_complete_on_disk_after_every_answer(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path, share_with_pi=True) as session:
        for number in range(3):
            await session.patch_state(cwd={"working": {"n": number}})
            assert store.get("cwd", "patches.jsonl")[-1] == {"working": {"n": number}}
            assert store.get("session", "runtime.json")["step"] == number + 1
            assert not lock_of(tmp_path).exists()
