"""A session that owns its tree: how it comes by it, what memory notes in it, and what others add beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kit.hand_stores import CWD
from kit.holds import holds
from kit.owned_trees import file_of, notes_in, opened, tree_of
from kit.runtimes import refused
from kit.session_trees import assistant, objects, user
from strataflow import OwnedTree, SessionTree, StoreError
from strataflow.store import cwd_key


@holds("Ours-19", "store 6.3.1")
async def test_a_session_with_a_tree_has_a_file_under_its_id_from_the_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        before = [event.name for event in runtime.events]
        session = await runtime.open_session(CWD, "ann", "active", tree=True)
        tree = tree_of(session)
        header = objects(file_of(session))[0]
        assert (header["id"], header["cwd"], header) == ("ann", CWD, tree.get_header())
        assert Path(file_of(session)).parent == tmp_path / "sessions" / cwd_key(CWD)
        assert tree.get_session_id() == session.session_id
        first = await tree.append_message(user("Hello"))
        assert tree.get_leaf_id() == first
        assert [event.name for event in runtime.events] == before
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", tree=True)
        assert session.mode == "active"
        assert first in await tree_of(session).get_branch_ids()
        assert len(list((tmp_path / "sessions").rglob("*.jsonl"))) == 1


async def test_a_new_tree_takes_id_and_time_from_memory_that_is_older(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "active")
        await session.patch_state(session={"working": {"old": True}})
    store = tmp_path / "state-flow"
    (store / cwd_key(CWD) / "ann").rename(store / cwd_key(CWD) / "2026-03-05T10-20-30-400Z_ann")
    shutil.rmtree(store / ".strataflow")
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", tree=True)
        header = tree_of(session).get_header()
        assert (header["id"], header["timestamp"]) == ("ann", "2026-03-05T10:20:30.400Z")
        assert Path(file_of(session)).name == "2026-03-05T10-20-30-400Z_ann.jsonl"
        assert (await session.read_state("session.working.old")).value is True
        # The tree is new and has nothing to tell: memory says what its mode is.
        assert session.mode == "active"


@holds("store 6.1.2", "L28")
async def test_off_looks_at_no_store_and_notes_itself_in_the_tree_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "off", tree=True)
        await session.aclose()
        session = await runtime.open_session(CWD, "ann", tree=True)
        assert session.mode == "off"
        assert notes_in(file_of(session)) == [{"mode": "off"}]
        assert not (tmp_path / "state-flow" / cwd_key(CWD)).exists()


@holds("store 6.3.1", "store 6.2.4")
async def test_memory_notes_itself_between_the_messages_in_the_order_of_events(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "active", tree=True)
        tree = tree_of(session)
        async with session.run("Count") as run:
            await tree.append_message(user("Count"))
            await run.project([])
            await tree.append_message(assistant("One"))
            await run.finish("One")
        await session.set_mode("passive")
        kinds = [entry["type"] for entry in await tree.get_branch()]
        assert kinds == ["custom", "message", "custom", "message", "custom", "custom", "custom"]
        notes = notes_in(file_of(session))
        assert [note.get("specification") for note in notes] == [None, "Count", None, None, None]
        assert [note.get("mode") for note in notes] == ["active", "active", "active", "passive", "passive"]
    async with opened(tmp_path) as runtime:
        assert (await runtime.open_session(CWD, "ann", tree=True)).mode == "passive"


async def test_handles_of_one_session_share_its_tree_and_none_is_given_another(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "off", tree=True)
        again = await runtime.open_session(CWD, "ann", tree=True)
        plain = await runtime.open_session(CWD, "ann")
        await tree_of(session).append_message(user("Hello"))
        assert tree_of(again).get_leaf_id() == tree_of(plain).get_leaf_id() == tree_of(session).get_leaf_id()
        mine = SessionTree.in_memory(CWD, session_id="ann")
        with refused("E_BRANCH"):
            await runtime.open_session(CWD, "ann", tree=mine)
        bare = await runtime.open_session(CWD, "bob", "off")
        assert bare.tree is None
        with refused("E_BRANCH"):
            await runtime.open_session(CWD, "bob", tree=True)


async def test_a_tree_of_the_callers_belongs_to_the_session_until_that_is_closed(tmp_path: Path) -> None:
    heard: list[str] = []
    path = str(tmp_path / "mine.jsonl")
    tree = SessionTree.open(path, cwd=CWD, on_event=lambda kind, data: heard.append(kind))
    tree.append_message(user("Hello"))
    tree.append_message(assistant("Yes?"))
    async with opened(tmp_path / "agent") as runtime:
        for wrong in (("bob", CWD), (tree.get_session_id(), "/elsewhere")):
            with refused("E_SHAPE"):
                await runtime.open_session(wrong[1], wrong[0], tree=tree)
        session = await runtime.open_session(CWD, tree.get_session_id(), "active", tree=tree)
        SessionTree.open(path).append_message(user("From elsewhere"))
        await tree_of(session).append_message(assistant("Here"))
        assert heard == ["foreign_entries"]
        assert [event.name for event in runtime.events] == ["foreign_entries"]
        await session.aclose()
    assert tree.get_entry(tree.get_leaf_id() or "") == objects(path)[-1]
    SessionTree.open(path).append_message(user("Once more"))
    tree.append_message(assistant("I am free"))
    assert heard == ["foreign_entries", "foreign_entries"]


async def test_a_listener_that_raises_costs_no_append(tmp_path: Path) -> None:
    def listen(kind: str, data: dict[str, Any]) -> None:
        raise ValueError("deaf")

    tree = SessionTree.open(str(tmp_path / "mine.jsonl"), cwd=CWD, on_event=listen)
    tree.append_message(assistant("Yes?"))
    async with opened(tmp_path / "agent") as runtime:
        session = await runtime.open_session(CWD, tree.get_session_id(), "off", tree=tree)
        SessionTree.open(str(tmp_path / "mine.jsonl")).append_message(user("From elsewhere"))
        entry_id = await tree_of(session).append_message(assistant("Here"))
        assert [event.name for event in runtime.events] == ["foreign_entries", "tree-failed"]
        assert (await tree_of(session).get_entry(entry_id)) is not None


async def test_wrong_arguments_are_refused_by_name(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        with refused("E_SHAPE"):
            await runtime.open_session(CWD, "ann", tree="yes")  # type: ignore[arg-type]
        tree = SessionTree.in_memory(CWD, session_id="ann")
        entries: Any = object()
        with refused("E_SHAPE"):
            await runtime.open_session(CWD, "ann", entries=entries, tree=tree)
        with refused("E_SHAPE"):
            await runtime.open_session(CWD, "ann.", tree=True)


async def test_two_files_of_one_id_are_told_and_neither_is_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "off", tree=True)
        path = Path(file_of(session))
        await session.aclose()
        twin = path.with_name("2020-01-01T00-00-00-000Z_ann.jsonl")
        twin.write_bytes(path.read_bytes())
        with refused("E_BRANCH") as caught:
            await runtime.open_session(CWD, "ann", tree=True)
        assert str(twin) in str(caught.value)
        twin.write_text("no session\n")
        path.unlink()
        with refused("E_CORRUPT"):
            await runtime.open_session(CWD, "ann", tree=True)
        twin.write_text(json.dumps({"type": "session", "version": 3, "id": "bob", "cwd": CWD}) + "\n")
        with refused("E_CORRUPT"):
            await runtime.open_session(CWD, "ann", tree=True)


async def test_a_call_that_makes_no_sense_is_its_callers_error_and_nobody_elses(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "off", tree=True)
        tree = tree_of(session)
        for _ in range(5):
            with pytest.raises(AttributeError):
                await tree.append_session_info(None)  # type: ignore[arg-type]
            with pytest.raises(ZeroDivisionError):  # what moves the tree passes the session's actor too
                await tree._move(lambda tree: 1 // 0)
        with refused("E_SHAPE"):
            await tree.append_message({"content": "nobody says this"})
        with refused("E_SHAPE"):
            await tree.append_message(user("x"), timestamp_ms="noon")  # type: ignore[arg-type]
        with refused("E_JSON"):
            await tree.append_message({**user("x"), "at": object()})
        with refused("E_MISSING"):
            await tree.append_label_change("nobody", "x")
        assert (await tree.get_entry(await tree.append_message(user("Hello")))) is not None
        await session.aclose()
        with refused("E_CLOSED"):
            await tree.append_message(user("Too late"))


async def test_during_a_run_others_make_a_branch_and_an_idle_session_follows_them(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    root.mkdir(mode=0o700)
    (root / "config.json").write_text(json.dumps({"logging": True}))
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "passive", tree=True)
        tree, path = tree_of(session), file_of(session)
        before = SessionTree.open(path).append_message(user("Before the run"))
        async with session.run("Think"):
            first = await tree.append_message(user("Think"))
            SessionTree.open(path).append_message(user("Meanwhile"))
            second = await tree.append_message(assistant("Thought"))
        assert [await parent(tree, first), await parent(tree, second)] == [before, first]
        last = SessionTree.open(path).append_message(user("And then"))
        await tree.refresh()
        third = await tree.append_message(user("Next"))
        # The run's own end is where the session stands; what came after its last entry follows that.
        assert await parent(tree, third) == last
        told = [dict(event.data) for event in runtime.events if event.name == "foreign_entries"]
        assert [(event["count"], event["is_branch"], event["session"]) for event in told] == [
            (1, False, "ann"),
            (1, True, "ann"),
            (1, False, "ann"),
        ]
    (log,) = (tmp_path / "logs").iterdir()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["category"] for line in lines] == ["session-tree"] * 3
    assert "another process has added 1 entries" in lines[1]["error"]


async def parent(tree: OwnedTree, entry_id: str) -> str | None:
    entry = await tree.get_entry(entry_id)
    assert entry is not None
    found: str | None = entry["parentId"]
    return found


async def test_everything_that_a_tree_can_tell_is_told_by_the_owned_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "off", tree=True)
        tree = tree_of(session)
        said: dict[str, Any] = user("Hello")
        asked = await tree.append_message(said, entry_id="11111111", timestamp_ms=0)
        said["content"] = "changed afterwards"
        await tree.append_thinking_level_change("high")
        await tree.append_model_change("faux", "faux-1")
        await tree.append_custom_entry("mine")
        await tree.append_custom_message_entry("mine", "Look", True)
        answered = await tree.append_message(assistant("Yes?"))
        await tree.append_label_change(asked, "start")
        await tree.append_session_info("A talk")
        await tree.append_compaction("They greeted.", answered, 10, {"by": "test"})
        plain = SessionTree.open(file_of(session))
        assert tree.get_session_name() == plain.get_session_name() == "A talk"
        assert await tree.get_entries() == plain.get_entries()
        assert await tree.get_branch() == plain.get_branch()
        assert await tree.get_branch_ids() == plain.get_branch_ids()
        assert await tree.get_leaf_entry() == plain.get_leaf_entry()
        assert await tree.get_children(asked) == plain.get_children(asked)
        assert await tree.get_tree() == plain.get_tree()
        assert await tree.build_session_context() == plain.build_session_context()
        assert await tree.build_context_entries() == plain.build_context_entries()
        assert await tree.get_label(asked) == "start"
        assert (await tree.get_entry(asked) or {})["message"]["content"] == "Hello"
        assert (tree.get_session_dir(), tree.get_cwd()) == (plain.get_session_dir(), CWD)
        assert tree.is_persisted()
        assert await tree.export_branch(str(tmp_path / "out.jsonl")) == len(plain.get_branch())
        with pytest.raises(StoreError):
            await tree.export_branch(str(tmp_path / "out.jsonl"))


async def test_after_a_crash_the_session_attaches_again_with_its_tree(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session(CWD, "ann", "active", tree=True)
        tree = tree_of(session)
        asked = await tree.append_message(user("Hello"))
        await session.set_mode("passive")
        with refused("E_BROKEN"):
            await session._actor.ask("nothing that it knows")
        answer = await tree.append_message(assistant("Yes?"))
        assert session.mode == "passive"
        assert asked in await tree.get_branch_ids()
        await tree.branch(asked)  # it serves again, and the mode is that of the branch
        assert session.mode == "active"
        await session.patch_state(session={"working": {"n": 1}})
        assert answer in [entry["id"] for entry in objects(file_of(session))[1:]]
        assert [note["mode"] for note in notes_in(file_of(session))][:2] == ["active", "passive"]
