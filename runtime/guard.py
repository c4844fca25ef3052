"""Ending everything that came of a command; and the guard, a program that does so also when its parent is killed.

The guard stands between this process and a command that may start programs of others. It runs the command in a session
of its own and is what the kernel gives orphans to (a subreaper), so that whatever comes of the command stays below it:
another session, another group, another environment are no way out. When the command has ended, or the pipe from its own
parent closes, which also happens when that parent is killed, it ends everything below itself, and then itself.

    RUNNING --the command has ended--------> ENDING --nobody is left below--> gone, with the command's exit code
       +-----the pipe closed, parent gone---> ENDING --nobody is left below--> gone

Called as ``python -I -S guard.py LEASH GRACE_S COMMAND...``: the descriptor of the pipe, and seconds. It must start
quickly, so it imports little, and nothing of this package.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable

_SET_CHILD_SUBREAPER = 36
_PARENT_LOOK_S = 0.5
_NOT_STARTED = 127
# Not seconds: a look at all processes takes a few milliseconds.
_LOOK_AGAIN_S = 0.02
_KILLING_S = 1.5


def family_of(root: int) -> set[int]:
    """The living descendants of a process, without itself; zombies do not count."""
    below: dict[int, list[int]] = {}
    living: set[int] = set()
    for pid, parent, group, state in _processes():
        del group
        below.setdefault(parent, []).append(pid)
        if state not in "ZXx":
            living.add(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        fresh = [pid for pid in below.get(waiting.pop(), ()) if pid not in found]
        found.update(fresh)
        waiting += fresh
    return found & living


def group_of(leader: int) -> set[int]:
    """The living members of a process group."""
    return {pid for pid, _, group, state in _processes() if group == leader and state not in "ZXx"}


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"], [b"x"])
    except OSError:
        return False


def marked_with(mark: str) -> set[int]:
    """The living processes that have ``mark``, such as ``NAME=value``, in the environment they were started with."""
    wanted = mark.encode()
    found = set()
    for pid, _, _, state in _processes():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0") and state not in "ZXx":
                found.add(pid)
    found.discard(os.getpid())
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal for each of them that is still there."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def end(
    look: Callable[[], set[int]], grace_s: float, reap: Callable[[], None] = lambda: None, is_urgent: bool = False
) -> set[int]:
    """Ask everybody whom ``look`` finds to end, then kill them, until it finds nobody. Blocking.

    Returns who is left after all: only what the kernel itself holds up can be.
    """
    deadline = time.monotonic() + grace_s
    asked: set[int] = set()
    while found := look():
        if is_urgent or time.monotonic() > deadline:
            break
        send(found - asked, signal.SIGTERM)
        asked |= found
        time.sleep(_LOOK_AGAIN_S)
        reap()
    deadline = time.monotonic() + _KILLING_S
    while found := look():
        if time.monotonic() > deadline:
            return found
        send(found, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN_S)
        reap()
    return set()


def _processes() -> list[tuple[int, int, int, str]]:
    """Every process: id, parent, group, state. Empty where there is no ``/proc``."""
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The name in brackets may hold blanks and brackets; after the last one come state, parent and group.
                fields = file.read().rpartition(b")")[2].split()
                found.append((int(name), int(fields[1]), int(fields[2]), fields[0].decode()))
    return found


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code, 128 and more for a signal."""
    leash, grace_s, *command = arguments
    if sys.platform == "linux":
        import ctypes  # only here: whoever uses the functions above has no need of it

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    parent = os.getppid()
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # What asks this program to end is meant for what it guards.
    leaving: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: leaving.append(number))
    child = os.fork()
    if child == 0:
        _become(command, int(leash))
    for descriptor in (0, 1):  # the command has them; only it may keep them open
        os.close(descriptor)
    status: list[int] = []

    def reap() -> None:
        while True:
            try:
                pid, found = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == child:
                status.append(os.waitstatus_to_exitcode(found))

    reap()
    while not status and not leaving and os.getppid() == parent:
        ready, _, _ = select.select([int(leash), wake_read], [], [], _PARENT_LOOK_S)
        if int(leash) in ready:
            break
        if ready:
            os.read(wake_read, 4096)
        reap()
    end(lambda: family_of(os.getpid()), float(grace_s), reap)
    reap()
    code = status[0] if status else -int(signal.SIGTERM)
    return code if code >= 0 else 128 - code


def _become(command: list[str], leash: int) -> None:
    try:
        os.setsid()
        os.close(leash)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
