"""Running other programs: the real form, guarded and not, and the simulated one, by one suite."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from kit.conformance_processes import ANSWERS, FAILS, HANGS, IGNORES_TERM, MISSING, ProcessesConform
from kit.git_repositories import processes_about
from strataflow.actors import Command, Ended, NoProcesses
from strataflow.runtime.processes import SystemProcesses
from strataflow.runtime.simulation.processes import Program, SimulatedProcesses

_SCRIPTS = {
    ANSWERS: "cat; echo said >&2",
    FAILS: "exit 3",
    HANGS: "sleep 1000 & sleep 1000",
    IGNORES_TERM: "trap '' TERM; while :; do sleep 1000; done",
}


@attrs.frozen
class RealWorld:
    folder: Path
    is_guarded: bool
    processes: SystemProcesses = attrs.field(factory=SystemProcesses)

    def command(self, program: str, stdin: bytes = b"", limit_s: float = 30.0) -> Command:
        script = _SCRIPTS.get(program)
        arguments = ("sh", "-c", script) if script else (f"{self.folder}/no-such-program",)
        # A guard is there in any case; what it can not start it says with an exit code.
        is_guarded = self.is_guarded and program != MISSING
        return Command(arguments, str(self.folder), dict(os.environ), stdin, limit_s, is_guarded)

    def left(self) -> int:
        return len(processes_about(str(self.folder)))


@pytest.mark.slow
class TestRealProcesses(ProcessesConform):
    @pytest.fixture(params=[False, True], ids=["plain", "guarded"])
    def world(self, request: pytest.FixtureRequest, tmp_path: Path) -> RealWorld:
        return RealWorld(tmp_path, request.param)


class SimulatedWorld:
    def __init__(self) -> None:
        self.processes = SimulatedProcesses(self._program)

    def _program(self, command: Command) -> Program:
        name = command.arguments[0]
        if name == MISSING:
            raise FileNotFoundError(2, "no such program", name)
        ended = Ended(3, b"", b"") if name == FAILS else Ended(0, command.stdin, b"said\n")
        takes_s = math.inf if name in (HANGS, IGNORES_TERM) else 0.01
        return Program(lambda: ended, takes_s, name == IGNORES_TERM)

    def command(self, program: str, stdin: bytes = b"", limit_s: float = 30.0) -> Command:
        return Command((program,), "/", {}, stdin, limit_s)

    def left(self) -> int:
        return self.processes.running


class TestSimulatedProcesses(ProcessesConform):
    @pytest.fixture
    def world(self, autojump_clock: trio.testing.MockClock) -> SimulatedWorld:
        return SimulatedWorld()


async def test_where_there_are_no_programs_none_can_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        await NoProcesses().run(Command(("git",), "/", {}))
    assert NoProcesses().environment == {}


@pytest.mark.slow
async def test_what_a_program_leaves_behind_when_it_ends_is_ended_too(tmp_path: Path) -> None:
    for is_guarded in (False, True):
        script = "sleep 1000 & exit 0"
        command = Command(("sh", "-c", script), str(tmp_path), dict(os.environ), is_guarded=is_guarded)
        ended = await SystemProcesses().run(command)
        assert (ended.code, ended.is_late, ended.left) == (0, False, ())
        assert processes_about(str(tmp_path)) == {}


@pytest.mark.slow
async def test_what_a_guard_that_was_killed_leaves_behind_is_ended_too(tmp_path: Path) -> None:
    # One that hears nothing, one in another session, one without the mark.
    script = (
        "trap '' TERM; setsid sleep 1000 & "
        "setsid env -i sh -c 'trap \"\" TERM; echo $$ > other; while :; do sleep 1000; done' & "
        "echo $PPID > guard; while :; do sleep 1000; done"
    )
    command = Command(("sh", "-c", script), str(tmp_path), dict(os.environ), is_guarded=True)
    ended: list[Ended] = []

    async def run() -> None:
        ended.append(await SystemProcesses().run(command))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            while not all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in ("guard", "other")):
                await trio.lowlevel.checkpoint()
            os.kill(int((tmp_path / "guard").read_text()), signal.SIGKILL)
    assert (ended[0].code, ended[0].is_late, ended[0].left) == (-9, False, ())
    assert processes_about(str(tmp_path)) == {}


async def test_arguments_and_environment_of_a_command_are_not_shown() -> None:
    shown = repr(Command(("git", "https://u:secret@h"), "/", {"TOKEN": "secret"}, b"secret"))
    assert "secret" not in shown
