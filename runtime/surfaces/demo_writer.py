"""One process of the demo: several sessions that patch at the same time, each patch noted before and after.

The notes are what the client saw. Each is on the disk before the next step, so that they outlive the process as the
memory must: ``send`` before a patch is asked for, ``ack`` when its answer is there.

It says ``ready`` on standard output, begins when a line comes in, and says ``ack`` for each answer. When standard
input ends its parent is gone, and it ends too.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, final

import attrs
import trio

from .. import Session, compact, open_runtime
from .demo_plan import CWD, patch, session_name, token
from .line_streams import ByteWriter, LineReader, take_standard_input, take_standard_output


def main() -> int:
    """Write what the command line says; ``demo_run`` calls this module as a program of its own."""
    parser = argparse.ArgumentParser(prog="strataflow demo writer")
    for name in ("agent-dir", "durability", "notes"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("process", "life", "patches"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--begin", type=int, nargs="+", required=True, help="for each session, its first patch")
    return trio.run(_write_all, parser.parse_args())


async def _write_all(arguments: argparse.Namespace) -> int:
    output, control = take_standard_output(), take_standard_input()
    notes = _Notes(os.open(arguments.notes, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600))
    async with open_runtime(arguments.agent_dir, durability=arguments.durability) as runtime:
        names = [session_name(arguments.process, number) for number in range(len(arguments.begin))]
        sessions = [await runtime.open_session(CWD, name, "active") for name in names]
        await output.write(b"ready\n")
        await control.next_line()
        async with trio.open_nursery() as watching:
            watching.start_soon(_end_with_parent, control, watching.cancel_scope)
            async with trio.open_nursery() as nursery:
                for number, session in enumerate(sessions):
                    nursery.start_soon(_Writer(arguments, session, number, notes, output).write)
            watching.cancel_scope.cancel()
    return 0


async def _end_with_parent(control: LineReader, scope: trio.CancelScope) -> None:
    while await control.next_line() is not None:
        pass
    scope.cancel()


@final
@attrs.frozen
class _Notes:
    """The notes of one process, one JSON object a line."""

    descriptor: int

    async def add(self, **members: Any) -> None:
        """Add one, for good."""
        await trio.to_thread.run_sync(self._append, compact(members).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        os.write(self.descriptor, line)
        os.fsync(self.descriptor)


@final
@attrs.frozen(eq=False)
class _Writer:
    """One session of the process."""

    arguments: argparse.Namespace
    session: Session
    number: int
    notes: _Notes
    output: ByteWriter

    async def write(self) -> None:
        """All patches from the first that is asked for."""
        process, life = self.arguments.process, self.arguments.life
        for number in range(self.arguments.begin[self.number], self.arguments.patches):
            scopes = patch(process, self.number, number, life)
            mark = token(process, self.number, number, life)
            await self.notes.add(event="send", session=self.session.session_id, number=number, token=mark, patch=scopes)
            receipt = await self.session.patch_state(
                global_=scopes.get("global"), cwd=scopes.get("cwd"), session=scopes.get("session")
            )
            await self.notes.add(
                event="ack", session=self.session.session_id, number=number, token=mark, seq=receipt.seq
            )
            await self.output.write(b"ack\n")


if __name__ == "__main__":
    raise SystemExit(main())
