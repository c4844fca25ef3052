"""``make torture``: crash states, simulated worlds, killed processes and a soak, for as long as there is time.

Pieces of work go to worker processes. The part that is furthest from its goal comes next, so that a short run has
something of everything. Each piece has a number; the state file says where the next run of the same commit goes on.
A failure does not stop the rest. Exit codes: 0 all well, 1 something failed (also in an earlier run of this commit),
2 wrong options or another run under way, 130 interrupted.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

import attrs

from kit.torture_parts import PARTS, Failure, Outcome, run_piece
from kit.torture_state import FOLDER, State, present_commit
from strataflow.runtime.surfaces.terminal import Progress

# A piece that has not ended so long after the time is up will not end.
GRACE_S = 300.0
LOOK_EVERY_S = 1.0
SAVE_EVERY_S = 10.0


@attrs.define(eq=False)
class Torture:
    """One run. ``now`` and ``submit`` are the clock and the pool, or what a test puts in their place."""

    state: State
    seconds: float
    jobs: int
    parts: tuple[str, ...]
    submit: Callable[[str, str], Future[Outcome]]
    now: Callable[[], float] = time.monotonic
    _running: dict[Future[Outcome], tuple[str, str]] = attrs.field(factory=dict, init=False)
    _pieces: dict[str, Iterator[str]] = attrs.field(init=False)
    _given: dict[str, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pieces = {name: self._pieces_of(name) for name in self.parts}
        self._given = dict.fromkeys(self.parts, 0)

    def _pieces_of(self, name: str) -> Iterator[str]:
        known = self.state.parts[name]
        while known.left:
            yield known.left.pop(0)
        for piece in PARTS[name].pieces(known.next):
            known.next += 1
            yield piece

    def run(self) -> None:
        """Work until the time is up and everything that was begun has ended."""
        started = saved = self.now()
        progress = Progress("torture, seconds", round(self.seconds))
        try:
            while True:
                spent = self.now() - started
                while spent < self.seconds and len(self._running) < self.jobs and self._begin_next():
                    pass
                if not self._running:
                    break
                if spent > self.seconds + GRACE_S:
                    self._give_up()
                    break
                self._collect(wait(self._running, LOOK_EVERY_S, FIRST_COMPLETED).done)
                if self.now() - saved > SAVE_EVERY_S:
                    self.state.save()
                    saved = self.now()
                progress.show(min(round(spent), round(self.seconds)), self._words())
        finally:
            progress.end()
            for name, piece in self._running.values():
                self.state.parts[name].left.append(piece)
            self.state.save()

    def _give_up(self) -> None:
        for name, piece in self._running.values():
            self._note(Outcome(name, piece, 0, 0.0, (_lost(name, piece, "it did not end"),)))
        self._running.clear()

    def _begin_next(self) -> bool:
        """Hand out one more piece. False if there is none."""
        for name in sorted(self._pieces, key=self._share):
            piece = next(self._pieces[name], None)
            if piece is None:
                del self._pieces[name]
                continue
            self._given[name] += 1
            self._running[self.submit(name, piece)] = (name, piece)
            return True
        return False

    def _share(self, name: str) -> tuple[float, int]:
        """How near a part is to its goal; of two that are equal, the one that got less."""
        return self.state.parts[name].count / PARTS[name].goal, self._given[name]

    def _collect(self, done: set[Future[Outcome]]) -> None:
        # In the order in which they were handed out: a set has none that two runs would share.
        for future in [future for future in self._running if future in done]:
            name, piece = self._running.pop(future)
            try:
                self._note(future.result())
            except BrokenProcessPool as error:
                self._note(Outcome(name, piece, 0, 0.0, (_lost(name, piece, f"its process died: {error}"),)))

    def _note(self, outcome: Outcome) -> None:
        self.state.parts[outcome.part].add(outcome)

    def _words(self) -> str:
        counts = [f"{self.state.parts[name].count:,} {PARTS[name].unit}" for name in self.parts]
        failures = len(self.state.failures)
        return ", ".join(counts) + (f", {failures} FAILED" if failures else "")


def _lost(part: str, piece: str, text: str) -> Failure:
    return Failure(part, piece, text, PARTS[part].repeat(piece))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--parts", default=",".join(PARTS), help="some of: " + ", ".join(PARTS))
    chosen = parser.parse_args(arguments)
    parts = tuple(filter(None, chosen.parts.split(",")))
    unknown = [name for name in parts if name not in PARTS]
    if unknown or chosen.jobs < 1 or not chosen.minutes > 0:
        parser.error(f"unknown parts: {', '.join(unknown)}" if unknown else "minutes and jobs must be positive")
    for number in (signal.SIGINT, signal.SIGTERM):
        # Also where a shell started it in the background, which makes it deaf to the first of them.
        signal.signal(number, signal.default_int_handler)
    with alone() as is_alone:
        if not is_alone:
            print("another torture of this tree is under way: wait for its end", file=sys.stderr)
            return 2
        return tortured(60 * chosen.minutes, chosen.jobs, parts)


@contextmanager
def alone() -> Iterator[bool]:
    """Whether nobody else works with the state of this tree; nobody begins to before the end of the block."""
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def tortured(seconds: float, jobs: int, parts: tuple[str, ...]) -> int:
    """Run, print, and say with which exit code to end."""
    state = State.load(present_commit())
    code = 0
    # New processes, not forked ones: each imports what is there now, and none inherits a lock of another.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))
    run = Torture(state, seconds, jobs, parts, lambda *piece: pool.submit(run_piece, *piece))
    try:
        run.run()
    except KeyboardInterrupt:
        code = 130
    finally:
        _end(pool)
    for failure in state.failures:
        print(f"\nFAILED {failure.part} {failure.piece}\n{failure.text}\nrepeat: {failure.repeat}")
    print("\n" + state.table())
    return code or bool(state.failures)


def _end(pool: ProcessPoolExecutor) -> None:
    """Let the workers go; one that hangs is ended, since waiting for it would be for ever."""
    workers = [*(pool._processes or {}).values()]
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in itertools.chain(workers):
        worker.join(5)
        if worker.is_alive():
            worker.kill()


if __name__ == "__main__":
    sys.exit(main())
