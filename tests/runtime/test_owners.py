"""Two directories whose names lead to one folder: the first keeps it, the second is refused, nothing is merged."""

from __future__ import annotations

from pathlib import Path

import pytest

import strataflow
from kit.holds import holds
from strataflow.runtime import open_runtime


@holds("case store 2", "store 1.5.5")
async def test_a_folder_name_that_is_taken_is_refused_in_the_same_process(tmp_path: Path) -> None:
    async with open_runtime(str(tmp_path), durability="process") as runtime:
        owner = await runtime.open_session("/a-b/c", mode="active")
        await owner.patch_state(cwd={"working": {"x": 1}})
        with pytest.raises(strataflow.StoreError, match="/a/b-c") as caught:
            await runtime.open_session("/a/b-c", mode="active")
        assert caught.value.code == "E_CORRUPT"
        assert (await owner.patch_state(cwd={"working": {"x": 2}})).changed


@holds("case store 2", "store 1.5.5")
async def test_a_folder_name_that_is_taken_is_refused_in_another_process_before_and_after_it_is_written(
    tmp_path: Path,
) -> None:
    async with (
        open_runtime(str(tmp_path), durability="process") as one,
        open_runtime(str(tmp_path), durability="process") as other,
    ):
        owner = await one.open_session("/a-b/c", mode="active")
        await owner.patch_state(cwd={"working": {"x": 1}})
        for _ in range(2):
            with pytest.raises(strataflow.StoreError, match="/a/b-c") as caught:
                await other.open_session("/a/b-c", "another", mode="active")
            assert caught.value.code == "E_CORRUPT"
            await one.checkpoint()


@holds("case store 2", "store 1.5.5")
async def test_two_directories_that_open_one_absent_folder_at_once_are_told_apart_by_the_first_write(
    tmp_path: Path,
) -> None:
    async with (
        open_runtime(str(tmp_path), durability="process") as one,
        open_runtime(str(tmp_path), durability="process") as other,
    ):
        first = await one.open_session("/a-b/c", "first", mode="passive")
        second = await other.open_session("/a/b-c", "second", mode="passive")
        await first.patch_state(cwd={"working": {"first": 1}})
        with pytest.raises(strataflow.StoreError, match="/a/b-c") as caught:
            await second.patch_state(cwd={"working": {"second": 1}})
        assert caught.value.code == "E_CORRUPT"
        with pytest.raises(strataflow.StoreError, match="/a-b/c"):
            await second.read_state("cwd")
        assert (await first.read_state("cwd.working")).value == {"first": 1}
