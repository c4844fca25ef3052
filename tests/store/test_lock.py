"""Real and simulated locks and process tables against one suite, then what takes real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.conformance_lock import LockConformance, ProcessTableConformance, Waiting
from strataflow.runtime.simulation import SimulatedDisk, SimulatedLocks, SimulatedProcessTable
from strataflow.store import FlockLocks, ProcessIdentity, ProcessTable, RealProcessTable, StoreError, lock_holder_pid

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")


class RealWorld:
    """Two openings of one file exclude each other within a process as they do between processes."""

    def __init__(self, root: str) -> None:
        self.first = FlockLocks()
        self.second = FlockLocks(root=root)
        self.root = root

    def symlink(self, path: str, target: str) -> None:
        os.symlink(target, path)

    def make_folder(self, path: str) -> None:
        os.mkdir(path)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def file_identity(self, path: str) -> tuple[int, int]:
        found = os.lstat(path)
        return found.st_dev, found.st_ino


class SimulatedWorld:
    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.root = "/s"
        self.disk.plant(self.root)
        self.locks = SimulatedLocks(self.disk)
        self.first = self.locks.of("first")
        self.second = self.locks.of("second")

    def symlink(self, path: str, target: str) -> None:
        self.disk.plant(path, "symlink", target.encode())

    def make_folder(self, path: str) -> None:
        self.disk.make_folder(path)

    def unlink(self, path: str) -> None:
        self.disk.unlink(path)

    def file_identity(self, path: str) -> tuple[int, int]:
        found = self.disk.stat(path)
        assert found is not None
        return found.device, found.inode


class TestFlock(LockConformance):
    @pytest.fixture
    def world(self, tmp_path: Path) -> RealWorld:
        return RealWorld(str(tmp_path))


class TestSimulatedLock(LockConformance):
    @pytest.fixture
    def world(self) -> SimulatedWorld:
        return SimulatedWorld()


@linux
class TestRealProcessTable(ProcessTableConformance):
    @pytest.fixture
    def table(self) -> ProcessTable:
        return RealProcessTable()


class TestSimulatedProcessTable(ProcessTableConformance):
    @pytest.fixture
    def table(self) -> ProcessTable:
        return SimulatedProcessTable().start("one")


# Simulated processes


def test_a_killed_process_loses_its_locks_and_its_waits() -> None:
    world = SimulatedWorld()
    held, waiting = world.first.open("/s/a"), world.second.open("/s/a")
    assert held.try_acquire()
    outcome = Waiting(waiting, world.second.attempt())
    world.locks.wait_for_waiters("/s/a", 1)
    third = Waiting(world.locks.of("third").open("/s/a"), world.first.attempt())
    world.locks.wait_for_waiters("/s/a", 2)
    world.locks.kill("second")
    with pytest.raises(StoreError, match="killed"):
        outcome.outcome()
    world.locks.kill("first")
    assert third.outcome() is True
    assert not held.is_held
    assert world.locks.holder("/s/a") == "third"
    with pytest.raises(StoreError, match="killed"):
        held.try_acquire()


def test_simulated_waiters_are_served_in_their_order() -> None:
    world = SimulatedWorld()
    locks = [world.locks.of(str(number)).open("/s/a") for number in range(4)]
    assert locks[0].try_acquire()
    waits = []
    for number in (1, 2, 3):
        waits.append(Waiting(locks[number], world.first.attempt()))
        world.locks.wait_for_waiters("/s/a", number)
    for number in (1, 2, 3):
        locks[number - 1].release()
        assert waits[number - 1].outcome() is True
        assert world.locks.holder("/s/a") == str(number)


def test_a_simulated_id_used_again_is_another_process() -> None:
    table = SimulatedProcessTable()
    old = table.start("old").own()
    table.kill("old")
    viewer = table.start("new", pid=old.pid)
    assert viewer.pid_exists(old.pid)
    assert not viewer.is_alive(old)
    table.reboot()
    later = table.start("later", pid=old.pid)
    assert later.own() != old
    assert not later.is_alive(old)


# Real processes

SCRIPT_HEAD = """
import os, sys, threading
from strataflow.store import FlockLocks, RealProcessTable, StoreError
path = sys.argv[1]
def copies():
    "How many descriptors of this process lead to the lock file."
    found = 0
    for descriptor in range(3, 256):
        try:
            found += os.fstat(descriptor).st_ino == os.stat(path).st_ino
        except OSError:
            pass
    return found
def say(text):
    os.write(1, text.encode() + b"\\n")
sys.excepthook = lambda kind, error, trace: say(f"failed in line {trace.tb_lineno}: {error!r}")
"""


Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"{tmp_path}/turn.lock"


@pytest.fixture
def start(path: str) -> Iterator[Start]:
    """Starts a script; whatever a failing test leaves behind is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start_script(script: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT_HEAD + script, path]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
        started.append(process)
        return process

    yield start_script
    for process in started:
        process.kill()
        end(process)


def environment() -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=os.pathsep.join(entry for entry in sys.path if entry))


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def end(process: subprocess.Popen[bytes]) -> None:
    """Close its input, on which all scripts wait at their end, and reap it."""
    assert process.stdin is not None
    assert process.stdout is not None
    if not process.stdout.closed:
        process.stdin.close()
        process.stdout.read()  # until the last of its children has ended too
        process.stdout.close()
    process.wait()


HOLD = """
lock = FlockLocks().open(path)
assert lock.try_acquire()
say("held")
sys.stdin.read()
"""


def test_the_lock_of_a_killed_holder_is_free_at_once(start: Start, path: str) -> None:
    holder = start(HOLD)
    assert line(holder) == "held"
    lock = FlockLocks().open(path)
    assert not lock.try_acquire()
    waiting = Waiting(lock, FlockLocks().attempt())
    holder.kill()
    assert waiting.outcome() is True
    end(holder)
    lock.close()


@linux
def test_the_holder_of_a_lock_is_named(start: Start, path: str) -> None:
    lock = FlockLocks().open(path)
    identity = lock.identity()
    assert identity is not None
    assert lock_holder_pid(*identity) is None
    holder = start(HOLD)
    assert line(holder) == "held"
    assert lock_holder_pid(*identity) == holder.pid
    end(holder)
    assert lock.try_acquire()
    assert lock_holder_pid(*identity) == os.getpid()
    lock.close()


FORK = """
lock = FlockLocks().open(path)
assert lock.try_acquire()
reader, writer = os.pipe()
if os.fork() == 0:
    assert copies() == 0 and not lock.is_held
    try:
        lock.try_acquire()
    except StoreError as error:
        assert error.code == "E_CLOSED" and "forked" in str(error)
    lock.release()
    lock.close()
    own = FlockLocks().open(path)
    assert not own.try_acquire()
    os.write(writer, b"done")
    sys.stdin.read()
    os._exit(0)
os.close(writer)
assert os.read(reader, 4) == b"done"
assert lock.is_held
other = FlockLocks().open(path)
assert not other.try_acquire()
lock.release()
assert other.try_acquire()
say("correct")
sys.stdin.read()
"""


def test_a_forked_child_holds_nothing_and_frees_nothing(start: Start) -> None:
    process = start(FORK)
    assert line(process) == "correct"
    end(process)
    assert process.returncode == 0


FORK_WHILE_WAITING = """
first, second = FlockLocks().open(path), FlockLocks().open(path)
assert first.try_acquire()
attempt = FlockLocks().attempt()
thread = threading.Thread(target=second.acquire_blocking, args=(attempt,), daemon=True)
thread.start()
while copies() < 3:
    pass
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, b"%d" % copies())
    sys.stdin.read()
    os._exit(0)
assert os.read(reader, 4) == b"0"
first.release()
thread.join()
assert second.is_held
say("correct")
sys.stdin.read()
"""


def test_a_fork_during_a_wait_inherits_no_descriptor(start: Start) -> None:
    process = start(FORK_WHILE_WAITING)
    assert line(process) == "correct"
    end(process)


FORK_AND_DIE = """
lock = FlockLocks().open(path)
assert lock.try_acquire()
if os.fork() == 0:
    say("forked")
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""


def test_a_living_child_does_not_keep_the_lock_of_a_killed_parent(start: Start, path: str) -> None:
    parent = start(FORK_AND_DIE)
    assert line(parent) == "forked"
    lock = FlockLocks().open(path)
    assert not lock.try_acquire()
    parent.kill()
    parent.wait()
    assert lock.try_acquire()  # the child still reads its input
    end(parent)
    lock.close()


def test_a_started_program_inherits_no_descriptor(path: str) -> None:
    lock = FlockLocks().open(path)
    assert lock.try_acquire()
    command = [sys.executable, "-c", SCRIPT_HEAD + "say(str(copies()))", path]
    shown = subprocess.run(command, close_fds=False, stdout=subprocess.PIPE, env=environment(), check=True).stdout
    assert shown.strip() == b"0"
    lock.close()


def test_a_lock_that_was_never_closed_is_reported_and_freed(path: str) -> None:
    lock = FlockLocks().open(path)
    assert lock.try_acquire()
    with pytest.warns(ResourceWarning, match="never closed"):
        del lock
    again = FlockLocks().open(path)
    assert again.try_acquire()
    again.close()


def test_an_existing_lock_file_keeps_mode_and_content(path: str) -> None:
    Path(path).write_text("note")
    os.chmod(path, 0o640)
    FlockLocks().open(path).close()
    assert Path(path).read_text() == "note"
    assert os.stat(path).st_mode & 0o777 == 0o640
    fresh = path + ".new"
    FlockLocks().open(fresh).close()
    assert os.stat(fresh).st_mode & 0o777 == 0o600


IDENTITY = """
import json
with open("/proc/self/comm", "w") as comm:
    comm.write("a) Z 1 (b")
own = RealProcessTable().own()
say(json.dumps([own.pid, own.start_time, own.boot_id]))
sys.stdin.read()
"""


@linux
def test_a_process_with_an_odd_name_lives_until_it_is_killed(start: Start, path: str) -> None:
    Path(path).touch()
    process = start(IDENTITY)
    identity = ProcessIdentity(*json.loads(line(process)))
    table = RealProcessTable()
    assert identity.pid == process.pid
    assert identity.start_time > 0
    assert identity.boot_id == table.own().boot_id
    assert table.is_alive(identity)
    process.kill()
    # Not reaped yet: the id is in use, but nothing runs behind it.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert table.pid_exists(process.pid)
    assert not table.is_alive(identity)
    end(process)
    assert not table.pid_exists(process.pid)


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become a user who may not signal")
def test_a_process_that_may_not_be_signalled_exists() -> None:
    os.seteuid(65_534)
    try:
        assert RealProcessTable().pid_exists(1)
    finally:
        os.seteuid(0)


def test_unknown_details_of_a_process_count_for_life() -> None:
    own = RealProcessTable().own()
    assert RealProcessTable().is_alive(ProcessIdentity(own.pid, 0, ""))
