"""Reading as an agent does it, through a real runtime (T33 to T64, cases 1 to 39 of the agent's memory)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from kit.hand_stores import HandStore
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, value, values
from strataflow.runtime import Session

MEMORY = {"memory": [1, 2, 3], "rule": "strict!", "enabled": True}


async def ask(session: Session, *paths: str, **more: Any) -> Any:
    """The JSON of one read, as a model gets it."""
    arguments: dict[str, Any] = {"path": paths[0]} if len(paths) == 1 else {"paths": list(paths)}
    return await session.call("read_state", {**arguments, **more})


@holds("case agent 1-4", "T37", "T38", "T46", "T48", "T50")
async def test_an_empty_and_a_small_memory_read_as_they_are(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        assert await ask(session, "effective") == {"value": {}}
        assert await ask(session, "effective", projection="keys") == {"meta": {"type": "object", "size": 0}, "keys": {}}
        assert await ask(session, "session.response", "cwd.lazy", "global.intents") == {"value": [None, None, None]}
        await session.patch_state(session={"working": {"a": "A"}})
        for path in ("session.working.a", "working.a", "effective.working.a", "effective[0].working.a"):
            assert await ask(session, path) == {"value": "A"}
        assert list(await ask(session, "working", projection="keys")) == ["meta", "keys"]


@holds("case agent 6-14", "T40", "T44", "T45", "T50", "T51", "T38")
async def test_keys_ranges_and_batches_answer_through_the_runtime(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"working": MEMORY})
        kinds = {"memory": "array", "rule": "string", "enabled": "boolean"}
        assert await ask(session, "cwd.working", projection="keys") == {
            "meta": {"type": "object", "size": 3},
            "keys": kinds,
        }
        assert await ask(
            session, "cwd.working.memory", "cwd.working.rule", "cwd.working.enabled", projection="keys"
        ) == {
            "meta": [{"type": "array", "length": 3}, {"type": "string", "length": 7}, {"type": "boolean"}],
            "keys": [[], [], []],
        }
        assert await values(session, "cwd.working.memory[0:2]", "cwd.working.memory[0..2]", "working.memory[3:3]") == [
            [1, 2],
            [1, 2],
            [],
        ]
        for path, code in (("[0:4]", "E_RANGE"), ("[2:1]", "E_RANGE"), ("[3]", "E_RANGE"), ("[0.2]", "E_PATH")):
            with refused(code):
                await ask(session, f"cwd.working.memory{path}")
        with refused("E_PATH") as caught:
            await ask(session, "cwd.working.план")
        assert "A-Za-z_" in caught.value.message
        with refused("E_RANGE"):
            await ask(session, "cwd.working.rule", "cwd.working.memory[3]")
        assert await ask(session, "cwd.working.rule", "cwd.working.memory") == {"value": ["strict!", [1, 2, 3]]}


@holds("case agent 15", "T33", "T34")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"projection": "keys"},
        {"path": "cwd", "paths": ["cwd"]},
        {"paths": []},
        {"path": "cwd", "scope": "cwd"},
        None,
    ],
)
async def test_a_read_without_exactly_one_kind_of_path_is_refused(tmp_path: Path, arguments: Any) -> None:
    async with session_of(tmp_path) as session:
        with refused("E_READ_SHAPE"):
            await session.call("read_state", arguments)
        with refused("E_READ_SHAPE"):
            await session.read_state()
        with refused("E_READ_SHAPE"):
            await session.read_state("cwd", paths=["cwd"])


@holds("case agent 20", "case agent 21", "T43")
async def test_stored_records_are_read_by_their_one_form_only(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(global_={"lazy": {"t": 1}})
        await session.patch_state(global_={"lazy": {"t": 2}}, cwd={"lazy": {"t": 2}})
        assert await ask(session, "global.patches") == await ask(session, "global.patches[0]")
        assert await ask(session, "global.patches[1]") == {"patch": {"lazy": {"t": 1}}}
        for path in ("global[1].patches", "effective.patches"):
            with refused("E_MISSING"):
                await ask(session, path)
        with refused("E_READ_SHAPE"):
            await ask(session, "cwd.patches", projection="keys")
        with refused("E_MISSING"):
            await ask(session, "cwd.patches", "cwd")


@holds("case agent 26", "T49")
async def test_old_empty_objects_are_read_as_stored_now_and_then(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("global", {"working": {"chain": {"empty": {}}}}, [(2, {"working": {"n": 1}})])
    store.write_run([2])
    async with session_of(tmp_path) as session:
        assert await values(session, "global.working.chain", "global[1].working") == [
            {"empty": {}},
            {"chain": {"empty": {}}},
        ]


@holds("case agent 27", "case agent 28", "T47", "P25", "Ours-6")
async def test_scopes_lie_over_each_other_and_lazy_is_read_by_name(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(
            global_={"lazy": {"memory": ["g"], "rules": {"r": 1}}, "working": {"list": [1, 2], "o": {"[0]": "g"}}},
            cwd={"lazy": {"memory": ["c"], "rules": {"p": 1}}},
            session={"lazy": {"rules": {"s": 1}}},
        )
        await session.patch_state(session={"working": {"list": {"x": 1}, "o": {"[1]": "s"}}})
        assert await value(session, "effective.lazy") == {"memory": ["c"], "rules": {"r": 1, "p": 1, "s": 1}}
        assert await value(session, "effective") == {"working": {"list": {"x": 1}, "o": {"[0]": "g", "[1]": "s"}}}


@holds("case agent 29", "T36", "T64", "Ours-18")
async def test_reading_changes_nothing_in_files_history_or_journal(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(cwd={"working": {"note": "see $cwd.lazy.x", **MEMORY}})
        await runtime.checkpoint()
        before, status = HandStore(tmp_path).bytes(), await session.status()
        for path in ("effective", "cwd[1]", "global.lazy", "cwd.lazy.x", "session.response"):
            await ask(session, path)
        await session.read_state("cwd.working", projection="keys", fresh=True)
        assert (await runtime.checkpoint()).files == 0
        assert HandStore(tmp_path).bytes() == before
        after = await session.status()
        assert {name: after[name] for name in ("revision", "step", "history_depth")} == {
            name: status[name] for name in ("revision", "step", "history_depth")
        }


@holds("case agent 30", "T3", "T34")
async def test_a_read_in_off_or_in_a_cancelled_scope_gives_nothing(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.read_state("effective")
        assert scope.cancelled_caught
        await session.set_mode("off")
        with refused("E_OFF"):
            await session.read_state("effective")


@holds("case agent 31-39", "T56-T64")
async def test_a_dangling_reference_is_answered_with_its_owners(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(
            cwd={
                "intents": {"next": {"see": {"$ref": "cwd.lazy.missing"}}},
                "working": {"note": "look at `$cwd.lazy.missing` first", "near": "$cwd.lazy.missingExtra"},
            },
            session={"working": {"bare": "$effective.lazy.missing2"}},
        )
        hint = (await ask(session, "cwd.lazy.missing"))["hint"][0]
        assert (hint["type"], hint["paths"]) == ("dangling-reference", ["cwd.intents.next.see", "cwd.working.note"])
        assert (await ask(session, "lazy.missing2"))["hint"][0]["paths"] == ["session.working.bare"]
        for path in ("cwd.lazy.missingExtr", "cwd.lazy.invented"):
            with refused("E_MISSING") as caught:
                await ask(session, path)
            assert "hint" not in caught.value.data
        with refused("E_MISSING"):
            await ask(session, "cwd.lazy.missing", projection="keys")
        with refused("E_MISSING"):
            await ask(session, "cwd.lazy.missing", "cwd")
        assert await ask(session, "cwd.lazy.missing", projection="patch") == {"patch": {}}
        with refused("E_HISTORY_ORIGIN"):
            await ask(session, "session[3].lazy.target")


@holds("Ours-8", "T50")
async def test_lengths_count_code_points_and_keys_sort_by_them(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"working": {"s": "a𝄞é", "😀": 1, "\uffee": 2}})
        assert await ask(session, "cwd.working.s", projection="keys") == {
            "meta": {"type": "string", "length": 3},
            "keys": [],
        }
    lines = HandStore(tmp_path).path("cwd", "patches.jsonl").read_text(encoding="utf-8")
    assert lines.index("\uffee") < lines.index("😀")


@holds("A9", "A10", "case agent 41", "T46")
async def test_runtime_members_of_old_cards_are_kept_and_never_shown(tmp_path: Path) -> None:
    card = {"description": "d", "hash": "sha256:" + "0" * 64, "compiled_at": "long ago"}
    store = HandStore(tmp_path).write(cwd={"artifacts": {"/x": card, "/y": card}})
    async with session_of(tmp_path) as session:
        assert await value(session, "cwd") == {"artifacts": {"/x": {"description": "d"}, "/y": {"description": "d"}}}
        await session.patch_state(cwd={"artifacts": {"/x": {"kind": "k"}, "/y": None}})
        with refused("E_PROVENANCE"):
            await session.patch_state(cwd={"artifacts": {"/x": {"hash": None}}})
    assert store.get("cwd", "patches.jsonl") == [{"artifacts": {"/x": {"kind": "k"}, "/y": None}}]
    async with session_of(tmp_path) as session:
        assert await value(session, "cwd.artifacts") == {"/x": {"description": "d", "kind": "k"}}


@holds("Ours-18", "T35")
async def test_what_another_process_committed_is_seen_on_request(tmp_path: Path) -> None:
    async with opened(tmp_path) as one, opened(tmp_path) as two:
        reader = await one.open_session("/project", "reader", "passive")
        writer = await two.open_session("/project", "writer", "active")
        for number in range(3):
            await writer.patch_state(global_={"working": {"n": number}})
            answer = await reader.read_state(paths=["global.working.n", "effective.working.n"], fresh=True)
            assert answer.value == [number, number]
            assert await reader.read_json("global.working") == f'{{"value":{{"n":{number}}}}}'
