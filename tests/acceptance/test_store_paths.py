"""Names and places: keys of directories and sessions, owned paths, the tree on disk (store 1.1, 1.2, cases 1 to 9)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from kit.faulty_disk import FaultyDisk
from kit.hand_stores import PRIVATE_FILES, SHARED_FILES, HandStore
from kit.holds import holds
from kit.runtimes import opened, opened_in, refused, session_of, value
from strataflow.runtime import open_runtime
from strataflow.store import StoreError, cwd_key, normalise_cwd, session_key
from strataflow.store.layout import check_session_key, is_owned


@holds("store 1.2.1", "case store 1")
@pytest.mark.parametrize(
    "cwd, key",
    [
        ("/srv/app/demo", "--srv-app-demo--"),
        ("/a-b/c", "--a-b-c--"),
        ("/a/b-c", "--a-b-c--"),
        ("/", "----"),
        ("C:\\work\\x", "--C--work-x--"),
    ],
)
def test_a_working_directory_names_its_folder_without_hashing(cwd: str, key: str) -> None:
    assert cwd_key(normalise_cwd(cwd)) == key


@holds("store 1.2.1")
async def test_a_directory_is_normalised_by_its_letters_and_links_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert normalise_cwd("/srv//app/./x/../demo/") == "/srv/app/demo"
    assert normalise_cwd(f"{tmp_path}/link") == f"{tmp_path}/link"
    async with opened(tmp_path / "state-flow") as runtime:
        one = await runtime.open_session("/srv/app/../demo", "s1", "active")
        two = await runtime.open_session("/srv/demo", "s1")
        await one.patch_state(session={"working": {"a": 1}})
        assert await value(two, "session.working.a") == 1


@holds("store 1.2.5", "store 1.5.5", "case store 2")
async def test_two_directories_with_one_key_never_share_memory(tmp_path: Path) -> None:
    store = HandStore(tmp_path, "/a-b/c").write(cwd={"working": {"whose": "first"}})
    before = store.bytes()
    async with opened(tmp_path) as runtime:
        with refused("E_CORRUPT") as caught:
            await runtime.open_session("/a/b-c", "other", "passive")
        assert "/a-b/c" in caught.value.message
        assert caught.value.data["path"].endswith("meta.json")
        rightful = await runtime.open_session("/a-b/c", "s1")
        assert await value(rightful, "cwd.working.whose") == "first"
    assert store.bytes() == before


@holds("store 1.2.2", "case store 3", "case store 4", "case store 7")
def test_a_session_key_comes_from_its_file_or_its_header() -> None:
    name = "2026-03-05T10-20-30-400Z_id1"
    assert session_key("id1", session_file=f"x/{name}.jsonl") == name
    assert session_key("s1", timestamp="2026-03-05T10:20:30.400Z") == "2026-03-05T10-20-30-400Z_s1"
    assert session_key("s1") == "s1"
    with pytest.raises(StoreError, match="E_UNSUPPORTED"):
        session_key("id1", session_file="foo.txt")


@holds("store 1.2.3", "case store 5")
@pytest.mark.parametrize(
    "key", ["", ".", "..", ".git", "a b", "a%1", "a-", "a.", "a/b", "a\\b", "a\n", "\na", "a\0b", "-a", "é"]
)
async def test_a_name_that_is_no_session_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(StoreError, match="E_UNSUPPORTED"):
        check_session_key(key)
    async with opened(tmp_path) as runtime:
        with refused("E_UNSUPPORTED"):
            await runtime.open_session("/project", key, "active")
    assert HandStore(tmp_path).bytes() == {}


@holds("store 1.2.4", "case store 6")
@pytest.mark.parametrize("session_id", [" s1", "s1 ", "", "\ts1"])
async def test_a_session_id_is_never_trimmed_but_refused(tmp_path: Path, session_id: str) -> None:
    async with opened(tmp_path) as runtime:
        with refused("E_UNSUPPORTED"):
            await runtime.open_session("/project", session_id, "active")


@holds("store 1.2.1", "store 1.2.4")
@pytest.mark.parametrize(
    "cwd, session_id, argument, words",
    [
        ("relative", "s1", "cwd", "not an absolute path"),
        (Path("/project"), "s1", "cwd", "not a string"),
        ("/a\0b", "s1", "cwd", "NUL"),
        ("/a\ud800", "s1", "cwd", "surrogate"),
        ("/" + "a" * 300, "s1", "cwd", "too long"),
        ("/project", 7, "session_id", "not a string"),
        ("/project", " s1", "session_id", "space around it"),
        ("/project", "a" * 300, "session_id", "at most 255"),
    ],
)
async def test_a_wrong_name_is_refused_with_its_argument_and_cause(
    tmp_path: Path, cwd: Any, session_id: Any, argument: str, words: str
) -> None:
    async with opened(tmp_path) as runtime:
        with refused("E_UNSUPPORTED") as caught:
            await runtime.open_session(cwd, session_id, "active")
    assert caught.value.data == {"argument": argument}
    assert words in caught.value.message


@holds("Ours-10")
async def test_an_empty_place_is_refused_and_never_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for places in ({"store": ""}, {"agent_dir": ""}):
        with refused("E_CONFIG"):
            async with open_runtime(**places):
                raise AssertionError("opened")
    assert list(tmp_path.iterdir()) == []


@holds("store 1.1.3", "case store 8", "case store 9")
def test_owned_paths_are_exactly_the_canonical_files() -> None:
    for path in ("config.json", "notes.md", "--k--/s/x/checkpoint.json", "--k--/.git/config.json", "state.json"):
        assert not is_owned(path), path
    for path in ("--k--/config.json", "--k--/state.json", "k/s1/meta.json", "--k--/s-/meta.json", ".git/config.json"):
        assert not is_owned(path), path
    for path in ("--k--/s1/runtime.json", "--k--/meta.json", "checkpoint.json", "----/s1/config.json"):
        assert is_owned(path), path


@holds("store 1.1.3", "store 1.1.4", "store 2.2.10", "Ours-1")
async def test_only_owned_files_and_the_private_folder_are_ever_written(tmp_path: Path) -> None:
    strangers = {"notes.md": b"mine\n", "state.json.bak": b"{", "--project--/s1/deep/checkpoint.json": b"not ours"}
    for name, content in strangers.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "config.json").write_bytes(b'{"mode":"active"}')
    async with session_of(tmp_path, mode=None) as session:
        await session.patch_state(global_={"working": {"a": 1}}, session={"lazy": {"b": 2}})
    written = HandStore(tmp_path).bytes()
    assert {name: written.pop(name) for name in strangers} == strangers
    assert written.pop("config.json") == b'{"mode":"active"}'
    private = {f"--project--/s1/{name}" for name in PRIVATE_FILES}
    shared = {f"{folder}{name}" for folder in ("", "--project--/") for name in SHARED_FILES}
    assert set(written) == private | shared
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [".strataflow", "--project--", "config.json", "notes.md", "state.json.bak", *SHARED_FILES]
    )
    assert (tmp_path / ".strataflow/.gitignore").read_text() == "*\n"


@holds("Ours-10", "store 1.1.1")
async def test_the_store_lies_in_the_agent_directory_and_pi_has_no_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "pi"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with open_runtime(durability="process") as runtime:
        assert runtime.store_path == str(tmp_path / "home/.strataflow/state-flow")
    monkeypatch.setenv("STRATAFLOW_DIR", str(tmp_path / "env"))
    async with open_runtime(durability="process") as runtime:
        assert runtime.store_path == str(tmp_path / "env/state-flow")
    async with open_runtime(str(tmp_path / "given"), durability="process") as runtime:
        assert runtime.store_path == str(tmp_path / "given/state-flow")
    assert not (tmp_path / "pi").exists()


@holds("Ours-10", "store 2.1.2", "case store 41")
async def test_links_above_the_agent_directory_are_followed_and_below_it_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    async with open_runtime(str(tmp_path / "link"), durability="process") as runtime:
        assert runtime.store_path == str(tmp_path / "real/state-flow")
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent/state-flow").symlink_to(tmp_path / "elsewhere")
    with refused("E_CORRUPT", "E_DISK"):
        async with open_runtime(str(tmp_path / "agent"), durability="process"):
            raise AssertionError("opened")
    assert not (tmp_path / "elsewhere").exists()


@holds("Ours-10", "Ours-13", "store 2.1.2")
async def test_a_linked_folder_of_a_scope_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    store = tmp_path / "state-flow"
    store.mkdir()
    (store / "--project--").symlink_to(tmp_path / "elsewhere")
    async with opened(store) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        with refused("E_CORRUPT") as caught:
            await session.patch_state(session={"working": {"a": 1}})
        assert "symlink" in caught.value.message
        assert await value(session, "global") == {}
        with refused("E_CORRUPT"):
            await value(session, "session")
        healthy = await runtime.open_session("/other", "s1", "active")
        await healthy.patch_state(session={"working": {"a": 1}})
    assert list((tmp_path / "elsewhere").iterdir()) == []


@holds("Ours-14", "store 2.2.9")
async def test_new_files_are_private_and_replaced_ones_keep_their_modes(tmp_path: Path) -> None:
    store = HandStore(tmp_path / "state-flow").write()
    shared = store.path("global", "meta.json")
    os.chmod(shared, 0o640)
    async with session_of(store.root) as session:
        await session.patch_state(global_={"working": {"a": 1}})
    assert stat.S_IMODE(shared.stat().st_mode) == 0o640
    async with session_of(tmp_path / "new") as session:
        await session.patch_state(global_={"working": {"a": 1}}, session={"working": {"a": 1}})
    for path in (tmp_path / "new").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@holds("Ours-19")
async def test_an_explicit_id_finds_its_folder_and_only_one_may_fit(tmp_path: Path) -> None:
    key = "2026-03-05T10-20-30-400Z_demo"
    HandStore(tmp_path, session=key).write(session={"working": {"a": 1}}).edit(
        "session", "runtime.json", identity={"cwd": "/project", "sessionId": "demo"}
    )
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "demo")
        assert await value(session, "session.working.a") == 1
        new = await runtime.open_session("/project", "other", "active")
        await new.patch_state(session={"working": {"b": 1}})
    assert sorted(path.name for path in (tmp_path / "--project--").iterdir() if path.is_dir()) == [key, "other"]
    (tmp_path / "--project--/2027_demo").mkdir()
    async with opened(tmp_path) as runtime:
        with refused("E_BRANCH") as caught:
            await runtime.open_session("/project", "demo")
        assert sorted(caught.value.data["names"]) == [key, "2027_demo"]


@holds("store 1.2.1")
async def test_a_relative_directory_is_refused_by_name(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        for cwd in ("project", "", "./x", "a\0b"):
            with refused("E_UNSUPPORTED"):
                await runtime.open_session(cwd, "s1", "active")


def _write(path: Path) -> None:
    path.write_text("*\n")


@holds("J8")
async def test_two_that_open_a_fresh_store_at_once_both_open_it(tmp_path: Path) -> None:
    ignore = tmp_path / ".strataflow/.gitignore"
    disk = FaultyDisk().before("write_new", str(ignore), lambda: _write(ignore))
    async with opened_in(tmp_path, disk=disk) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(session={"working": {"a": 1}})
    assert ignore.read_text() == "*\n"
