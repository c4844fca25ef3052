"""The lifecycle: many runs of one conversation, by a host without memory and by one with it.

The first patch holds a payload, all of them count. At two checkpoints the conversation is left; copies of it are opened
and resumed, by this process and by a new one. What a run's first request holds must not grow with the conversation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from hashlib import sha256

import attrs
import trio

from ...inspection import inspect_store
from ..children import run_children
from .bounds import Bound, bound
from .conversation import Conversation, RunRecord, resume
from .phases import Json, Phase, Progress, distribution, phase
from .workload import Workload, filler

_RECENT_RUNS = 20
_EARLY_RUNS = 20
# A few digits of counters and positions; what grows with the conversation grows by its reads.
_FLAT_BYTES = 100


@attrs.define(eq=False)
class Lifecycle:
    """One conversation at one checkpoint, as reports name it. Times are None if something did not come out right."""

    conversation: Conversation
    runs: Sequence[RunRecord]
    transitions: int
    native_entries: int
    native_bytes: int
    samples: list[Json] = attrs.field(factory=list)
    post_resume: Json = attrs.field(factory=dict)
    is_sound: bool = False

    def to_json(self) -> Json:
        """For the report."""
        last, is_timed = self.runs[-1], self.is_sound
        recent = list(self.runs[-_RECENT_RUNS:])
        times = {
            "recentRuns": [run.took_ms for run in recent],
            "openSession": [sample["openMs"] for sample in self.samples],
            "resumeRuntime": [sample["firstRequestMs"] for sample in self.samples],
        }
        return {
            "stateFlow": self.conversation.has_memory,
            "stateBytes": self.conversation.state_bytes,
            "modelPatches": sum(run.barriers for run in self.runs),
            "userRuns": len(self.runs),
            "acceptedTransitions": self.transitions,
            "nativeEntries": self.native_entries,
            "nativeFileBytes": self.native_bytes,
            **{name: distribution(values) if is_timed else None for name, values in times.items()},
            "lastContextBytes": last.model.inferences[-1].context_bytes,
            "contextBytesPerRun": [run.first_context_bytes for run in self.runs],
            "resumedContextBytes": [sample["firstContextBytes"] for sample in self.samples],
            "inferencesPerRun": len(last.model.inferences),
            "nativeRead": {"count": len(self.runs), "bytes": sum(run.read_bytes for run in self.runs)},
            "promptPrefixRuns": [run.to_json() for run in recent],
            "postResume": {
                name: value for name, value in self.post_resume.items() if is_timed or not name.endswith("Ms")
            },
        }


def play_lifecycle(
    folder: str, workload: Workload, phases: list[Phase], progress: Progress
) -> tuple[list[Lifecycle], list[Bound]]:
    """Play every size, without memory and with it."""
    found: list[Lifecycle] = []
    for state_bytes in workload.state_bytes:
        for has_memory in (False, True):
            place = os.path.join(folder, f"{state_bytes}-{'with' if has_memory else 'without'}")
            os.mkdir(place)
            conversation = Conversation(place, has_memory, state_bytes, workload.transcript_bytes)
            found += _checkpoints(conversation, workload, phases, progress)
            shutil.rmtree(place)
    return found, _bounds(found)


def _checkpoints(
    conversation: Conversation, workload: Workload, phases: list[Phase], progress: Progress
) -> list[Lifecycle]:
    found: list[Lifecycle] = []
    runs: list[RunRecord] = []
    who = f"{conversation.state_bytes:,} bytes {'with' if conversation.has_memory else 'without'} memory"
    for count in sorted({min(_EARLY_RUNS, workload.patches), workload.patches}):
        progress(f"{who}, {count} runs")
        first = len(phases)
        with phase(phases, f"{who}: runs to {count}") as part:
            with part.timed("runs"):
                _, more, memory = trio.run(conversation.go_on, len(runs) + 1, count)
            runs = [*runs, *more]
            entry = _entry(conversation, runs, memory)
            found.append(entry)
            _verify(entry, part, more, memory)
        if phases[-1].error is not None:
            break  # there is nothing to go on from
        progress(f"{who}, resumed after {count} runs")
        with phase(phases, f"{who}: resumed after {count}") as part:
            _resume(entry, workload.samples, part)
        entry.is_sound = all(each.is_passed for each in phases[first:])
    return found


def _entry(conversation: Conversation, runs: Sequence[RunRecord], memory: Json) -> Lifecycle:
    with open(conversation.native_file, "rb") as file:
        data = file.read()
    return Lifecycle(conversation, runs, memory.get("step", 0), len(data.splitlines()), len(data))


def _verify(entry: Lifecycle, part: Phase, more: Sequence[RunRecord], memory: Json) -> None:
    """The runs of one phase: counters, and whether everything is as it should be."""
    conversation, count = entry.conversation, len(entry.runs)
    inferences = 3 if conversation.has_memory else 2
    part.count("runs", len(more))
    part.count("inferences", sum(len(run.model.inferences) for run in more))
    part.count("reads", sum(run.read_bytes > 0 for run in more))
    part.count("patches", sum(run.barriers for run in more))
    part.check("inferences per run", all(len(run.model.inferences) == inferences for run in more))
    part.check("a read stays exact to the end of its run", all(run.keeps_read for run in more))
    part.check("messages per run", entry.native_entries == count * (6 if conversation.has_memory else 4))
    part.check("a run's requests continue each other", _most_lost(more) <= 1)
    if conversation.has_memory:
        part.count("storeBytes", sum(map(os.path.getsize, _files(conversation.store))))
        part.check("patches", sum(run.barriers for run in entry.runs) == count)
        part.check("two transitions per run", entry.transitions == 2 * count)
        part.check("the counter", memory.get("count") == count)
        part.check("the payload", memory.get("payload") == filler(conversation.state_bytes))
        part.check("the answer", memory.get("response") == f"Counted {count}.")
        part.check("the doctor finds nothing", inspect_store(store=conversation.store).diagnose().is_clean)


def _resume(entry: Lifecycle, samples: int, part: Phase) -> None:
    """Open and resume copies; what they are copies of must stay as it is."""
    conversation, number = entry.conversation, len(entry.runs) + 1
    before = _fingerprint(conversation.folder)
    copy = f"{conversation.folder}-copy"
    sizes = (conversation.has_memory, conversation.state_bytes, conversation.transcript_bytes)
    for _ in range(samples):
        shutil.copytree(conversation.folder, copy)
        with part.timed("resumed"):
            entry.samples.append(trio.run(resume, copy, *sizes, number))
        shutil.rmtree(copy)
    shutil.copytree(conversation.folder, copy)
    names = ("has_memory", "state_bytes", "transcript_bytes")
    job = {"folder": copy, **dict(zip(names, sizes, strict=True)), "number": number}
    with part.timed("resumed by a new process"):
        (answer,) = run_children("resume", [job])
    shutil.rmtree(copy)
    is_unchanged = _fingerprint(conversation.folder) == before
    entry.post_resume = {**answer, "baselineUnchanged": is_unchanged}
    part.count("resumed", samples + 1)
    part.check("a resumed conversation goes on", all(each["goesOn"] for each in [*entry.samples, answer]))
    firsts = {each["firstContextBytes"] for each in [*entry.samples, answer]}
    part.check("every process resumes with the same bytes", len(firsts) == 1)
    part.check("what was copied is unchanged", is_unchanged)


def _most_lost(runs: Sequence[RunRecord]) -> int:
    return max(inference.lost_bytes for run in runs for inference in run.model.inferences)


def _files(folder: str) -> list[str]:
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)


def _fingerprint(folder: str) -> dict[str, str]:
    found = {}
    for path in _files(folder):
        with open(path, "rb") as file:
            found[path] = sha256(file.read()).hexdigest()
    return found


def _bounds(found: Sequence[Lifecycle]) -> list[Bound]:
    """What memory keeps flat, and what grows without it, from the earlier checkpoint to the later one."""
    losses = [_most_lost(each.runs) for each in found]
    bounds = [bound("bytes lost per continuation", *losses, at_most=1)]
    by_size: dict[tuple[bool, int], list[Lifecycle]] = {}
    for each in found:
        by_size.setdefault((each.conversation.has_memory, each.conversation.state_bytes), []).append(each)
    for (has_memory, state_bytes), entries in by_size.items():
        early, late = entries[0], entries[-1]
        if early is late:
            continue
        growth = late.runs[-1].first_context_bytes - early.runs[-1].first_context_bytes
        name = "bytes by which a run's first request grew"
        if has_memory:
            bounds.append(bound(f"{name}, with {state_bytes:,} bytes of memory", growth, at_most=_FLAT_BYTES))
        else:
            read = (len(late.runs) - len(early.runs)) * early.conversation.transcript_bytes
            bounds.append(bound(f"{name} without memory, beside {state_bytes:,}", growth, at_least=read))
    return bounds
