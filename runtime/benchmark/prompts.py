"""What a request to the model costs over a large memory: its first head, a request without news, one after a patch."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import trio

from ...store import HostEntries, Json, compact
from ...store.projection import Message
from ..session import Session
from . import documents
from .figures import Figure, at_most
from .rates import Progress
from .scale import KIB, MIB, Scale
from .sides import CWD, begin_with, open_session, opened_runtime, patch

_MESSAGES = 200
_ENTRIES = 10_000
_SMALL = 10 * KIB
_LITTLE = "little"
# Of the store's measured reads: a request takes longer than one.
_FEWER = 10


def prompts(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """Requests through ``session.project``, its checkpoint included, and the barrier of a long conversation."""
    figures: list[Figure] = []
    times: dict[str, _Times] = {}
    objects, little = ({"cwd": {"working": documents.objects(size)["lazy"]}} for size in (scale.large, _SMALL))
    shapes = {
        "small objects": objects,
        "1 KB strings": {"cwd": {"working": documents.strings(scale.large)["lazy"]}},
        # Every group of them is there in both scopes, so that the effective view is put together piece by piece.
        "small objects, every tenth overlaid by the session's": {**objects, "session": _overlaying(objects["cwd"])},
    }
    for number, (name, memory) in enumerate({**shapes, _LITTLE: little}.items()):
        progress(f"requests over {name}")
        times[name] = trio.run(_requests, os.path.join(folder, str(number)), memory, max(3, scale.reads // _FEWER))
    for name in shapes:
        found = times[name]
        figures.append(
            Figure(
                f"the first request over {scale.large / MIB:g} MiB of {name}, against one dump of them",
                "x time",
                found.first_s / found.dump_s,
                at_most(2, "x time"),
                note=f"{found.first_s * 1e3:.3g} ms against {found.dump_s * 1e3:.3g} ms",
            )
        )
    large, small = times["small objects"], times[_LITTLE]
    over = f"over {_MESSAGES} messages and {scale.large / MIB:g} MiB of memory"
    name = f"the same without news, against one over {_SMALL // KIB} KiB of memory"
    figures += [
        Figure(f"a request without news {over}", "µs", large.same_s * 1e6, at_most(100, "µs")),
        Figure(name, "x time", large.same_s / small.same_s, at_most(1.5, "x time")),
        Figure(
            f"a request after another session's patch of one key {over}", "µs", large.news_s * 1e6, at_most(300, "µs")
        ),
    ]
    progress(f"the barrier in a conversation of {_ENTRIES:,} entries")
    visited = trio.run(_visited, os.path.join(folder, "entries"))
    name = f"entries that run.preflight looks at in a conversation of {_ENTRIES:,}"
    return [*figures, Figure(name, "entries", visited, at_most(4, "entries"))]


@attrs.frozen
class _Times:
    dump_s: float
    first_s: float
    same_s: float
    news_s: float


async def _requests(folder: str, memory: Json, samples: int) -> _Times:
    messages = _conversation()
    async with opened_runtime(folder) as runtime:
        session, other = await open_session(runtime, 0), await open_session(runtime, 1)
        # Out of the recent transitions, in which a head would show it once more.
        await begin_with(runtime, session, memory)
        effective = (await session.read_state("effective")).value
        dumps = []
        for _ in range(samples):
            before = time.perf_counter()
            compact(effective)
            dumps.append(time.perf_counter() - before)
        first, same, news = [], [], []
        for _ in range(samples):
            session.note_compaction()
            first.append(await _timed(session, messages[:1]))
        await session.project(messages)
        for _ in range(samples):
            same.append(await _timed(session, messages))
        for turn in range(samples):
            if turn % _FEWER == 0:
                # Updates stay in the prompt: with too many of them it would be longer than what is asked about.
                session.note_compaction()
                await session.project(messages)
            await patch(other, {"cwd": {"working": {"turn": turn}}})
            news.append(await _timed(session, messages))
    return _Times(*(statistics.median(found) for found in (dumps, first, same, news)))


async def _timed(session: Session, messages: Sequence[Message]) -> float:
    before = time.perf_counter()
    await session.project(messages)
    return time.perf_counter() - before


def _overlaying(scope: Json) -> Json:
    """Other values for every tenth of a scope's keys."""
    groups = scope["working"].items()
    return {"working": {name: {key: {"ok": "overlaid"} for key in list(keys)[::10]} for name, keys in groups}}


def _conversation() -> list[Message]:
    """A user's prompt, and calls of tools with their results."""
    messages: list[Message] = []
    for number in range(_MESSAGES):
        role = "user" if number == 0 else "assistant" if number % 2 else "toolResult"
        content = [{"type": "text", "text": f"{number} " + "what was said or read here " * 20}]
        messages.append({"role": role, "content": content, "timestamp": 1_800_000_000_000 + number})
    return messages


@attrs.define(eq=False)
class _Counted(Sequence[Mapping[str, Any]]):
    """A long conversation that knows how many of its entries anybody looked at."""

    entries: list[Mapping[str, Any]]
    visited: int = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: Any) -> Any:
        found = self.entries[index]
        self.visited += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for entry in self.entries:
            self.visited += 1
            yield entry

    def __reversed__(self) -> Iterator[Mapping[str, Any]]:
        for entry in reversed(self.entries):
            self.visited += 1
            yield entry


@attrs.define(eq=False)
class _Log(HostEntries):
    """A host's log over them."""

    counted: _Counted

    def branch(self) -> Sequence[Mapping[str, Any]]:
        return self.counted

    def append(self, custom_type: str, data: Json) -> None:
        self.counted.entries.append({"type": "custom", "customType": custom_type, "data": data})


async def _visited(folder: str) -> int:
    """How many entries the barrier looks at, for calls that it lets through and calls that it holds back."""
    roles = ("user", "assistant")
    entries: list[Mapping[str, Any]] = [
        {"type": "message", "message": {"role": roles[number % 2]}} for number in range(_ENTRIES)
    ]
    counted = _Counted(entries)
    async with opened_runtime(folder) as runtime:
        session = await runtime.open_session(CWD, "long", "active", entries=_Log(counted))
        async with session.run("go") as run:
            await run.project(_conversation())
            counted.visited = 0
            run.preflight([{"id": "1", "name": "read"}])
            run.preflight([{"id": "2", "name": "read"}, {"id": "3", "name": "patch_state"}])
            return counted.visited
