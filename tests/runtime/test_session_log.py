"""Who changed a path, as a session and as an onlooker see it; what is private stays so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from kit.runtimes import opened, refused
from kit.simulated_runtimes import session_in, simulated
from strataflow import LogEntry, Session
from strataflow.runtime import inspect_store
from strataflow.runtime.simulation.seams import SimulatedMachine

SECRET = "secret of somebody"


def shown(entries: list[LogEntry]) -> list[tuple[str, dict[str, Any]]]:
    """Who made each entry, and what it changed."""
    return [(f"{entry.session_id} in {entry.cwd}", dict(entry.patches)) for entry in entries]


async def write(session: Session, /, **patches: Any) -> None:
    await session.patch_state(**{name: {"working": members} for name, members in patches.items()})


async def test_a_log_of_a_path_names_who_touched_it_the_newest_last(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (runtime, mine):
        theirs = await runtime.open_session("/project", "other", "active")
        await write(mine, cwd={"plan": {"step": 1}})
        await write(theirs, cwd={"plan": {"step": 2}})
        await write(theirs, cwd={"else": 1})
        await write(mine, cwd={"plan": None})
        by_path = [("main in /project", 1), ("other in /project", 2)]
        entries = await mine.log("cwd.working.plan.step")
        assert [(who, patches["cwd"]["working"]["plan"]) for who, patches in shown(entries)] == [
            *[(who, {"step": step}) for who, step in by_path],
            ("main in /project", None),
        ]
        assert [entry.seq for entry in entries] == sorted(entry.seq for entry in entries)
        assert shown(await mine.log("working.plan", limit=1)) == shown(entries)[-1:]
        assert shown(await mine.log("cwd.working.else")) == [("other in /project", {"cwd": {"working": {"else": 1}}})]
        assert len(await mine.log()) == 4
        assert len(await mine.log("cwd")) == 4
        assert await mine.log("cwd.contract") == []
        assert await mine.log("session") == []


async def test_a_log_never_shows_the_private_memory_of_others(autojump_clock: MockClock) -> None:
    machine = SimulatedMachine()
    async with simulated(machine) as runtime, simulated(machine, "second") as second:
        mine = await runtime.open_session("/project", "main", "active")
        others = [
            await runtime.open_session("/project", "other", "active"),
            await second.open_session("/project", "third", "active"),
            await second.open_session("/elsewhere", "main", "active"),
        ]
        for other in others:
            await write(other, global_={"shared": other.session_id}, session={"x": SECRET})
            await write(other, session={"y": SECRET})
        await write(others[2], cwd={"x": SECRET})
        await write(mine, session={"x": "mine"})
        for path in (None, "effective", "global", "cwd", "session", "working", "session.working.x", "working.y"):
            entries = await mine.log(path, limit=100)
            assert SECRET not in repr(entries), path
        assert [who for who, _ in shown(await mine.log())] == [
            "other in /project",
            "third in /project",
            "main in /elsewhere",
            "main in /project",
        ]
        assert shown(await mine.log("session.working.x")) == [
            ("main in /project", {"session": {"working": {"x": "mine"}}})
        ]
        # Each of them sees its own.
        assert SECRET in repr(await others[0].log("session.working.x"))


async def test_a_log_looks_further_back_until_it_has_enough(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, mine):
        await write(mine, cwd={"rare": 0})
        for number in range(300):
            await write(mine, cwd={"often": number})
            if number % 100 == 0:
                await write(mine, cwd={"rare": number + 1})
        assert [patches["cwd"]["working"]["rare"] for _, patches in shown(await mine.log("cwd.working.rare"))] == [
            0,
            1,
            101,
            201,
        ]
        assert len(await mine.log("cwd.working.often", limit=300)) == 300


async def test_what_gave_way_to_foreign_bytes_is_marked_in_the_log(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", mode="active")
        await write(session, cwd={"ours": 1}, global_={"ours": 1})
        await runtime.checkpoint()
        await write(session, cwd={"lost": 1}, global_={"kept": 1})
        (root / "--project--/checkpoint.json").write_text('{"working":{"theirs":1}}\n')
        await runtime.checkpoint()
        entries = await session.log("cwd.working")
        assert [(entry.superseded, entry.patches["cwd"]["working"]) for entry in entries] == [
            ((), {"ours": 1}),
            (("cwd",), {"lost": 1}),
        ]
        assert [entry.superseded for entry in await session.log("global.working.kept")] == [("cwd",)]
        seen = inspect_store(store=str(root)).log_of_session("/project", "main", "cwd.working")
        assert list(seen) == entries


@pytest.mark.parametrize(
    "path, limit, code",
    [
        ("nowhere", 1, "E_PATH"),
        ("cwd[1].working", 1, "E_READ_SHAPE"),
        ("cwd.patches[0]", 1, "E_READ_SHAPE"),
        (7, 1, "E_SHAPE"),
        ("cwd", 0, "E_SHAPE"),
        ("cwd", True, "E_SHAPE"),
        ("cwd", "2", "E_SHAPE"),
    ],
)
async def test_what_can_not_be_asked_of_a_log_is_refused(
    autojump_clock: MockClock, path: Any, limit: Any, code: str
) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        with refused(code):
            await session.log(path, limit)


async def test_a_session_that_is_off_or_closed_has_no_log(autojump_clock: MockClock) -> None:
    async with session_in(SimulatedMachine()) as (_, session):
        await session.set_mode("off")
        with refused("E_OFF"):
            await session.log()
        await session.aclose()
        with refused("E_CLOSED"):
            await session.log()


async def test_an_onlooker_sees_the_log_of_a_session_without_opening_it(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    inspector = inspect_store(store=str(root))
    assert list(inspector.log_of_session("/project", "main", "cwd")) == []
    async with opened(root) as runtime:
        session = await runtime.open_session("/project", mode="active")
        other = await runtime.open_session("/project", "other", "active")
        await write(other, cwd={"plan": 1}, session={"x": SECRET})
        assert list(inspector.log_of_session("/project", "main", "cwd.working.plan")) == await session.log("cwd")
        assert SECRET not in repr(inspector.log_of_session("/project", "main"))
        assert SECRET in repr(inspector.log_of_session("/project", "other"))
        with refused("E_PATH"):
            inspector.log_of_session("/project", "main", "nowhere")
