"""Real processes that share one store, are killed and stopped at random, and write down what they see. A program::

    python tests/kit/killed_histories.py STORE SEED SECONDS

Eight writers are forked from this warm process, each with two clients. A writer lives until it gets SIGKILL or has done
its calls; meanwhile it may get SIGSTOP, perhaps while it holds the turn, and SIGCONT a little later. Whoever follows it
opens the same sessions, and asks some of the calls again that had no answer. In the end the outcome of every call
without an answer is asked for, the store is read and closed, its files are read by themselves, and the history checker
judges what everybody wrote down. The last line is a JSON object with the counts, or the program fails.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import trio

from strataflow.runtime import Durability, StrataflowError, open_runtime
from strataflow.runtime.simulation.canonical_files import read_files
from strataflow.runtime.simulation.checker import check, history_from_files, told
from strataflow.runtime.simulation.ending import read_scopes
from strataflow.runtime.simulation.history import Call, FinalScope
from strataflow.runtime.simulation.recorder import RecordedSession, Recorder, note_refusal

WRITERS = 8
CWD = "/project"
_NUMBERS_EACH = 1_000_000


@attrs.define(eq=False)
class Notes:
    """What one process writes down: each call as it begins, and once more when it has ended."""

    name: str
    file: int
    numbers: Iterator[int]

    def request_id(self, _caller: object) -> str:
        return f"{self.name}-{next(self.numbers)}"

    @contextmanager
    def call(self, _caller: object, cwd: str, session: str, kind: Any, waits: bool = False, **about: Any) -> Any:
        call = Call(next(self.numbers), self.name, cwd, session, kind, begun_s=time.monotonic(), **about)
        self.write(call)
        try:
            yield call
            call.ending = "ok"
        except StrataflowError as error:
            note_refusal(call, error)
            raise
        finally:
            call.ended_s = time.monotonic()
            self.write(call)

    def write(self, call: Call) -> None:
        """Also in the middle of a transaction: who dies while it commits must have said what that would store."""
        # One call of the system: a kill leaves all of the line, or a part without its end.
        os.write(self.file, json.dumps(call.to_json()).encode() + b"\n")


async def client(session: RecordedSession, notes: Notes, chance: random.Random, calls: int) -> None:
    """Call after call, of every kind. Some callers lose their patience."""
    for number in range(calls):
        with trio.move_on_after(chance.choice([None, None, None, 0.0, 0.002, 0.02]) or 3600.0):
            try:
                await one_call(session, notes, chance, number)
            except StrataflowError as error:
                if error.code not in ("E_MISSING", "E_BUSY", "E_CONFLICT"):
                    raise


async def one_call(session: RecordedSession, notes: Notes, chance: random.Random, number: int) -> None:
    def increment(tx: Any) -> None:
        count = (tx.read("global.working").value or {}).get("count", 0)
        tx.patch(global_={"working": {"count": count + 1}})
        notes.write(tx._call)

    key, value = f"k{chance.randrange(4)}", f"{session.session_id}.{number}.{chance.randrange(1000)}"
    match chance.choice(["patch", "patch", "all", "count", "list", "delete", "read", "keys", "fresh"]):
        case "patch":
            await session.patch_state(**{chance.choice(["global_", "cwd", "session"]): {"working": {key: value}}})
        case "all":
            change = {"working": {key: value}}
            await session.patch_state(global_=change, cwd=change, session=change)
        case "delete":
            await session.patch_state(cwd={"working": {key: None}}, session={"working": {"last": value}})
        case "count":
            await session.transact(increment)
        case "list":
            async with session.transaction() as tx:
                items = tx.read("cwd.lazy").value or {}
                kept = [*items.get("items", []), value][-5:]
                tx.patch(cwd={"lazy": {"items": kept}})
                notes.write(tx._call)
        case "read":
            await session.read_state(f"effective.working.{key}")
        case "keys":
            await session.read_state("global.working", projection="keys")
        case "fresh":
            await session.read_state("cwd.working", fresh=True)


async def write(store: str, slot: int, notes: Notes, seed: int, unanswered: list[Call]) -> None:
    """What a writer does until it is killed or has done its calls."""
    chance = random.Random(seed)
    durability: Durability = chance.choice(["power", "process"])
    calls = chance.choice([20, 200, 1 << 30])
    async with open_runtime(store=store, durability=durability) as runtime, trio.open_nursery() as nursery:
        for which in "ab":
            session = await runtime.open_session(CWD, f"w{slot}{which}", "active")
            recorded = RecordedSession(session, cast(Any, notes), cast(Recorder, notes))
            for call in unanswered:
                if call.session == session.session_id and chance.random() < 0.5:
                    given = {"global_" if name == "global" else name: patch for name, patch in call.patches.items()}
                    await recorded.patch_state(**given, request_id=call.request_id)
            nursery.start_soon(client, recorded, notes, random.Random(f"{seed} {which}"), calls)


def unanswered_patches(folder: Path, slot: int) -> list[Call]:
    """Of the newest life in a slot, the patches without an answer."""
    files = sorted(folder.glob(f"p{slot}.*.jsonl"), key=lambda file: int(file.name.split(".")[1]))
    calls = history_from_files(files[-1:]).calls
    return [call for call in calls if call.kind == "patch" and call.ending == "unknown"]


@attrs.define(eq=False)
class Writer:
    """One living process: since when it is there, and when it will be stopped, let go on, and killed."""

    pid: int
    slot: int
    name: str
    begun_s: float
    dies_at_s: float
    stops_at_s: float
    goes_on_at_s: float = 0.0


def fork_writer(store: str, folder: Path, slot: int, life: int, chance: random.Random) -> Writer:
    name, seed = f"p{slot}.{life}", chance.getrandbits(32)
    unanswered = unanswered_patches(folder, slot)
    now = time.monotonic()
    dies, stops = now + chance.choice([0.05, 0.3, 1.0, 3.0]) * chance.random() * 2, now + chance.random() * 2
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            first = (life * WRITERS + slot) * _NUMBERS_EACH + 1
            trio.run(write, store, slot, Notes(name, file, itertools.count(first)), seed, unanswered)
            code = 0
        except BaseException as error:  # raised by the parent, which sees the exit code
            sys.stderr.write(f"{name}: {error!r}\n")
        os._exit(code)
    return Writer(pid, slot, name, now, dies, stops)


def loop(store: str, folder: Path, chance: random.Random, until_s: float) -> dict[str, int]:
    """Fork, stop and kill until the time is up."""
    counts = {"writers": 0, "kills": 0, "stops": 0}
    living: dict[int, Writer] = {}
    while living or time.monotonic() < until_s:
        now = time.monotonic()
        for slot in range(WRITERS):
            if slot not in living and now < until_s:
                living[slot] = fork_writer(store, folder, slot, counts["writers"], chance)
                counts["writers"] += 1
        for writer in list(living.values()):
            pid, status = os.waitpid(writer.pid, os.WNOHANG)
            if pid == 0 and (now > writer.dies_at_s or now > until_s):
                os.kill(writer.pid, signal.SIGKILL)
                _, status = os.waitpid(writer.pid, 0)
                counts["kills"] += 1
                pid = writer.pid
            elif pid == 0 and now > writer.stops_at_s:
                os.kill(writer.pid, signal.SIGSTOP)
                writer.stops_at_s, writer.goes_on_at_s = float("inf"), now + chance.random() / 4
                counts["stops"] += 1
            elif pid == 0 and 0 < writer.goes_on_at_s < now:
                os.kill(writer.pid, signal.SIGCONT)
                writer.stops_at_s, writer.goes_on_at_s = now + chance.random() * 2, 0.0
            if pid:
                assert status in (0, signal.SIGKILL), (writer.name, status)
                note_life(folder, writer)
                del living[writer.slot]
        select.select([], [], [], 0.002)
    return counts


def note_life(folder: Path, writer: Writer) -> None:
    """From when to when a process was there: nothing of it is stored afterwards, and it saw all that was before."""
    life = {"process": writer.name, "begun_s": writer.begun_s, "ended_s": time.monotonic()}
    with (folder / "lives.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"lives": [life]}) + "\n")


async def finish(store: str, folder: Path) -> None:
    """Ask for the outcome of every call without an answer, and write down how everything is in the end."""
    history = history_from_files(sorted(folder.glob("*.jsonl")))
    seen: dict[str, tuple[Any, int]] = {}
    outcomes: dict[str, int | None] = {}
    async with open_runtime(store=store) as runtime:
        for call in history.calls:
            if call.request_id is not None and call.ending == "unknown":
                receipt = (await runtime.outcome(call.request_id)).receipt
                outcomes[call.request_id] = None if receipt is None else receipt.seq
        for session_id in sorted({call.session for call in history.calls}):
            session = await runtime.open_session(CWD, session_id, "passive")
            assert not (await session.status())["unreadable"], session_id
            seen.update(await read_scopes(session))
            await session.aclose()
        report = await runtime.aclose()
        assert report.was_last, report
        assert not report.left_behind, report
    contents = {str(path): path.read_bytes() for path in Path(store).rglob("*") if path.is_file()}
    disk = SimpleNamespace(contents=lambda: contents)
    files = read_files(cast(Any, SimpleNamespace(root=store, disk=disk)))
    final = [
        attrs.asdict(FinalScope(scope, value, revision, dict(files[scope].value) if scope in files else {}))
        for scope, (value, revision) in seen.items()
    ]
    (folder / "end.jsonl").write_text(json.dumps({"outcomes": outcomes, "final": final}) + "\n")


def main() -> None:
    store, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    folder = Path(store).parent / "notes"
    folder.mkdir(parents=True)
    counts = loop(store, folder, random.Random(seed), time.monotonic() + seconds)
    trio.run(finish, store, folder)
    history = history_from_files(sorted(folder.glob("*.jsonl")))
    violations = check(history)
    assert not violations, "\n\n".join(told(violation, history) for violation in violations)
    answered = sum(call.ending == "ok" for call in history.calls)
    unanswered = sum(call.ending == "unknown" for call in history.calls)
    print(json.dumps({**counts, "calls": len(history.calls), "answered": answered, "unanswered": unanswered}))


if __name__ == "__main__":
    main()
