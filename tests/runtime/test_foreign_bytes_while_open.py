"""Somebody edits the files of a session by hand while it is open: those bytes win, and the runtime goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.holds import holds
from kit.runtimes import opened, value
from strataflow import StoreError


@holds("Ours-1", "J6")
async def test_a_hand_edit_of_an_open_session_is_found_by_the_checkpoint_and_wins(tmp_path: Path) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", mode="active")
        await session.patch_state(session={"working": {"ours": 1}})
        await runtime.checkpoint()
        file = tmp_path / "state-flow/--project--/main/checkpoint.json"
        for round_ in range(3):
            await session.patch_state(session={"working": {"lost": round_}})
            file.write_text(f'{{"working":{{"by-hand":{round_}}}}}\n')
            report = await runtime.checkpoint()
            assert report.superseded == ("--project--/main",)
            with pytest.raises(StoreError) as caught:
                await session.patch_state(session={"working": {"refused": 1}})
            assert caught.value.code == "E_CHANGED"
            await session.set_mode("active")
            assert (await value(session, "session.working"))["by-hand"] == round_
        assert [event.name for event in runtime.events] == ["superseded"] * 3
        aside = tmp_path / "state-flow/.strataflow/superseded"
        assert sum('"lost"' in path.read_text() for path in aside.iterdir()) == 3
        assert (await session.patch_state(session={"working": {"after": 1}})).changed


@holds("Ours-1", "J6", "store 1.10")
async def test_a_damaging_hand_edit_blocks_its_scope_alone_and_a_repair_heals_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", mode="active")
        await session.patch_state(session={"working": {"ours": 1}})
        await runtime.checkpoint()
        file = tmp_path / "state-flow/--project--/main/checkpoint.json"
        good = file.read_bytes()
        file.write_text('{"working":')
        await session.patch_state(session={"working": {"ours": 2}}, cwd={"working": {"shared": 1}})
        report = await runtime.checkpoint()
        assert set(report.blocked) == {"--project--/main"}
        assert "--project--" in report.scopes
        assert file.read_text() == '{"working":'
        file.write_bytes(good)
        assert "--project--/main" in (await runtime.checkpoint()).scopes
        assert await value(session, "effective.working") == {"ours": 2, "shared": 1}
