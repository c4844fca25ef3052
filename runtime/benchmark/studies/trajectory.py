"""The trajectory: one run of eleven inferences with long reads and two patches, in three modes.

::

    read x 6, patch, read x 2, [another session writes global memory] patch, answer

Each request is compared with the one before it byte for byte. Active mode is played once more with a head that is made
anew after each patch, for comparison: what a frozen head is worth.

Nothing here is timed: the bytes follow from the workload alone, whatever the machine does besides. Times and ids differ
from run to run and have the same length in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import trio

from ....store.projection import Message
from ...assembly import Runtime
from ...inspection import inspect_store
from ...opening import open_runtime
from ...run import Run
from ...session import Session
from .bounds import Bound, bound
from .host import Inference, ScriptedHost, ScriptedModel, json_bytes, patch_texts
from .phases import Json, Phase, Progress, phase
from .workload import CWD, TRAJECTORY_READ_BYTES, trajectory_text

MODES = ("active", "passive", "exit handoff")
ACTIONS = (*["read"] * 6, "patch", *["read"] * 2, "patch", "answer")

PROMPT = "Read what is there and keep what lasts of it."
ANSWER = "Everything is read and kept."

READ_OVERHEAD_BYTES = 700
PATCH_ROUND_BYTES = 954

_BEFORE = {
    "intents": {"trajectory": "Read eight files and keep what lasts of them"},
    "contract": {"language": "plain words"},
    "working": {"trajectory": "nothing is read yet"},
    "lazy": {"details": {"of": "an earlier run"}},
}


@attrs.define(eq=False)
class Trajectory:
    """What one mode came to: for each inference its action and the bytes of reads that it still held exactly.

    ``makes_head_anew``: after each patch, which is what the others do not do.
    """

    mode: str
    makes_head_anew: bool = False
    model: ScriptedModel = attrs.field(factory=ScriptedModel)
    actions: list[str] = attrs.field(factory=list)
    retained: list[int] = attrs.field(factory=list)
    tail_bytes: list[int] = attrs.field(factory=list)
    tail_entries: list[int] = attrs.field(factory=list)
    reads: list[str] = attrs.field(factory=list)
    barriers: int = 0

    @property
    def inferences(self) -> Sequence[Inference]:
        """All requests of the run."""
        return self.model.inferences

    def increments(self, action: str) -> list[int]:
        """By how much each round of an action made the next request longer."""
        pairs = zip(self.inferences, self.inferences[1:], self.actions, strict=False)
        return [after.context_bytes - before.context_bytes for before, after, found in pairs if found == action]

    @property
    def reused(self) -> float:
        """The share of all earlier requests that the next one began with, 0 to 1."""
        pairs = [(each.shared_prefix_bytes or 0, each.previous_bytes or 0) for each in self.inferences]
        before = sum(previous for _, previous in pairs)
        return sum(shared for shared, _ in pairs) / before if before else 0.0

    def to_json(self) -> Json:
        """As reports name it."""
        # A run that failed ended somewhere between them.
        rows = zip(self.inferences, self.actions, self.retained, strict=False)
        run = {
            "userRun": 1,
            "inferences": [
                {**inference.to_json(), "action": action, "retainedReadBytes": retained}
                for inference, action, retained in rows
            ],
            "patchStateBarriers": self.barriers,
            "reconciliationTailBytes": self.tail_bytes,
            "reconciliationEntries": self.tail_entries,
            "readResultBytes": sum(len(text.encode()) for text in self.reads),
            "completedReads": len(self.reads),
            "nativeUserBytes": json_bytes(PROMPT),
            "specificationBytes": json_bytes(PROMPT) if self.mode == "active" else 0,
        }
        return {"mode": self.mode, "reused": round(self.reused, 6), "promptPrefixRuns": [run]}


def play_trajectory(folder: str, phases: list[Phase], progress: Progress) -> tuple[list[Trajectory], list[Bound]]:
    """Play all three modes and the comparison, each in a store of its own. The comparison comes last."""
    found = [*(Trajectory(mode) for mode in MODES), Trajectory("active", makes_head_anew=True)]
    for number, current in enumerate(found):
        name = f"{current.mode}{' with a head made anew' if current.makes_head_anew else ''}"
        progress(f"eleven inferences, {name}")
        place = f"{folder}/{number}"
        with phase(phases, name) as part:
            trio.run(_play, place, current, part)
            part.check("the doctor finds nothing", inspect_store(store=place).diagnose().is_clean)
    return found, _bounds(found[:-1])


async def _play(place: str, found: Trajectory, part: Phase) -> None:
    async with open_runtime(store=place) as runtime:
        host = ScriptedHost()
        session = await runtime.open_session(CWD, "trajectory", "passive" if found.mode == "passive" else "active")
        await session.patch_state(cwd={"contract": {"place": "a benchmark"}}, session=_BEFORE)
        if found.mode == "exit handoff":
            await _earlier_run(session, host)
        host.user(PROMPT)
        async with session.run(PROMPT) as run:
            await _Player(runtime, session, host, found).play(run)
        await _verify(session, host, found, part)


async def _earlier_run(session: Session, host: ScriptedHost) -> None:
    """A run in active mode, which is left when it has ended: its messages are handed over as memory."""
    host.user("Begin.")
    async with session.run("Begin.") as run:
        await run.project(host.messages)
        host.answer("Begun.")
        await run.finish("Begun.")
    # What was said in the millisecond of the switch would count as said after it.
    await trio.sleep(host.until_past_s())
    await session.set_mode("passive")


@attrs.define(eq=False)
class _Player:
    runtime: Runtime
    session: Session
    host: ScriptedHost
    found: Trajectory
    patches: int = 0
    _request: Sequence[Message] = ()
    # Of the last patch, until the request behind it shows whether an update tells more.
    _told: list[Any] = attrs.field(factory=list)
    _is_told: bool = True

    async def play(self, run: Run) -> None:
        for action in ACTIONS:
            await self._ask(run)
            self.found.actions.append(action)
            await getattr(self, f"_{action}")(run)

    async def _ask(self, run: Run) -> None:
        before, self._request = self._request, await run.project(list(self.host.messages))
        self.found.model.receive(self._request)
        held = {
            block["text"]
            for message in self._request
            if message["role"] == "toolResult" and message["toolName"] == "read"
            for block in message["content"]
        }
        self.found.retained.append(sum(len(text.encode()) for text in self.found.reads if text in held))
        native = {id(message) for message in self.host.messages}
        updates = [message for message in self._request[len(before) :] if id(message) not in native]
        if not self._is_told:
            self._note_tail(updates)

    def _note_tail(self, updates: Sequence[Message]) -> None:
        """What the patch before this request made longer besides its call and its result's first text."""
        told, entries = self._told, 0
        blocks = [{"type": "text", "text": text} for text in patch_texts("", told[0])[1:]]
        if blocks:
            entries += len(told[0]["effective"])
        # Each stands behind a comma.
        size = sum(json_bytes(item) + 1 for item in [*blocks, *updates])
        self.found.tail_bytes.append(size)
        self.found.tail_entries.append(entries + len(updates))
        self._is_told = True

    async def _read(self, run: Run) -> None:
        text = trajectory_text(len(self.found.reads) + 1)
        call = self.host.call("read", {"path": f"{CWD}/file-{len(self.found.reads) + 1:02}.txt"})
        if not any(verdict.block for verdict in run.preflight(self.host.messages[-1])):
            self.host.result(call, [text])
            self.found.reads.append(text)

    async def _patch(self, run: Run) -> None:
        self.patches += 1
        if self.patches == 2:
            other = await self.runtime.open_session(CWD, "foreign", "active")
            await other.patch_state(global_={"working": {"foreign": "written by another session"}})
        arguments = {"session": {"working": {"trajectory": f"patch {self.patches} is made"}}}
        call = self.host.call("patch_state", arguments)
        if any(verdict.block for verdict in run.preflight(self.host.messages[-1])):
            return
        self.found.barriers += 1
        receipt = await self.session.patch_state(session=arguments["session"], call_id=call["id"])
        self._told, self._is_told = [receipt.state_updates], False
        if self.found.makes_head_anew:
            self.session.note_compaction()
        self.host.result(call, patch_texts(receipt.text, receipt.state_updates))

    async def _answer(self, run: Run) -> None:
        self.host.answer(ANSWER)
        await run.settle(self.host.messages[-1])


async def _verify(session: Session, host: ScriptedHost, found: Trajectory, part: Phase) -> None:
    part.count("inferences", len(found.inferences))
    part.count("reads", len(found.reads))
    part.count("patches", found.barriers)
    part.check("11 calls of the model", len(found.inferences) == 11)
    part.check("8 reads", len(found.reads) == 8)
    part.check("2 patches", found.barriers == 2)
    reads, expected = 0, []
    for action in found.actions:
        expected.append(reads * TRAJECTORY_READ_BYTES)
        reads += action == "read"
    part.check("every read stays exact in all later requests", found.retained == expected)
    values = await session.read_state("session.working.trajectory"), await session.read_state("global.working.foreign")
    part.check("the session's value is that of the second patch", values[0].value == "patch 2 is made")
    part.check("the foreign value is there", values[1].value == "written by another session")
    kept = (await session.read_state("session.response")).value
    left = {"active": ANSWER, "passive": None, "exit handoff": "Begun."}[found.mode]
    part.check("the answer is memory in active mode alone", kept == left)
    part.check("the answer is the conversation's last message", host.messages[-1]["content"][0]["text"] == ANSWER)


def _bounds(found: Sequence[Trajectory]) -> list[Bound]:
    losses = [inference.lost_bytes for each in found for inference in each.inferences[1:]]
    reads = [size - TRAJECTORY_READ_BYTES for each in found for size in each.increments("read")]
    patches = [size for each in found for size in each.increments("patch")]
    foreseen = [each.tail_bytes[0] for each in found if each.tail_bytes]
    foreign = [entries for each in found for entries in each.tail_entries[1:]]
    return [
        bound("continuations", len(losses), exactly=30),
        bound("bytes lost per continuation", *losses, at_most=1),
        bound("tail bytes of a patch that could be foreseen", *foreseen, exactly=0),
        bound("entries that tell a foreign change", *foreign, exactly=1),
        bound("bytes that a read adds besides its text", *reads, at_most=READ_OVERHEAD_BYTES),
        bound("bytes that a patch round adds", *patches, at_most=PATCH_ROUND_BYTES),
    ]
