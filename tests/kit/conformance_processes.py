"""What every form of ``Processes`` must do, real or simulated."""

from __future__ import annotations

from typing import Protocol

import pytest
import trio

from strataflow.actors import ENDING_S, Command, Processes

# Programs that both forms know: what they print, how they end.
ANSWERS, FAILS, HANGS, IGNORES_TERM, MISSING = "answers", "fails", "hangs", "ignores-term", "missing"


class World(Protocol):
    """A form, and its programs."""

    processes: Processes

    def command(self, program: str, stdin: bytes = b"", limit_s: float = 30.0) -> Command:
        """The command that runs one of the programs above."""

    def left(self) -> int:
        """How many processes of these commands are still running."""


class ProcessesConform:
    """The suite. A class of tests per form gives ``world``."""

    @pytest.fixture
    def world(self) -> World:
        raise AssertionError("a form gives its world")

    async def test_output_input_and_exit_code_are_those_of_the_program(self, world: World) -> None:
        ended = await world.processes.run(world.command(ANSWERS, b"what was given"))
        assert (ended.code, ended.stdout, ended.stderr, ended.is_late) == (0, b"what was given", b"said\n", False)
        ended = await world.processes.run(world.command(FAILS))
        assert (ended.code, ended.is_late, ended.left) == (3, False, ())

    async def test_a_program_that_does_not_exist_is_an_error_of_the_system(self, world: World) -> None:
        with pytest.raises(OSError, match=r"."):
            await world.processes.run(world.command(MISSING))

    @pytest.mark.parametrize("program", [HANGS, IGNORES_TERM])
    async def test_the_limit_ends_whatever_hangs(self, world: World, program: str) -> None:
        began = trio.current_time()
        ended = await world.processes.run(world.command(program, limit_s=0.5))
        assert ended.is_late
        assert ended.code != 0
        assert trio.current_time() - began <= 0.5 + ENDING_S + 1
        assert world.left() == 0

    @pytest.mark.parametrize("program", [HANGS, IGNORES_TERM])
    async def test_cancelling_ends_whatever_hangs_before_it_returns(self, world: World, program: str) -> None:
        began = trio.current_time()
        with trio.move_on_after(0.5) as scope:
            await world.processes.run(world.command(program))
        assert scope.cancelled_caught
        assert trio.current_time() - began <= 0.5 + ENDING_S + 1
        assert world.left() == 0
