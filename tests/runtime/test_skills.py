"""Skills: what a model is told when it reads one, what its card must be, and the two that come with the program."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kit.holds import holds
from kit.runtimes import refused
from kit.simulated_runtimes import session_in
from strataflow.runtime import RegisteredSkill, Run, Session, packaged_skills
from strataflow.runtime.simulation.seams import SimulatedMachine

USER, PROJECT, TEMPORARY = "/home/u/skills/one/SKILL.md", "/project/skills/two/SKILL.md", "/tmp/three/SKILL.md"
OWNERS = {USER: "global", PROJECT: "cwd", TEMPORARY: "session"}
CARD = {"description": "does one thing", "kind": "skill", "compilation": {"steps": ["a", "b"]}}
MESSAGE = {"role": "user", "content": "go", "timestamp": 1}


@pytest.fixture
def machine() -> SimulatedMachine:
    found = SimulatedMachine()
    for path in OWNERS:
        found.sources.write(path, f"---\nname: x\n---\n{path}".encode())
    return found


@asynccontextmanager
async def running(machine: SimulatedMachine) -> AsyncIterator[tuple[Session, Run]]:
    async with session_in(machine) as (_, session):
        session.registered_skills(
            [
                RegisteredSkill(USER, "user"),
                {"path": "skills/two/SKILL.md", "provenance": "project", "source": "skill"},
                {"path": TEMPORARY, "provenance": "temporary"},
            ]
        )
        async with session.run("go") as run:
            await run.project([MESSAGE])
            yield session, run


async def read(run: Run, path: str, call_id: str = "call") -> str | None:
    assert await run.note_read(path, call_id) is None
    return await run.note_read(path, call_id)


async def compiled(session: Session, path: str) -> None:
    scope = {"global": "global_"}.get(OWNERS[path], OWNERS[path])
    await session.patch_state(**{scope: {"artifacts": {path: CARD}}})  # type: ignore[arg-type]


@holds("A26", "A27", "A28", "A29", "A32", "case agent 153")
@pytest.mark.parametrize("path", OWNERS)
async def test_reading_a_skill_names_its_target_until_a_card_speaks_for_its_bytes(
    machine: SimulatedMachine, path: str
) -> None:
    async with running(machine) as (session, run):
        note = await read(run, path)
        assert note is not None
        assert f'{OWNERS[path]}.artifacts["{path}"]' in note
        await compiled(session, path)
        assert await read(run, path, "second") is None
        assert await session.invalidations() == []  # never listed
        machine.sources.write(path, b"other bytes")
        assert await read(run, path, "third") is not None
        assert (await session.read_state(f"{OWNERS[path]}.artifacts")).value == {path: CARD}  # no body, no hash


@holds("A26", "case agent 154")
async def test_a_file_that_nobody_registered_or_that_two_own_gets_no_note(machine: SimulatedMachine) -> None:
    machine.sources.write("/else/SKILL.md", b"---\nname: y\n---\n")
    async with running(machine) as (session, run):
        assert await read(run, "/else/SKILL.md") is None
        both = [{"path": USER, "provenance": "user"}, {"path": USER, "provenance": "project"}]
        assert session.registered_skills(both) == {}
        assert await read(run, USER, "second") is None
        with refused("E_SHAPE"):
            session.registered_skills([{"path": USER}])
        await session.patch_state(cwd={"artifacts": {USER: {"description": "an ordinary card"}}})


@holds("A30", "case agent 155")
async def test_a_read_skill_that_is_not_compiled_blocks_neither_patch_nor_answer(machine: SimulatedMachine) -> None:
    async with running(machine) as (session, run):
        await read(run, USER)
        assert (await session.patch_state(session={"working": {"x": 1}})).changed
        assert await run.finish("done") is not None


@holds("A33", "A34", "case agent 156")
async def test_a_card_of_a_read_skill_must_be_whole_and_in_its_scope(machine: SimulatedMachine) -> None:
    async with running(machine) as (session, run):
        await session.patch_state(cwd={"artifacts": {USER: {"description": "old"}}})
        await read(run, USER)
        with refused("E_SKILL_SCOPE"):
            await session.patch_state(cwd={"artifacts": {USER: CARD}})
        with refused("E_SKILL") as caught:
            await session.patch_state(global_={"artifacts": {USER: {}}})
        assert len(caught.value.data["problems"]) == 3
        await session.patch_state(global_={"artifacts": {USER: CARD}}, cwd={"artifacts": {USER: None}})
        assert (await session.read_state("cwd.artifacts")).value is None


@holds("A35")
async def test_a_skill_that_can_not_be_hashed_says_so_in_note_and_refusal(machine: SimulatedMachine) -> None:
    async with running(machine) as (session, run):
        await run.note_read(USER, "call")
        machine.sources.hide(USER, "permission denied")
        note = await run.note_read(USER, "call")
        assert "permission denied" in str(note)
        assert (await session.patch_state(session={"working": {"x": 1}})).changed
        with refused("E_SKILL") as caught:
            await session.patch_state(global_={"artifacts": {USER: CARD}})
        assert "permission denied" in caught.value.message


@holds("A35", "A19")
async def test_a_skill_that_changes_while_it_is_read_has_no_hash(machine: SimulatedMachine) -> None:
    async with running(machine) as (session, run):
        await run.note_read(USER, "call")
        machine.sources.write(USER, b"changed meanwhile")
        assert "changed while it was read" in str(await run.note_read(USER, "call"))
        with refused("E_SKILL"):
            await session.patch_state(global_={"artifacts": {USER: CARD}})


@holds("A22")
async def test_a_skill_that_changes_after_its_read_refuses_its_card_until_it_is_read_again(
    machine: SimulatedMachine,
) -> None:
    async with running(machine) as (session, run):
        await read(run, USER)
        machine.sources.write(USER, b"changed afterwards")
        with refused("E_SOURCE_CHANGED"):
            await session.patch_state(global_={"artifacts": {USER: CARD}})
        await read(run, USER, "again")
        await compiled(session, USER)
        assert await read(run, USER, "third") is None


# -- the two of the package -------------------------------------------------------------------------------------------


@holds("A38")
def test_two_skills_come_with_the_program_as_files_with_front_matter() -> None:
    guide, memory = packaged_skills()
    assert (guide.name, memory.name) == ("state-flow-guide", "state-flow-memory")
    for skill in (guide, memory):
        assert os.path.isabs(skill.path)
        assert Path(skill.path).parent.name == skill.name
        assert Path(skill.path).read_text(encoding="utf-8").startswith("---\n")
        assert skill.body.startswith("# ")
        assert 0 < len(skill.description) <= 1024
    assert "never starts an audit" in guide.description
    for word in ("Limit", "Classify", "evidence", "Compact", "owners", "one patch", "read it back", "Then stop"):
        assert word in memory.body, word
    assert "explicitly" in memory.description


@holds("A38", "A26")
async def test_a_packaged_skill_can_be_registered_read_and_compiled(tmp_path: Path) -> None:
    from kit.runtimes import session_of

    skill = packaged_skills()[0]
    async with session_of(tmp_path / "store") as session:
        session.registered_skills([RegisteredSkill(skill.path, "user", skill.name)])
        async with session.run("go") as run:
            await run.project([MESSAGE])
            assert await read(run, skill.path) is not None
            card: dict[str, Any] = {**CARD, "description": skill.description}
            await session.patch_state(global_={"artifacts": {skill.path: card}})
            assert await read(run, skill.path, "second") is None
