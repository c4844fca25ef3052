"""The status of an open session as data and as the lines that a person reads, in every mode (L34 to L39)."""

from __future__ import annotations

import json
from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from kit.counting_disk import CountingDisk
from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import opened, opened_in, session_of, turn_held
from strataflow.runtime import Session
from strataflow.store import StoreError


def files(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every canonical file with its bytes and the time of its last change."""
    found = [path for path in root.rglob("*") if path.is_file() and ".strataflow" not in path.parts]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


async def lines_of(session: Session) -> list[str]:
    return (await session.inspect()).lines()


@holds("L35", "L36", "L37")
async def test_an_open_session_tells_its_status_in_the_fixed_order_of_lines(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "main") as session:
        card = {"description": "a page"}
        await session.patch_state(
            global_={"contract": {"shared": True}},
            cwd={"intents": {"ship": {"plan": {"$ref": "cwd.lazy.plan"}}}, "lazy": {"plan": "é", "other": 1}},
            session={"artifacts": {"/project/a.md": card}},
        )
        await session.accept_response("Done.")
        status = await session.inspect()
        unwritten = status.rows_unwritten
        assert status.lines() == [
            "Mode: active",
            f"Repository: {root}",
            "Scope keys: CWD --project--; session main",
            "Scope revisions: g1c1s2",
            "Runtime metadata: step #2",
            "Hot history: offsets 0..2; maximum depth 7",
            "Artifacts: global 0; CWD 0; session 1",
            f"Journal: {unwritten} changes are not in the canonical files yet",
            "Scope memory:",
            "- global: contract 15 B",
            "- cwd: intents 42 B, lazy 23 B; intent-owned lazy 1/2",
            "- session: artifacts 42 B, response 7 B",
            "Effective memory:",
            "",
            "{",
            '  "intents": {',
            '    "ship": {',
            '      "plan": {',
            '        "$ref": "cwd.lazy.plan"',
            "      }",
            "    }",
            "  },",
            "",
            '  "contract": {',
            '    "shared": true',
            "  },",
            "",
            '  "artifacts": {',
            '    "/project/a.md": {',
            '      "description": "a page"',
            "    }",
            "  },",
            "",
            '  "response": "Done.",',
            "",
            '  "lazy": {',
            '    "plan": "é",',
            '    "other": 1',
            "  }",
            "}",
        ]
        told = json.loads(json.dumps(status.to_json()))
        assert (told["mode"], told["pending"], told["blocked"], told["paused"]) == ("active", None, None, None)
        assert told["effective"] == (await session.inspect()).effective


@holds("L35", "case agent 160", "L8")
async def test_a_blocked_session_tells_why_in_one_line_and_shows_no_memory(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "main") as session:
        await session.patch_state(global_={"contract": {"shared": True}}, session={"working": {"a": 1}})
    (damaged,) = root.glob("*/main/runtime.json")
    damaged.write_text("{\n broken")
    async with session_of(root, "main") as session:
        before = files(root)
        lines = await lines_of(session)
        assert session.indicator == "state-flow active (blocked)"
        assert lines[0] == "Mode: active"
        assert lines[1].startswith("Blocked: E_CORRUPT: ")
        assert not any(line.startswith(("Scope revisions", "Runtime metadata", "Scope memory", "- ")) for line in lines)
        assert lines[4].startswith("Temporal materialization unavailable: E_CORRUPT: ")
        assert lines[5:] == ["Hot history: unavailable; configured maximum depth 7", "Effective memory: unavailable"]
        assert all("\n" not in line for line in lines)
        assert files(root) == before


@holds("L35", "L27")
async def test_a_fenced_session_tells_why_writing_is_paused_and_shows_its_memory(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s", "main", mode="passive") as session:
        await session.patch_state(session={"working": {"a": 1}})
        session._cell.fence(StoreError("E_DISK", "no space\nleft"))
        lines = await lines_of(session)
        assert session.indicator == "state-flow passive"
        (paused,) = [line for line in lines if line.startswith("Memory writes paused after mode change: ")]
        assert "no space left" in paused
        assert lines.index(paused) == lines.index("Hot history: offsets 0..1; maximum depth 7") + 1
        assert not any(line.startswith("Blocked") for line in lines)
        assert "- session: working 7 B; intent-owned working 0/1" in lines


@holds("L5", "L35", "L39")
async def test_a_session_that_waits_for_active_tells_the_mode_that_still_holds(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "main") as session:
        await session.patch_state(session={"working": {"a": 1}})
        await session.set_mode("off")
        with turn_held(root):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.set_mode, "active")
                await wait_all_tasks_blocked(0.02)
                status = await session.inspect()
                assert status.lines()[0] == "Mode: off (active is being selected)"
                assert (status.mode, status.pending) == ("off", "active")
                assert status.effective == {"working": {"a": 1}}
                nursery.cancel_scope.cancel()


@holds("L39", "L34")
async def test_a_session_that_is_off_is_inspected_from_outside_and_stays_off(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "active")
        await session.patch_state(session={"working": {"a": 1}})
        await session.set_mode("off")
        assert session.indicator is None
        assert "- session: working 7 B; intent-owned working 0/1" in await lines_of(session)
        assert (await lines_of(session))[0] == "Mode: off"
        assert (session.mode, session._cell.address) == ("off", None)
        nobody = await runtime.open_session(CWD, "nobody", "off")
        assert (await lines_of(nobody))[:2] == ["Mode: off", f"Repository: {root}"]
        assert list(root.glob("*/nobody")) == []


@holds("L38")
async def test_the_status_of_an_open_session_looks_at_no_file_and_changes_nothing(tmp_path: Path) -> None:
    disk = CountingDisk()
    async with opened_in(tmp_path / "s", disk=disk) as runtime:
        session = await runtime.open_session(CWD, "main", "active")
        await session.patch_state(session={"artifacts": {str(tmp_path / "source.md"): {"description": "d"}}})
        await runtime.checkpoint()
        await wait_all_tasks_blocked(0.02)
        before = files(tmp_path)
        disk.operations.clear()
        head = runtime._state.head
        first = (await session.inspect()).lines()
        assert (await session.inspect()).lines() == first
        assert disk.operations == []
        await session.status()
        assert files(tmp_path) == before
        assert runtime._state.head == head
