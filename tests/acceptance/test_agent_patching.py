"""The patch language through a real runtime (P1 to P25, O1 to O12, cases 40 to 85 of the agent's memory)."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import attrs
import pytest

from kit.faulty_disk import FaultyDisk
from kit.hand_stores import HandStore
from kit.holds import holds
from kit.runtimes import opened_in, refused, session_of, value, values
from strataflow.runtime import Receipt, Session


def missing(receipt: Receipt) -> list[tuple[str, str]]:
    """The missing deletions of a receipt."""
    return [attrs.astuple(item) for item in receipt.missing_deletions]


async def patched(session: Session, before: Any, patch: Any) -> tuple[Any, Receipt]:
    """``working.x`` of the session after it was ``before`` and then patched, and the second receipt."""
    if before is not None:
        await session.patch_state(session={"working": {"x": before}})
    receipt = await session.patch_state(session={"working": {"x": patch}})
    return (await value(session, "session")).get("working", {}).get("x"), receipt


@holds("P1", "P2", "P6", "P8", "P12", "case agent 46", "case agent 56", "case agent 59", "case agent 63")
@holds("case agent 65", "case agent 67", "case agent 58", "case agent 52", "P3", "P5")
@pytest.mark.parametrize(
    "before, patch, after",
    [
        ({"a": 1, "b": 2}, {"a": None, "c": "new"}, {"b": 2, "c": "new"}),
        (1, {"y": 2}, {"y": 2}),
        ({"y": 2}, [1], [1]),
        (None, {"gone": None, "value": 0}, {"value": 0}),
        (1, {"y": None}, None),
        ([1], {"y": None}, None),
        (None, {"c": {"leaf": {}}, "v": 0, "i": [{}, {"e": {}}], "l": []}, {"v": 0, "i": [{}, {}], "l": []}),
        (None, [{"empty": {}}, {}, []], [{}, {}, []]),
        (["a", "b", {"n": 1, "k": 2}, ["m", {"v": 1}]], {"[1]": "B", "[2]": {"n": 3}, "[3]": {"[1]": {"v": 2}}},
         ["a", "B", {"n": 3, "k": 2}, ["m", {"v": 2}]]),
        ([1, 2], {"replacement": True}, {"replacement": True}),
        ([1, 2], {"[0]": 1, "x": 2}, {"[0]": 1, "x": 2}),
        ({"[0]": "a"}, {"[0]": "b"}, {"[0]": "b"}),
        ([1, 2], {"[00]": 9}, {"[00]": 9}),
        ({"__proto__": 1}, {"a.b": 2, "é": 3}, {"__proto__": 1, "a.b": 2, "é": 3}),
    ],
)  # fmt: skip
async def test_a_patch_gives_its_value_and_the_files_replay_to_it(
    tmp_path: Path, before: Any, patch: Any, after: Any
) -> None:
    async with session_of(tmp_path) as session:
        got, _ = await patched(session, before, patch)
        assert got == after
    async with session_of(tmp_path) as session:
        assert (await value(session, "session")).get("working", {}).get("x") == after


@holds("P4", "P7", "T9", "Ours-7", "case agent 64", "case agent 43", "case agent 44", "case agent 45")
@pytest.mark.parametrize(
    "before, patch, code",
    [
        ([1, 2], {"[2]": 1}, "E_INDEX"),
        ([1, 2], {"[9007199254740992]": 1}, "E_INDEX"),
        ([1, 2], {"[0]": None}, "E_INDEX"),
        ([1, 2], {"[0]": 1, "x": None}, "E_INDEX"),
        ([1, 2], [None], "E_NULL"),
        (None, {"a": [{"b": [None]}]}, "E_NULL"),
        (None, float("inf"), "E_JSON"),
        (None, 2**63, "E_JSON"),
        (None, "\ud800", "E_JSON"),
    ],
)
async def test_a_patch_that_can_not_be_kept_is_refused_and_nothing_changes(
    tmp_path: Path, before: Any, patch: Any, code: str
) -> None:
    async with session_of(tmp_path) as session:
        if before is not None:
            await session.patch_state(session={"working": {"x": before}})
        was = await value(session, "session")
        with refused(code) as caught:
            await session.patch_state(global_={"working": {"ok": 1}}, session={"working": {"x": patch}})
        assert caught.value.data["pointer"].startswith("/session/working/x")
        assert await values(session, "session", "global") == [was, {}]


@holds("case agent 45", "T9")
async def test_retired_members_of_the_contract_are_refused(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        with refused("E_RETIRED"):
            await session.patch_state(cwd={"contract": {"compiled_skills": {"a": 1}}})


@holds("case agent 44", "T65")
async def test_a_million_characters_are_stored_and_read_whole(tmp_path: Path) -> None:
    text = "é" * 1_000_000
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"lazy": {"text": text}})
    async with session_of(tmp_path) as session:
        assert await value(session, "cwd.lazy.text") == text


@holds("T17", "case agent 47-51", "P5", "P24")
async def test_missing_deletions_are_pointers_in_authored_order(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        _, receipt = await patched(session, None, {"child": None})
        assert missing(receipt) == [("/session/working/x/child", "/session/working")]
        _, receipt = await patched(session, {"a/b~c": {"k": 1}, "items": [{"k": 1}]}, {
            "a/b~c": {"leaf": None}, "items": {"[0]": {"absent": None}}, "later": None,
        })  # fmt: skip
        assert missing(receipt) == [
            ("/session/working/x/a~1b~0c/leaf",) * 2,
            ("/session/working/x/items/0/absent",) * 2,
            ("/session/working/x/later",) * 2,
        ]
        result = await session.call("patch_state", {"session": {"working": {"x": {"later": None}}}})
        assert result["missing_deletions"] == [
            {"path": "/session/working/x/later", "unavailable_path": "/session/working/x/later"}
        ]
        assert "/session/working/x/later" in result["text"]
        assert result["text"].startswith("\nAlready current")


@holds("P11", "P13", "P14", "case agent 57", "case agent 60-62")
async def test_pruning_concerns_the_given_scopes_only(tmp_path: Path) -> None:
    empties = {"working": {"chain": {"empty": {}}, "k": 1}}
    store = HandStore(tmp_path).write(empties, empties, empties)
    before = store.bytes()
    async with session_of(tmp_path) as session:
        receipt = await session.patch_state(session={"working": {"k": 1}})
        assert (receipt.changed, receipt.revision) == (True, "g0c0s1")
        assert not (await session.patch_state(session={"working": {"k": 1}})).changed
        assert not (await session.patch_state(session={"lazy": {"a": {}}, "contract": {}})).changed
        await session.patch_state(session={"working": {"k": None}})
        assert await values(session, "session", "working.k") == [{}, 1]
    assert store.get("session", "patches.jsonl") == [{"working": {"chain": None}}, {"working": None}]
    after = store.bytes()
    for name in ("checkpoint.json", "--project--/checkpoint.json", "patches.jsonl", "--project--/meta.json"):
        assert after[name] == before[name]


@holds("P10", "P19", "O1-O3", "O6-O12", "case agent 77-81", "case agent 83-85")
async def test_ownership_holds_through_files_and_a_restart(tmp_path: Path) -> None:
    references = ["cwd.contract.t", "cwd.working", "cwd.lazy.plan[0]", "working.t", "effective.working.t"]
    references += ["global.working.t", "cwd[1].working.t", "cwd.working.a b"]
    async with session_of(tmp_path) as session:
        await session.patch_state(
            cwd={
                "intents": {
                    "idle": [{"$ref": reference} for reference in references],
                    "old": {"deep": [{"$ref": "cwd.working.a"}, {"$ref": "cwd.working.a.x"}]},
                    "other": {"$ref": "cwd.lazy.kept.below"},
                    "second": {"$ref": "cwd.lazy.kept"},
                },
                "contract": {"t": 1},
                "working": {"t": 1, "a": {"x": 1}, "a b": 1},
                "lazy": {"plan": [1], "kept": {"below": 1}},
            },
            global_={"working": {"t": "g"}},
        )
    async with session_of(tmp_path) as session:
        assert (await session.patch_state(cwd={"intents": {"idle": None, "never": None}})).cascaded == ()
        assert (await session.patch_state(cwd={"intents": {"second": None}})).cascaded == ()
        assert (await session.patch_state(cwd={"intents": {"other": "now plain text"}})).cascaded == ()
        receipt = await session.patch_state(cwd={"intents": {"old": None}, "working": {"a": {"y": 2}, "created": 1}})
        assert receipt.cascaded == ("cwd.working.a",)
        assert await value(session, "cwd.working") == {"t": 1, "a b": 1, "created": 1}
        assert await value(session, "cwd.lazy") == {"plan": [1], "kept": {"below": 1}}
        assert (await session.read_state("cwd.patches")).to_json()["patch"] == {
            "intents": {"old": None},
            "working": {"a": None, "created": 1},
        }


@holds("O5", "O6", "O8", "case agent 79-82")
async def test_a_successor_in_the_same_patch_keeps_what_it_references(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(
            global_={"lazy": {"plan": "fallback"}},
            cwd={"intents": {"old": {"$ref": "cwd.lazy.plan"}}, "lazy": {"plan": {"p": 1}}},
        )
        receipt = await session.patch_state(
            cwd={"intents": {"old": None, "next": {"$ref": "cwd.lazy.plan.p"}, "own": {"$ref": "cwd.lazy.plan"}}}
        )
        assert receipt.cascaded == ()
        await session.patch_state(cwd={"intents": {"next": None}})
        receipt = await session.patch_state(cwd={"intents": {"own": {"$ref": None}}})
        assert receipt.cascaded == ("cwd.lazy.plan",)
        assert await values(session, "cwd", "lazy.plan") == [{}, "fallback"]


@holds("P17", "P21", "case agent 72", "store 2.2.6")
async def test_a_refused_append_leaves_state_step_and_files_for_a_retry(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    disk = FaultyDisk()
    async with opened_in(tmp_path, disk=disk) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        before = store.bytes()
        disk.refuse("rename", str(store.path("cwd", "patches.jsonl")), errno.EROFS)
        receipt = await session.patch_state(cwd={"working": {"a": 1}})
        report = await runtime.checkpoint()
        assert report.blocked["--project--"].data["errno"] == "EROFS"
        kept = {name: data for name, data in store.bytes().items() if name.count("/") == 1}
        assert kept == {name: before[name] for name in kept}
        assert (receipt.step, await value(session, "cwd.working.a")) == (1, 1)
        disk.lift()
        await runtime.checkpoint()
        assert store.get("cwd", "patches.jsonl") == [{"working": {"a": 1}}]


@holds("A1-A7", "A10", "case agent 41", "case agent 149")
@pytest.mark.parametrize(
    "path, card, code",
    [
        ("/x", {"description": "d", "kind": "k", "tags": ["a"], "compilation": {"hash": 1}, "mine": [1]}, None),
        ("rel ative", {"description": "d"}, None),
        (" ", {"description": "d"}, "E_ARTIFACT"),
        ("/x", {"kind": "k"}, "E_ARTIFACT"),
        ("/x", {"description": " "}, "E_ARTIFACT"),
        ("/x", {"description": "d", "tags": ["a", "a"]}, "E_ARTIFACT"),
        ("/x", {"description": "d", "compilation": "c"}, "E_ARTIFACT"),
        ("/x", {"description": "d", "kind": ""}, "E_ARTIFACT"),
        ("/x", {"description": "d", "source_hash_verified": True}, "E_PROVENANCE"),
    ],
)
async def test_cards_are_judged_at_the_door_and_kept_as_they_are(
    tmp_path: Path, path: str, card: Any, code: str | None
) -> None:
    async with session_of(tmp_path) as session:
        if code is None:
            await session.patch_state(cwd={"artifacts": {path: card}})
            assert await value(session, "cwd.artifacts") == {path: card}
            await session.patch_state(cwd={"artifacts": {path: None}})
            assert await value(session, "cwd") == {}
        else:
            with refused(code):
                await session.patch_state(cwd={"artifacts": {path: card}})
