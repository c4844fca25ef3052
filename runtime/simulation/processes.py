"""Other programs of a simulated machine: a function says what they answer; how long they take is virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import attrs
import trio

from ...actors import ENDING_S, TERM_GRACE_S, Command, Ended


@final
@attrs.frozen
class Program:
    """What one call of a program does.

    Attributes:
      act: does it, when its time has come, and gives how it ended. It is not called if the program is ended before.
      takes_s: how long it takes; ``math.inf`` hangs.
      ignores_term: only SIGKILL ends it.
    """

    act: Callable[[], Ended]
    takes_s: float = 0.001
    ignores_term: bool = False


@final
@attrs.define(eq=False)
class SimulatedProcesses:
    """The simulated form of ``Processes``. ``programs`` says what a command does; it may raise OSError.

    ``running``: how many commands are under way, to be looked at from outside.
    """

    programs: Callable[[Command], Program]
    running: int = 0

    @property
    def environment(self) -> Mapping[str, str]:
        """See ``Processes.environment``."""
        return {}

    async def run(self, command: Command) -> Ended:
        """See ``Processes.run``."""
        await trio.lowlevel.checkpoint()
        program = self.programs(command)
        self.running += 1
        ended: Ended | None = None
        try:
            with trio.move_on_after(command.limit_s):
                await trio.sleep(program.takes_s)
                ended = program.act()
        finally:
            if ended is None and program.ignores_term:
                # As the real form: nobody may leave before the program has. It ends after its grace.
                with trio.CancelScope(shield=True, deadline=trio.current_time() + ENDING_S):
                    await trio.sleep(TERM_GRACE_S)
            self.running -= 1
        return Ended(-15, b"", b"", is_late=True) if ended is None else ended
