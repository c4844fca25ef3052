"""The operator's settings in the root ``config.json`` (store 7, cases 128 to 131)."""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path

import pytest

from kit.faulty_disk import FaultyDisk
from kit.holds import holds
from kit.runtimes import opened, opened_in, refused
from strataflow.runtime import Settings


async def settings_of(root: Path, config: object) -> Settings:
    """What a runtime makes of this root configuration."""
    (root / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    async with opened(root) as runtime:
        return runtime.settings


@holds("store 7.1", "store 7.2", "store 1.1.3")
async def test_without_a_file_the_defaults_hold_and_none_is_created(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        assert runtime.settings == Settings(None, False, True, 7, "off")
    assert not (tmp_path / "config.json").exists()


@holds("store 7.1", "store 7.2", "store 1.1.3", "Ours-4")
async def test_settings_are_taken_as_they_are_and_the_file_is_left_alone(tmp_path: Path) -> None:
    text = '{ "mode": "active",\n "logging": true, "showSuccessfulPatches": false, "historyLimit": 12 }'
    assert await settings_of(tmp_path, text) == Settings("active", True, False, 12, "passive")
    assert (tmp_path / "config.json").read_text() == text
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1")
        assert (await session.status())["history_limit"] == 12
    async with opened(tmp_path, history_limit=3) as runtime:
        session = await runtime.open_session("/project", "s1")
        assert (await session.status())["history_limit"] == 3


@holds("case store 128", "store 7.1", "store 7.7", "Ours-9", "case agent 18")
@pytest.mark.parametrize(
    "config",
    [
        {"historyLimit": -1},
        {"historyLimit": 101},
        {"historyLimit": 1.5},
        {"historyLimit": "7"},
        {"historyLimit": True},
        {"historyLimit": None},
        {"mode": "on"},
        {"mode": None},
        {"logging": 1},
        {"showSuccessfulPatches": "yes"},
        {"autoStart": 0},
        *[{key: True} for key in ("remotePublication", "memoryOwner", "globalMemory", "directory", "enabled", "x")],
        [],
        "{",
        "",
        '{"mode":"off","mode":"active"}',
        '{"historyLimit":7} x',
        "null",
    ],
)
async def test_settings_with_any_mistake_are_refused_and_never_defaults(tmp_path: Path, config: object) -> None:
    with refused("E_CONFIG") as caught:
        await settings_of(tmp_path, config)
    assert caught.value.data["path"] == str(tmp_path / "config.json")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@holds("case agent 18", "store 3.6.1", "T65")
@pytest.mark.parametrize("limit", [-1, 101, 1.5, "7", True])
async def test_a_limit_out_of_range_is_refused_as_an_argument_too(tmp_path: Path, limit: object) -> None:
    with refused("E_CONFIG"):
        async with opened(tmp_path, history_limit=limit):
            raise AssertionError("opened")


@holds("case store 129", "case store 130", "store 7.3", "store 7.4")
@pytest.mark.parametrize(
    "config, mode, inactive",
    [
        ({"autoStart": True, "passiveBootstrap": False, "passiveTools": False}, "active", "off"),
        ({"mode": "off", "autoStart": True}, "off", "off"),
        ({"mode": "active"}, "active", "passive"),
        ({"mode": "passive", "passiveBootstrap": False, "passiveTools": False}, "passive", "passive"),
        ({"autoStart": True}, "active", "passive"),
        ({"autoStart": False}, "passive", "passive"),
        ({"passiveBootstrap": False}, "passive", "passive"),
        ({"passiveBootstrap": False, "passiveTools": False}, "off", "off"),
        ({"passiveTools": True}, "passive", "passive"),
        ({}, None, "off"),
    ],
)
async def test_old_keys_choose_a_mode_only_where_no_new_one_does(
    tmp_path: Path, config: object, mode: str | None, inactive: str
) -> None:
    settings = await settings_of(tmp_path, config)
    assert (settings.mode, settings.inactive_mode) == (mode, inactive)


@holds("store 7.4", "store 7.5", "store 4.2.1")
@pytest.mark.parametrize("config, expected", [({}, "off"), ({"mode": "active"}, "passive"), ({"mode": "off"}, "off")])
async def test_a_session_whose_files_do_not_tell_falls_back_to_the_inactive_mode(
    tmp_path: Path, config: object, expected: str
) -> None:
    folder = tmp_path / "--project--/s1"
    folder.mkdir(parents=True)
    (folder / "runtime.json").write_text("{")
    (tmp_path / "config.json").write_text(json.dumps(config))
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1")
        assert session.mode == expected
        status = await session.status()
        assert (status.get("blocked") or "").startswith("E_CORRUPT" if expected != "off" else "")


@holds("case store 131", "store 7.1", "Ours-13")
async def test_settings_behind_a_broken_link_or_a_folder_are_unreadable(tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link/config.json").symlink_to("nowhere")
    (tmp_path / "folder/config.json").mkdir(parents=True)
    for name in ("link", "folder"):
        with refused("E_CONFIG") as caught:
            async with opened(tmp_path / name):
                raise AssertionError("opened")
        assert caught.value.data["path"] == str(tmp_path / name / "config.json")
    disk = FaultyDisk().refuse("read", str(tmp_path / "config.json"), errno.EACCES)
    with refused("E_CONFIG"):
        async with opened_in(tmp_path, disk=disk):
            raise AssertionError("opened")


@holds("Ours-20")
async def test_windows_is_refused_by_name_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with refused("E_UNSUPPORTED") as caught:
        async with opened(tmp_path / "state-flow"):
            raise AssertionError("opened")
    assert "Windows" in caught.value.message
    assert list(tmp_path.iterdir()) == []


@holds("store 7.6")
async def test_another_store_folder_has_settings_of_its_own(tmp_path: Path) -> None:
    for name, limit in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        assert (await settings_of(tmp_path / name, {"historyLimit": limit})).history_limit == limit


@holds("store 7.1")
@pytest.mark.parametrize(
    "config, words",
    [
        ({"mode": "loud"}, 'must be one of active, passive, off, not "loud"'),
        ({"historyLimit": 101}, "must be an integer from 0 to 100, not 101"),
        ({"logging": 1}, "must be true or false, not 1"),
        ({"enabled": True}, '"enabled" is no setting; remove it'),
    ],
)
async def test_a_refused_setting_is_told_with_what_would_be_right(tmp_path: Path, config: object, words: str) -> None:
    with refused("E_CONFIG") as caught:
        await settings_of(tmp_path, config)
    assert words in caught.value.message
    assert str(tmp_path / "config.json") in caught.value.message
