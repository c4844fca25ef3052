"""Which session to continue: what is looked at, what is recommended, and that an explicit wish goes first."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
import trio

from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import refused, session_of
from strataflow.continuation import (
    Candidate,
    Here,
    SessionHeader,
    Startup,
    inspect_session,
    inspect_store,
    list_sessions,
    read_header,
    recommend,
    resolve_startup,
)

HERE = Here(CWD, "default", "tty")


def session_file(folder: Path, name: str, session_id: str = "main", time: str = "2026-03-05T10:20:30.400Z") -> Path:
    path = folder / f"{name}.jsonl"
    header = {"type": "session", "id": session_id, "cwd": CWD, "timestamp": time}
    path.write_text(json.dumps(header) + "\n{not read}\n")
    return path


def candidate(name: str, at: float, **more: object) -> Candidate:
    found = Candidate(SessionHeader(name, name, CWD, at), HERE, True, True)
    return attrs.evolve(found, **more)  # type: ignore[arg-type]


@holds("store 6.5.1")
def test_headers_are_read_from_first_lines_and_what_is_broken_stands_apart(tmp_path: Path) -> None:
    session_file(tmp_path, "b", "b")
    session_file(tmp_path, "a", "a")
    (tmp_path / "bad.jsonl").write_text("{}\n")
    (tmp_path / "long.jsonl").write_text('"' + "x" * (1 << 17) + '"\n')
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "other.txt").write_text("x")
    found, broken = list_sessions(str(tmp_path))
    assert [header.session_id for header in found] == ["a", "b"]
    assert found[0].active_ms == 1772706030400
    assert [Path(path).name for path, _ in broken] == ["bad.jsonl", "link.jsonl", "long.jsonl"]
    assert list_sessions(str(tmp_path / "nowhere")) == ([], [])
    with refused("E_CORRUPT"):
        read_header(str(tmp_path / "missing.jsonl"))


@holds("store 6.5.2", "case store 123", "case store 124")
async def test_an_inspection_tells_whether_a_session_is_active_and_usable(tmp_path: Path) -> None:
    header, root = read_header(str(session_file(tmp_path, "main"))), tmp_path / "s"

    def looked() -> tuple[bool, bool]:
        found = inspect_session(inspect_store(store=str(root)), header, HERE)
        return found.enabled, found.restorable

    assert looked() == (False, True)
    assert not root.exists()
    root.mkdir()
    assert looked() == (False, True)
    async with session_of(root, "main", mode="active") as session:
        await session.patch_state(session={"working": {"a": 1}})
    assert looked() == (True, True)
    async with session_of(root, "main", mode="passive"):
        pass
    assert looked() == (False, True)
    for name in ("config.json", "runtime.json"):
        (path,) = root.glob(f"*/main/{name}")
        path.unlink()
    assert looked() == (True, False)


@holds("store 6.5.3", "case store 125", "case store 126")
def test_only_the_latest_session_of_a_place_is_recommended_and_a_tie_is_for_the_user() -> None:
    older, latest = candidate("a", 1), candidate("b", 2)
    assert recommend([older, latest], HERE) == Startup("resume", latest)
    assert recommend([older, attrs.evolve(latest, enabled=False)], HERE) == Startup("new")
    assert recommend([older, attrs.evolve(latest, restorable=False)], HERE) == Startup("new")
    twin = candidate("0", 2)
    assert recommend([older, latest, twin], HERE) == Startup("choose", choices=(twin, latest))
    assert recommend([], HERE) == Startup("new")
    assert recommend([older, attrs.evolve(latest, is_opted_out=True)], HERE) == Startup("resume", older)
    assert recommend([older, attrs.evolve(latest, is_open=False)], HERE) == Startup("resume", older)
    elsewhere = attrs.evolve(latest, here=attrs.evolve(HERE, branch="other"))
    assert recommend([older, elsewhere], attrs.evolve(HERE, branch="main")) == Startup("resume", older)
    assert recommend([older, elsewhere], HERE) == Startup("resume", elsewhere)
    assert recommend([latest], attrs.evolve(HERE, profile="other")) == Startup("new")


@holds("store 6.5.4", "store 6.5.5", "case store 127")
async def test_an_explicit_wish_goes_first_and_a_cancelled_choice_decides_nothing() -> None:
    both = [candidate("a", 2), candidate("b", 2)]
    assert await resolve_startup(both, HERE, wish=Startup("new")) == Startup("new")
    assert (await resolve_startup(both, HERE)).kind == "choose"

    async def second(choices: tuple[Candidate, ...]) -> int | None:
        both.clear()  # what was found is what is decided about
        return 1

    async def nothing(choices: tuple[Candidate, ...]) -> int | None:
        return None

    async def wrong(choices: tuple[Candidate, ...]) -> int | None:
        return 2

    async def never(choices: tuple[Candidate, ...]) -> int | None:
        await trio.sleep_forever()
        return 0

    tie = [*both]
    assert (await resolve_startup(both, HERE, choose=second)).candidate == tie[1]
    assert await resolve_startup(tie, HERE, choose=nothing) == Startup("new")
    with refused("E_SHAPE"):
        await resolve_startup(tie, HERE, choose=wrong)
    with trio.move_on_after(0.01) as scope:
        await resolve_startup(tie, HERE, choose=never)
        pytest.fail("nothing may be decided")
    assert scope.cancelled_caught
