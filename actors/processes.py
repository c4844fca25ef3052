"""The port through which other programs are run: to their end, or until they have been ended (see ``ports``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, final

import attrs
import trio


@final
@attrs.frozen
class Command:
    """One call of a program.

    Attributes:
      arguments: the program and what it is given; they may hold secrets and are never shown.
      folder: where it runs.
      environment: its whole environment.
      stdin: what it may read; then its input ends.
      limit_s: how long it may run.
      is_guarded: a guard watches it, because it may start programs of others: when this process dies, everything that
        came of the command is ended too.
    """

    arguments: tuple[str, ...] = attrs.field(repr=False)
    folder: str
    environment: Mapping[str, str] = attrs.field(repr=False)
    stdin: bytes = attrs.field(default=b"", repr=False)
    limit_s: float = 15.0
    is_guarded: bool = False


@final
@attrs.frozen
class Ended:
    """How a command ended. Nothing of it runs any more, except for the processes in ``left``.

    ``code``: its exit code, negative for a signal. ``is_late``: it was ended at its limit. ``is_cut``: it wrote more
    than is kept, so that ``stdout`` is only a beginning.
    """

    code: int
    stdout: bytes
    stderr: bytes
    is_late: bool = False
    left: tuple[int, ...] = ()
    is_cut: bool = False


class Processes(Protocol):
    """Runs programs."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of this process."""

    async def run(self, command: Command) -> Ended:
        """Run a program to its end, at most for its limit.

        Whether it returns or raises Cancelled: what the program started has been asked to end (SIGTERM), and killed two
        seconds later, whatever sessions or environments it took. That takes at most ``ENDING_S``.

        Raises:
          OSError: the program could not be started.
        """


@final
@attrs.frozen
class NoProcesses:
    """For worlds in which there are no other programs."""

    @property
    def environment(self) -> Mapping[str, str]:
        """See ``Processes.environment``."""
        return {}

    async def run(self, command: Command) -> Ended:
        """See ``Processes.run``: there is nothing to run."""
        await trio.lowlevel.checkpoint()
        raise FileNotFoundError(2, "no such program", command.arguments[0])
