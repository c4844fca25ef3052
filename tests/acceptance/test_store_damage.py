"""Malformed, partial, contradictory and foreign files: an error with code, path and cause, and nothing rewritten
(store 1.4 to 1.7, 1.10, 4.1, cases 14 to 29, 63, 82)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.faulty_disk import FaultyDisk
from kit.hand_stores import ORIGIN, PRIVATE_FILES, HandStore, boundary
from kit.holds import holds
from kit.runtimes import opened, opened_in, refused, session_of, value, values

Harm = Callable[[HandStore], Path]


def replaced(scope: str, name: str, content: object) -> Harm:
    """One file holds something else."""
    return lambda store: store.put(scope, name, content)


def too_long(store: HandStore) -> Path:
    """A tail of 101 lines, told by its own file."""
    return temporal("cwd", ORIGIN, [boundary(n) for n in range(2, 103)], 101, 101)(store).with_name("patches.jsonl")


def edited(scope: str, name: str, **members: object) -> Harm:
    """Members of one JSON file hold something else."""

    def harm(store: HandStore) -> Path:
        store.edit(scope, name, **members)
        return store.path(scope, name)

    return harm


def removed(scope: str, name: str) -> Harm:
    """One file of several is missing; it is the one that is named."""

    def harm(store: HandStore) -> Path:
        path = store.path(scope, name)
        path.unlink()
        return path

    return harm


def temporal(scope: str, checkpoint: object, patches: object, revision: object = 2, lines: int = 2) -> Harm:
    """A scope with ``lines`` lines and these boundaries."""

    def harm(store: HandStore) -> Path:
        store.put(scope, "patches.jsonl", '{"working":{}}\n' * lines)
        store.edit(scope, "meta.json", temporal={"checkpoint": checkpoint, "patches": patches, "revision": revision})
        return store.path(scope, "meta.json")

    return harm


def lineage(*boundaries: object) -> Harm:
    """A run record with this lineage."""
    return edited("session", "runtime.json", lineage=list(boundaries))


SHARED = ("global", "cwd")
DAMAGE: dict[str, tuple[str, Harm, str]] = {
    # scope, what is done to it, the code of the refusal
    "checkpoint-without-patches": ("global", removed("global", "patches.jsonl"), "E_CORRUPT"),
    "patches-without-checkpoint": ("cwd", removed("cwd", "checkpoint.json"), "E_CORRUPT"),
    "bad-checkpoint": ("cwd", replaced("cwd", "checkpoint.json", "{"), "E_CORRUPT"),
    "empty-checkpoint": ("cwd", replaced("cwd", "checkpoint.json", ""), "E_CORRUPT"),
    "checkpoint-is-a-list": ("cwd", replaced("cwd", "checkpoint.json", []), "E_CORRUPT"),
    "checkpoint-is-no-utf8": (
        "global",
        replaced("global", "checkpoint.json", b'{"lazy":{"a":"\xff"}}'),
        "E_CORRUPT",
    ),
    "checkpoint-with-a-bom": ("global", replaced("global", "checkpoint.json", b"\xef\xbb\xbf{}"), "E_CORRUPT"),
    "duplicate-keys": ("cwd", replaced("cwd", "checkpoint.json", '{"lazy":{"a":1,"a":2}}'), "E_CORRUPT"),
    "not-a-number": ("cwd", replaced("cwd", "checkpoint.json", '{"lazy":{"a":NaN}}'), "E_CORRUPT"),
    "too-large-integer": ("cwd", replaced("cwd", "checkpoint.json", '{"lazy":{"a":9223372036854775808}}'), "E_CORRUPT"),
    "lone-surrogate": ("cwd", replaced("cwd", "checkpoint.json", '{"lazy":{"a":"\\ud800"}}'), "E_CORRUPT"),
    "trailing-text": ("cwd", replaced("cwd", "checkpoint.json", "{} {}"), "E_CORRUPT"),
    "too-deep": ("cwd", replaced("cwd", "checkpoint.json", '{"lazy":' + '{"a":' * 200 + "1" + "}" * 201), "E_CORRUPT"),
    "much-too-deep": ("cwd", replaced("cwd", "checkpoint.json", '{"lazy":{"a":' + "[" * 100_000), "E_CORRUPT"),
    "plane-of-wrong-type": ("global", replaced("global", "checkpoint.json", {"working": []}), "E_CORRUPT"),
    "response-of-wrong-type": ("session", replaced("session", "checkpoint.json", {"response": {}}), "E_CORRUPT"),
    "null-plane-in-checkpoint": ("cwd", replaced("cwd", "checkpoint.json", {"lazy": None}), "E_CORRUPT"),
    "null-in-an-array": ("cwd", replaced("cwd", "checkpoint.json", {"working": {"a": [None]}}), "E_CORRUPT"),
    "bad-card": ("cwd", replaced("cwd", "checkpoint.json", {"artifacts": {"/x": {"kind": "k"}}}), "E_CORRUPT"),
    "count-mismatch": ("global", temporal("global", ORIGIN, [boundary(2)]), "E_CORRUPT"),
    "disconnected": ("global", temporal("global", ORIGIN, [boundary(2, "other"), boundary(3)]), "E_CORRUPT"),
    "positions-shrink": ("cwd", temporal("cwd", ORIGIN, [boundary(5), boundary(4)]), "E_CORRUPT"),
    "id-twice": ("cwd", temporal("cwd", ORIGIN, [boundary(3), {**boundary(5), "id": "T3"}]), "E_CORRUPT"),
    "extra-member-of-a-boundary": ("cwd", temporal("cwd", {**ORIGIN, "x": 1}, [], lines=0), "E_CORRUPT"),
    "blank-id": ("cwd", temporal("cwd", {**ORIGIN, "id": " "}, [], lines=0), "E_CORRUPT"),
    "own-parent": ("cwd", temporal("cwd", {**ORIGIN, "parent": ORIGIN["id"]}, [], lines=0), "E_CORRUPT"),
    "position-zero-with-parent": (
        "cwd",
        temporal("cwd", {"id": "a", "parent": "b", "position": 0}, [], lines=0),
        "E_CORRUPT",
    ),
    "position-is-a-bool": ("cwd", temporal("cwd", {**ORIGIN, "position": True}, [], lines=0), "E_CORRUPT"),
    "revision-too-small": ("cwd", temporal("cwd", ORIGIN, [boundary(2), boundary(3)], revision=1), "E_CORRUPT"),
    "revision-is-a-float": ("cwd", temporal("cwd", ORIGIN, [], revision=1.0, lines=0), "E_CORRUPT"),
    "too-many-lines": ("cwd", too_long, "E_CORRUPT"),
    "meta-absent": ("global", removed("global", "meta.json"), "E_UNSUPPORTED"),
    "meta-without-temporal": ("cwd", replaced("cwd", "meta.json", {"version": 2}), "E_UNSUPPORTED"),
    "temporal-without-patches": (
        "cwd",
        edited("cwd", "meta.json", temporal={"checkpoint": ORIGIN}),
        "E_UNSUPPORTED",
    ),
    "temporal-patches-no-list": (
        "cwd",
        edited("cwd", "meta.json", temporal={"checkpoint": ORIGIN, "patches": {}}),
        "E_UNSUPPORTED",
    ),
    "version-3": ("global", edited("global", "meta.json", version=3), "E_UNSUPPORTED"),
    "version-missing": ("global", edited("global", "meta.json", version=None), "E_UNSUPPORTED"),
    "bad-meta": ("global", replaced("global", "meta.json", "nope"), "E_CORRUPT"),
    "artifacts-list": ("global", edited("global", "meta.json", artifacts=[]), "E_CORRUPT"),
    "artifacts-blank-path": ("global", edited("global", "meta.json", artifacts={" ": {}}), "E_CORRUPT"),
    "config-with-both": (
        "session",
        edited("session", "config.json", enabled=True),
        "E_CORRUPT",
    ),
    "config-with-more": ("session", replaced("session", "config.json", {"mode": "active", "x": 1}), "E_CORRUPT"),
    "config-unknown-mode": ("session", replaced("session", "config.json", {"mode": "on"}), "E_CORRUPT"),
    "config-empty": ("session", replaced("session", "config.json", {}), "E_CORRUPT"),
    "config-enabled-text": ("session", replaced("session", "config.json", {"enabled": "yes"}), "E_CORRUPT"),
    "step-negative": ("session", edited("session", "runtime.json", step=-1), "E_CORRUPT"),
    "step-too-large": ("session", edited("session", "runtime.json", step=2**53), "E_CORRUPT"),
    "step-a-bool": ("session", edited("session", "runtime.json", step=True), "E_CORRUPT"),
    "runtime-version-2": ("session", edited("session", "runtime.json", version=2), "E_CORRUPT"),
    "runtime-holds-working": ("session", edited("session", "runtime.json", working={}), "E_CORRUPT"),
    "bootstrap-a-number": ("session", edited("session", "runtime.json", bootstrap=1), "E_CORRUPT"),
    "specification-a-list": ("session", edited("session", "runtime.json", specification=[]), "E_CORRUPT"),
    "validation-unknown": ("session", edited("session", "runtime.json", validation={"attempt": 8}), "E_CORRUPT"),
    "lineage-empty": ("session", lineage(), "E_CORRUPT"),
    "lineage-twice": ("session", lineage(ORIGIN, ORIGIN), "E_CORRUPT"),
    "lineage-with-a-gap": ("session", lineage(ORIGIN, boundary(3, ORIGIN["id"])), "E_CORRUPT"),
    "lineage-unrelated": ("session", lineage(ORIGIN, boundary(2, "other")), "E_CORRUPT"),
    "identity-of-another": (
        "session",
        edited("session", "runtime.json", identity={"cwd": "/other", "sessionId": "s1"}),
        "E_CORRUPT",
    ),
    "identity-of-another-id": (
        "session",
        edited("session", "runtime.json", identity={"cwd": "/project", "sessionId": "s2"}),
        "E_CORRUPT",
    ),
    "identity-with-more": (
        "session",
        edited("session", "runtime.json", identity={"cwd": "/project", "sessionId": "s1", "x": 1}),
        "E_CORRUPT",
    ),
    "old-envelope": ("global", replaced("global", "checkpoint.json", {"version": 1, "working": 1}), "E_CORRUPT"),
}
for _name in PRIVATE_FILES:
    _code = "E_UNSUPPORTED" if _name == "meta.json" else "E_CORRUPT"
    DAMAGE[f"session-without-{_name}"] = ("session", removed("session", _name), _code)


@holds("case store 14", "case store 16-18", "case store 21", "case store 22", "case store 24", "case store 26-28")
@holds("store 1.4.7", "store 1.4.9", "store 1.5.1", "store 1.5.2", "store 1.5.4", "store 1.5.5", "store 1.5.6")
@holds("store 1.6.2", "store 1.7.1-1.7.4", "store 1.10", "store 4.1", "store 4.1.1", "store 3.2.2", "Ours-5")
@holds("case store 19", "case store 63", "T35", "Ours-18", "store 6.2.7")
@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_scope_is_refused_by_path_and_nothing_is_rewritten(tmp_path: Path, name: str) -> None:
    scope, harm, code = DAMAGE[name]
    healthy = {"lazy": {"kept": "here"}}
    store = HandStore(tmp_path).write(healthy, healthy, healthy)
    path = harm(store)
    before = store.bytes()
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        with refused(code) as caught:
            await session.read_state(f"{scope}.lazy")
        assert caught.value.data["path"] == str(path)
        assert str(path) in caught.value.message
        with refused(code):
            await session.read_state("effective.lazy")
        with refused(code):
            await session.patch_state(global_={"working": {"a": 1}})
        for other in {"global", "cwd", "session"} - {scope}:
            assert await value(session, f"{other}.lazy.kept") == "here"
        if scope == "session":
            # Other sessions are not concerned at all.
            other = await runtime.open_session("/project", "s2", "active")
            await other.patch_state(session={"working": {"a": 1}})
    after = store.bytes()
    assert {name: after.get(name) for name in before} == before


@holds("store 1.5.5", "case store 2")
@pytest.mark.parametrize("owner", [None, {"cwd": "/project", "x": 1}, "/project", {"cwd": "/other"}])
async def test_a_directory_that_its_folder_does_not_name_is_not_opened(tmp_path: Path, owner: object) -> None:
    store = HandStore(tmp_path).write(cwd={"working": {"a": 1}})
    store.edit("cwd", "meta.json", owner=owner)
    before = store.bytes()
    async with opened(tmp_path) as runtime:
        with refused("E_CORRUPT") as caught:
            await runtime.open_session("/project", "s1", "active")
        assert caught.value.data["path"] == str(store.path("cwd", "meta.json"))
    assert store.bytes() == before


@holds("case store 15", "store 1.10", "Ours-5")
async def test_a_bad_line_of_a_tail_is_named_by_its_number(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("cwd", tail=[(2, {}), (3, {})])
    for second in ("bad", "[]", '{"working":5}', '{"working":{"a":1e999}}'):
        store.put("cwd", "patches.jsonl", f"{{}}\n{second}\n")
        async with session_of(tmp_path, "new") as session:
            with refused("E_CORRUPT") as caught:
                await session.read_state("cwd")
        assert caught.value.data["path"] == str(store.path("cwd", "patches.jsonl"))
        if second in ("bad", "[]"):
            assert "line 2" in caught.value.message
            assert caught.value.data["line"] == 2


@holds("store 1.4.8")
async def test_a_shared_patch_with_an_answer_is_corrupt(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("global", tail=[(2, {"response": "x"})])
    async with session_of(tmp_path) as session:
        with refused("E_CORRUPT") as caught:
            await session.read_state("global")
    assert caught.value.data["line"] == 1


@holds("store 1.10", "case store 29")
@pytest.mark.parametrize("scope", ["global", "cwd", "session"])
async def test_a_state_file_of_an_old_format_blocks_writing_and_is_never_read(tmp_path: Path, scope: str) -> None:
    store = HandStore(tmp_path)
    path = store.put(scope, "state.json", b"\xff not json")
    async with opened(tmp_path) as runtime:
        with refused("E_UNSUPPORTED") as caught:
            session = await runtime.open_session("/project", "s1", "active")
            await session.patch_state(**{"global_" if scope == "global" else scope: {"working": {"a": 1}}})
        assert caught.value.data["path"] == str(path)
    assert store.bytes() == {str(path.relative_to(tmp_path)): b"\xff not json"}


@holds("store 1.10", "case store 29", "Ours-18")
async def test_memory_beside_an_old_format_can_still_be_read(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write(global_={"working": {"g": 1}}, session={"working": {"s": 2}})
    path = store.put("session", "state.json", "{}")
    before = store.bytes()
    async with session_of(tmp_path) as session:
        assert await values(session, "global.working.g", "session.working.s") == [1, 2]
        with refused("E_UNSUPPORTED") as caught:
            await session.patch_state(session={"working": {"a": 1}})
        assert caught.value.data["path"] == str(path)
        with refused("E_UNSUPPORTED"):
            await session.accept_response("Done.")
        assert str(path) in (await session.status())["blocked"]
        assert store.bytes() == before
        path.unlink()
        await session.set_mode("active")
        await session.patch_state(session={"working": {"a": 1}})
        assert (await session.status())["blocked"] is None


@holds("store 1.10", "case store 15")
async def test_half_a_line_at_the_end_of_a_tail_is_named_by_its_number(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("cwd", tail=[(2, {"working": {"a": 1}})])
    path = store.path("cwd", "patches.jsonl")
    path.write_bytes(path.read_bytes() + b'{"working"')
    async with session_of(tmp_path) as session:
        with refused("E_CORRUPT") as caught:
            await value(session, "cwd")
    assert (caught.value.data["path"], caught.value.data["line"]) == (str(path), 2)


@holds("store 1.10", "store 4.1.2")
async def test_a_stale_meta_alone_does_not_make_a_shared_scope(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    store.put("cwd", "meta.json", "not even json")
    async with session_of(tmp_path) as session:
        assert await value(session, "cwd") == {}
        await session.patch_state(session={"working": {"a": 1}})
        assert await value(session, "session.working.a") == 1


@holds("store 3.6.9", "case store 82", "store 3.6.10")
@pytest.mark.parametrize("fault", ["no-tail-line", "newer-than-head", "two-meanings", "base-too-new"])
async def test_a_lineage_that_never_can_have_been_is_refused(tmp_path: Path, fault: str) -> None:
    store = HandStore(tmp_path).write()
    if fault == "no-tail-line":
        store.write_run([2])
    elif fault == "newer-than-head":
        store.write_scope("session", tail=[(2, {"working": {"a": 1}})])
    elif fault == "two-meanings":
        store.write_scope("session", tail=[(2, {"working": {"a": 1}})])
        store.write_run([2])
        store.edit("session", "runtime.json", lineage=[ORIGIN, {**boundary(2), "id": "other"}])
    else:
        store.write_scope("session", at=boundary(3))
        store.write_scope("cwd", tail=[(2, {"working": {"a": 1}})])
        store.write_run([2, 3])
    before = store.bytes()
    async with session_of(tmp_path) as session:
        with refused("E_CORRUPT") as caught:
            await session.read_state("session")
        assert caught.value.data["path"].endswith("runtime.json")
        with refused("E_CORRUPT"):
            await session.patch_state(session={"working": {"b": 1}})
    assert store.bytes() == before


@holds("Ours-13", "Ours-17", "store 4.1")
@pytest.mark.parametrize("kind", ["symlink", "folder", "broken-symlink"])
@pytest.mark.parametrize("scope", ["global", "cwd", "session"])
async def test_what_is_no_regular_file_is_unreadable_and_not_missing(tmp_path: Path, scope: str, kind: str) -> None:
    store = HandStore(tmp_path / "state-flow").write()
    path = store.path(scope, "patches.jsonl")
    path.unlink()
    target = tmp_path / "target"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(target)
    if kind == "symlink":
        target.write_bytes(b"")
    async with session_of(store.root) as session:
        with refused("E_CORRUPT") as caught:
            await session.read_state(scope)
        assert caught.value.data["path"] == str(path)
        with refused("E_CORRUPT"):
            await session.patch_state(session={"working": {"a": 1}})
    assert not target.exists() or target.read_bytes() == b""
    assert path.is_dir() if kind == "folder" else path.is_symlink()
    assert list(store.root.rglob("*.tmp")) == list(store.root.rglob("staged/*")) == []


@holds("Ours-13")
async def test_a_file_that_may_not_be_read_is_an_error_with_path_and_cause(tmp_path: Path) -> None:
    store = HandStore(tmp_path / "state-flow").write(cwd={"working": {"a": 1}})
    path = store.path("cwd", "checkpoint.json")
    disk = FaultyDisk().refuse("read", str(path), errno.EACCES)
    async with opened_in(store.root, disk=disk) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        with refused("E_DISK") as caught:
            await session.read_state("cwd")
        assert (caught.value.data["path"], caught.value.data["errno"]) == (str(path), "EACCES")
        with refused("E_DISK"):
            await session.patch_state(cwd={"working": {"a": 2}})
        assert await value(session, "global") == {}
    assert path.read_bytes() == b'{"working":{"a":1}}\n'


@holds("store 6.2.3", "store 3.3.2", "case store 47", "case store 28")
async def test_the_files_of_one_session_never_serve_another(tmp_path: Path) -> None:
    first = HandStore(tmp_path).write(session={"working": {"mine": 1}})
    second = HandStore(tmp_path, session="s2")
    for name, content in first.private_bytes().items():
        second.put("session", name, content)
    before = first.bytes()
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s2", "active")
        with refused("E_CORRUPT") as caught:
            await session.patch_state(session={"working": {"mine": 2}})
        assert "s1" in caught.value.message
    assert first.bytes() == before


@holds("store 4.1", "store 1.10", "Ours-18")
async def test_a_repaired_scope_serves_again_when_a_mode_is_selected(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write(session={"working": {"a": 1}})
    good = store.path("session", "meta.json").read_bytes()
    store.put("session", "meta.json", "{")
    async with session_of(tmp_path) as session:
        with refused("E_CORRUPT"):
            await session.read_state("session")
        store.put("session", "meta.json", good)
        await session.set_mode("active")
        assert await value(session, "session.working.a") == 1
        assert (await session.patch_state(session={"working": {"a": 2}})).changed


@holds("store 3.2.4", "Ours-15", "Ours-18", "store 4.2.5")
async def test_a_session_keeps_its_history_although_a_neighbour_was_unreadable_first(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("cwd", tail=[(2, {"working": {"a": 1}})])
    store.write_run([2])
    store.put("global", "meta.json", "{")
    async with session_of(tmp_path) as session:
        with refused("E_CORRUPT"):
            await session.read_state("global")
        assert await value(session, "session") == {}
        store.write_scope("global")
        await session.set_mode("active")
        assert await values(session, "effective", "effective[1]") == [{"working": {"a": 1}}, {}]


@holds("store 3.6.10", "Ours-15", "store 6.2.4")
async def test_a_session_of_another_writer_keeps_its_history_beside_an_open_one(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("cwd", tail=[(2, {"working": {"a": 1}})])
    store.write_run([2])
    async with opened(tmp_path) as runtime:
        await runtime.open_session("/project", "s0", "active")
        session = await runtime.open_session("/project", "s1")
        assert await values(session, "effective", "effective[1]") == [{"working": {"a": 1}}, {}]


@holds("Ours-9")
async def test_a_long_name_in_a_file_is_shown_in_part(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    long = {"id": "x" * 500, "parent": "another", "position": 2}
    store.put("cwd", "patches.jsonl", '{"working":{}}\n')
    store.edit("cwd", "meta.json", temporal={"checkpoint": ORIGIN, "patches": [long], "revision": 1})
    async with session_of(tmp_path) as session:
        with refused("E_CORRUPT") as caught:
            await value(session, "cwd")
    assert "x" * 80 in caught.value.message
    assert "x" * 97 not in caught.value.message
