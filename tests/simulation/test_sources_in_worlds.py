"""Goal: whatever dies, fails or is cancelled, no card says anything else than its evidence proves, and none is accepted
whose source was something else when it was accepted.

Method: clients of several processes in simulated worlds with all kinds of faults compile cards while others rewrite the
files. Every version of a file has a fingerprint of its own, and a card names the version it was made from. So evidence
and card can be held against each other in the end, and an accepted version against the time during which it was the
present one. Bugs that are planted show that this would be noticed. All waiting is on a MockClock.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from kit.holds import holds
from strataflow import StrataflowError
from strataflow.runtime.simulation.sources import SimulatedSources
from strataflow.simulation import Process, Report, simulate
from strataflow.store.algebra import Compilation
from strataflow.store.algebra.evidence import source_evidence
from strataflow.store.artifacts import Fingerprint

PATHS = ("/project/a", "/project/b")
MESSAGE = {"role": "user", "content": "go", "timestamp": 1}


@attrs.define
class Editor:
    """Writes versions, and remembers from when to when each was the present one, in steps of its own."""

    sources: SimulatedSources
    step: int = 0
    versions: dict[str, list[tuple[Fingerprint, int]]] = attrs.field(factory=dict)

    def write(self, path: str) -> None:
        self.step += 1
        known = self.versions.setdefault(path, [])
        self.sources.write(path, b"x" * len(known))
        seen = self.sources.at(path)
        assert isinstance(seen, Fingerprint)
        known.append((seen, self.step))

    def number_of(self, path: str, fingerprint: Fingerprint) -> int:
        return [found for found, _ in self.versions[path]].index(fingerprint)

    def was_present_since(self, path: str, number: int, step: int) -> bool:
        """Whether this version was the present one at some time after ``step``."""
        later = self.versions[path][number + 1 :]
        return not later or later[0][1] > step


class Workload:
    def __init__(self) -> None:
        self.editor: Editor | None = None
        self.accepted = 0
        self.refused = 0

    async def __call__(self, process: Process) -> None:
        if self.editor is None or self.editor.sources is not process.sources:
            self.editor = Editor(process.sources)
            for path in PATHS:
                self.editor.write(path)
        async with trio.open_nursery() as nursery:
            for writer in process.writers:
                nursery.start_soon(self.client, process, writer)

    async def client(self, process: Process, writer: int) -> None:
        for turn in range(5):
            try:
                session = await process.open_session("/project", f"agent-{writer}")
                await session.patch_state(session={"working": {"turn": turn}})
                await self.turn(process, session, f"{process.name} {writer} {turn}")
            except StrataflowError:
                await trio.sleep(0.01)

    async def turn(self, process: Process, session: Any, name: str) -> None:
        editor, chance = self.editor, process.random
        assert editor is not None
        path = chance.choice(PATHS)
        if not (await session.read_state("cwd.artifacts")).value:
            await session.patch_state(cwd={"artifacts": {each: self.card(0) for each in PATHS}})
        async with session.run(name) as run:
            await run.project([MESSAGE])
            await run.note_read(path, name)
            if chance.random() < 0.2:
                editor.write(path)
            await run.note_read(path, name)
            counted = run._run._home.cell.artifacts.compilation().sources.get(path)
            if chance.random() < 0.3:
                editor.write(chance.choice(PATHS))
            if counted is None:
                return
            version, step = editor.number_of(path, counted.fingerprint), editor.step
            if chance.random() < 0.5:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.disturb, editor, path, chance.random() * 0.01)
                    await self.patch(session, editor, path, version, step)
            else:
                await self.patch(session, editor, path, version, step)

    async def disturb(self, editor: Editor, path: str, after_s: float) -> None:
        await trio.sleep(after_s)
        editor.write(path)

    async def patch(self, session: Any, editor: Editor, path: str, version: int, step: int) -> None:
        try:
            receipt = await session.patch_state(cwd={"artifacts": {path: self.card(version)}})
        except StrataflowError:
            self.refused += 1
            return
        self.accepted += 1
        assert editor.was_present_since(path, version, step), f"{path} was accepted from version {version}: {receipt}"

    @staticmethod
    def card(version: int) -> dict[str, Any]:
        return {"description": "d", "compilation": {"version": version}}

    async def check(self, process: Process) -> None:
        """In the end every card says what its evidence proves."""
        assert self.editor is not None
        session = await process.open_session("/project", "agent-0")
        state = session._session._state
        for image in state.trio(session._session._cell.readable()):
            if image.state is None:
                continue
            for path, entry in image.state.evidence.items():
                version = image.state.value["artifacts"][path]["compilation"]["version"]
                assert entry == source_evidence(self.editor.versions[path][version][0]), path


def play(seed: int) -> tuple[Report, Workload]:
    workload = Workload()
    return simulate(workload, seed=seed, processes=2, writers=4, check=workload.check), workload


@holds("A22", "A24")
def test_cards_and_evidence_agree_in_every_world_and_none_is_older_than_its_acceptance() -> None:
    accepted = refused = 0
    for seed in range(12):
        report, workload = play(seed)
        assert not report.violations, f"seed {seed}: {report.violations}"
        accepted += workload.accepted
        refused += workload.refused
    assert accepted > 50
    assert refused > 10


def test_a_store_that_does_not_look_once_more_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compilation, "changed", lambda self, patches: {})
    found = [violation for seed in range(8) for violation in play(seed)[0].violations]
    assert any("was accepted from version" in violation.message for violation in found)


def test_evidence_that_comes_apart_from_its_card_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Compilation,
        "evidence",
        lambda self, scope, patch: {path: source_evidence(Fingerprint(1, 1)) for path in self.compiled(scope, patch)},
    )
    assert any(play(seed)[0].violations for seed in range(6))
