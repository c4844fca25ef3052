"""Remotes that hang, in every way in which a push can: each says that it hangs, and then does."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

from kit.git_repositories import StoreRepository

# What runs after the hook has told that it runs. ``{sleep}`` is a program that sleeps, named for this test alone.
HOOKS = {
    "a hook that sleeps": "exec {sleep}",
    "a hook that ignores SIGTERM": "trap '' TERM; while :; do {sleep}; done",
    "a child in a session of its own": "setsid {sleep} & setsid sh -c 'trap \"\" TERM; {sleep}' & {sleep}",
    "a child without environment or session": "env -i setsid sh -c 'trap \"\" TERM; {sleep} & {sleep}' & {sleep}",
    "a grandchild that holds the pipes of a push that has failed": "setsid {sleep} & exit 1",
}
WAYS = (*HOOKS, "a silent HTTP server", "a stand-in for ssh", "a helper for a strange protocol")


@attrs.define(eq=False)
class HangingRemote:
    """A remote that hangs. ``word`` stands in the command line of every process of the push, or in its folder."""

    made: StoreRepository
    word: str
    _pipe: Path
    _accepted: threading.Event = attrs.field(factory=threading.Event)

    async def wait_hanging(self) -> None:
        """Wait until it hangs, at most half a minute."""
        with trio.fail_after(30):
            await trio.to_thread.run_sync(self._wait, abandon_on_cancel=True)

    def _wait(self) -> None:
        if self._pipe.exists():
            self._pipe.read_text()
        else:
            assert self._accepted.wait(30)


@contextmanager
def hanging_remote(made: StoreRepository, way: str) -> Iterator[HangingRemote]:
    """The branch of the repository is pushed to a remote of this kind."""
    sleep = made.folder / "bin" / "sleep-for-ever"
    sleep.parent.mkdir()
    sleep.symlink_to("/bin/sleep")
    pipe = made.folder / "hangs"
    found = HangingRemote(made, str(made.folder), pipe)
    text = f"echo > {pipe}; {sleep} 1000"
    if way in HOOKS:
        os.mkfifo(pipe)
        made.with_remote()
        made.hook("pre-receive", f"echo > {pipe}\n" + HOOKS[way].replace("{sleep}", f"{sleep} 1000"))
        yield found
    elif way == "a silent HTTP server":
        with socket.create_server(("127.0.0.1", 0)) as server:
            made.with_remote(f"http://127.0.0.1:{server.getsockname()[1]}/repository")
            threading.Thread(target=_accept, args=(server, found._accepted), daemon=True).start()
            yield found
    else:
        os.mkfifo(pipe)
        if way == "a stand-in for ssh":
            program = made.folder / "bin" / "ssh"
            made.with_remote("ssh://host.invalid/repository")
            made.git("config", "core.sshCommand", str(program))
        else:
            program = made.folder / "bin" / "git-remote-strange"
            made.with_remote("strange::repository")
            # Git looks for helpers in PATH.
            os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        try:
            yield found
        finally:
            os.environ["PATH"] = os.environ["PATH"].removeprefix(f"{program.parent}:")


def _accept(server: socket.socket, accepted: threading.Event) -> None:
    try:
        connection, _ = server.accept()
    except OSError:
        return  # the test is over
    accepted.set()
    while connection.recv(4096):
        pass
    connection.close()


assert sys.platform != "win32"
