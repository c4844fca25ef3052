"""Runs over a real store: preparation, requests that continue each other, receipts, the barrier, accepted answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kit.agent_loops import AgentLoop, has_head, head_of, id_of, texts_of, updates_in
from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, turn_held, value
from strataflow.runtime import Session


def runtime_file(root: Path, session: Session) -> Any:
    found = list(root.glob(f"*/{session.session_id}/runtime.json"))
    return json.loads(found[0].read_text())


def record(session: Session) -> Any:
    return session._cell.record


@holds("L9", "L10", "store 3.5.1", "case agent 131", "L19", "store 3.4.1")
async def test_a_run_records_its_prompt_with_the_first_request_and_ends_with_the_answer(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        loop = AgentLoop(session)
        loop.say("user", "Fix it")
        async with session.run("Fix it") as run:
            assert record(session).specification is None  # nothing is stored before the first request
            request = await loop.ask(run)
            assert record(session).specification == "Fix it"
            assert head_of(request)["specification"] == "Fix it"
            before = await session.status()
            await loop.ask(run)  # later requests reuse the preparation
            assert (await session.status())["revision"] == before["revision"]
            await loop.patch(session={"working": {"step": 1}})
            receipt = await run.finish("Fixed.")
            assert receipt is not None
            assert (receipt.changed, receipt.step) == (True, 2)
            assert record(session).specification is None
            assert await value(session, "session.response") == "Fixed."
            assert await run.finish("Fixed.") is receipt  # the same end again is none
            with refused("E_ABORTED"):
                await run.finish("Otherwise.")


@holds("C10", "C11", "case agent 105", "case agent 106", "T30", "case agent 110")
async def test_requests_of_a_run_continue_each_other_over_patches_and_end_with_the_answer(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        loop = AgentLoop(session)
        loop.say("user", "go")
        async with session.run("go") as run:
            first = await loop.ask(run)
            for step in range(3):
                receipt = await loop.patch(session={"working": {"step": step}})
                assert receipt.state_updates is None  # it came out as written
                request = await loop.ask(run)
                report = session.prefix_report()
                assert report is not None
                assert report.departure is None
                assert report.shared_bytes == report.previous_bytes - 1
            assert id_of(request) == id_of(first)
            assert updates_in(request) == []
            loop.say("assistant", "Done.", stopReason="stop")
            await run.finish("Done.")
        later = await loop.turn("next")
        assert id_of(later) != id_of(first)
        assert head_of(later)["state"]["working"] == {"step": 2}


@holds("T24", "T31", "case agent 88", "case agent 89", "C17", "C18", "C19", "case agent 107")
async def test_what_others_changed_is_told_once_by_a_receipt_or_by_an_update(tmp_path: Path) -> None:
    async with opened(tmp_path / "s") as runtime:
        session = await runtime.open_session(CWD, "main", "active")
        other = await runtime.open_session(CWD, "other", "active")
        loop = AgentLoop(session)
        loop.say("user", "go")
        async with session.run("go") as run:
            await loop.ask(run)
            await other.patch_state(global_={"working": {"theirs": 1}})
            receipt = await loop.patch(session={"working": {"mine": 1}})
            assert receipt.state_updates == {
                "projection": id_of(loop.request),
                "effective": [{"path": ["working", "theirs"], "value": 1}],
            }
            assert receipt.to_json()["state_updates"] == receipt.state_updates
            assert updates_in(await loop.ask(run)) == []
            await other.patch_state(global_={"working": {"theirs": 2}})
            unchanged = await loop.patch(session={"working": {"mine": 1}})
            assert not unchanged.changed
            assert unchanged.state_updates is not None
            await other.patch_state(cwd={"working": {"late": True}})
            told = updates_in(await loop.ask(run))
            assert [update["state_updates"]["effective"] for update in told] == [
                [{"path": ["working", "late"], "value": True}]
            ]
            assert updates_in(await loop.ask(run)) == told


@holds("T24")
async def test_a_receipt_without_a_head_names_no_projection(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        await session.patch_state(global_={"working": {"x": "global"}}, session={"working": {"x": "session"}})
        receipt = await session.patch_state(session={"working": {"x": None}})
        assert receipt.state_updates == {
            "projection": None,
            "effective": [{"path": ["working", "x"], "value": "global"}],
        }


async def test_a_receipt_that_never_reached_the_messages_is_told_by_an_update(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        loop = AgentLoop(session)
        loop.say("user", "go")
        async with session.run("go") as run:
            await loop.ask(run)
            await session.patch_state(session={"working": {"lost": 1}}, call_id="never-sent")
            (update,) = updates_in(await loop.ask(run))
            assert update["state_updates"]["effective"] == [{"path": ["working"], "value": {"lost": 1}}] or update[
                "state_updates"
            ]["effective"] == [{"path": ["working", "lost"], "value": 1}]


@holds("L15", "L17", "case agent 128", "case agent 129", "case agent 130")
async def test_the_barrier_holds_everything_beside_a_patch_in_active_mode_alone(tmp_path: Path) -> None:
    calls = [{"id": "1", "name": "read_state"}, {"id": "2", "name": "bash"}, {"id": "3", "name": "patch_state"}]
    twice = [{"id": "1", "name": "patch_state"}, {"id": "2", "name": "patch_state"}]
    async with session_of(tmp_path / "s") as session:
        async with session.run("go") as run:
            assert [verdict.block for verdict in run.preflight(calls)] == [True, True, False]
            assert [verdict.block for verdict in run.preflight(twice)] == [True, True]
            message = {
                "role": "assistant",
                "content": [{"type": "text", "text": "x"}, {"type": "toolCall", **calls[1]}],
            }
            assert [verdict.block for verdict in run.preflight(message)] == [False]
            with refused("E_SHAPE"):
                run.preflight([{"name": "bash"}])
        await session.set_mode("passive")
        async with session.run("go") as run:
            assert not any(verdict.block for verdict in run.preflight([*calls, *twice]))


@holds("L14", "L15", "L16")
async def test_a_call_in_a_session_of_ten_thousand_entries_is_found_by_a_few_looks(tmp_path: Path) -> None:
    def message(role: str, *blocks: Any, **more: Any) -> dict[str, Any]:
        return {"type": "message", "message": {"role": role, "content": list(blocks), **more}}

    def tool(call_id: str, name: str) -> dict[str, Any]:
        return {"type": "toolCall", "id": call_id, "name": name, "arguments": {}}

    entries: list[dict[str, Any]] = []
    for number in range(2_500):
        text = {"type": "text", "text": "x"}
        entries += [message("user", text), message("assistant", text, tool(f"old{number}", "bash"))]
        entries += [message("toolResult", toolCallId=f"old{number}"), {"type": "label"}]
    entries += [message("assistant", tool("read", "read_state"), tool("patch", "patch_state"), tool("bash", "bash"))]
    entries += [message("toolResult", toolCallId="read"), {"type": "label"}]
    tree = {f"e{number}": {**entry, "parentId": f"e{number - 1}"} for number, entry in enumerate(entries)}
    tree["e0"]["parentId"] = None
    looks: list[str] = []

    def entry_of(entry_id: str) -> Any:
        looks.append(entry_id)
        return tree.get(entry_id)

    leaf = f"e{len(entries) - 1}"
    async with session_of(tmp_path / "s") as session, session.run("go") as run:
        await run.project([entry["message"] for entry in entries if entry["type"] == "message"])
        for call_id, is_blocked in (("read", True), ("patch", False), ("bash", True)):
            looks.clear()
            verdict = run.preflight_call(call_id, entry_of, leaf)
            assert verdict is not None
            assert (verdict.id, verdict.block, len(looks)) == (call_id, is_blocked, 3)
        looks.clear()
        old = run.preflight_call("old2499", entry_of, leaf)
        assert old is not None
        assert (old.block, len(looks)) == (False, 6)
        assert run.preflight_call("unknown", entry_of, leaf) is None
        await session.set_mode("passive")
        passive = run.preflight_call("bash", entry_of, leaf)
        assert passive is not None
        assert not passive.block


@holds("L18", "store 3.4.2", "case agent 132", "L20", "case agent 133", "L21", "L22")
async def test_only_a_finished_answer_without_tool_calls_is_accepted(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        await session.accept_response("Previous")
        async with session.run("go") as run:
            await run.project([])
            for ending in ("length", "error", "aborted", "toolUse"):
                assert await run.settle({"role": "assistant", "content": "cut", "stopReason": ending}) is None
            assert await value(session, "session.response") == "Previous"
            await session.patch_state(session={"working": {"kept": 1}})
            receipt = await run.settle({"role": "assistant", "content": [], "stopReason": "stop"})
            assert receipt is not None
            assert receipt.changed
        assert await value(session, "session.response") is None
        assert await value(session, "session.working.kept") == 1
        async with session.run("again") as run:
            await run.project([])
            revision = (await session.status())["revision"]
            receipt = await run.finish("")
            assert receipt is not None
            assert not receipt.changed
            assert receipt.revision == revision
            assert record(session).specification is None  # it has completed the run all the same
        await session.set_mode("passive")
        async with session.run("go") as run:
            assert await run.finish("not stored") is None
        assert await value(session, "session.response") is None


@holds("L20", "case agent 134", "store 3.4.5")
async def test_a_newer_answer_supersedes_one_that_waits_and_is_the_only_one_stored(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root) as session, session.run("go") as run, trio.open_nursery() as nursery:
        await run.project([])

        async def older() -> None:
            with refused("E_ABORTED"):
                await run.finish("older")

        with turn_held(root):
            nursery.start_soon(older)
            await wait_all_tasks_blocked(0.02)
            nursery.start_soon(run.finish, "newer")
            await wait_all_tasks_blocked(0.02)
        await wait_all_tasks_blocked(0.05)
        assert await value(session, "session.response") == "newer"


@holds("L12", "case agent 135", "store 3.5.3")
@pytest.mark.parametrize("how", ["cancel", "passive", "off", "another run", "close"])
async def test_a_preparation_that_waits_is_withdrawn_while_the_lock_is_still_held(tmp_path: Path, how: str) -> None:
    root = tmp_path / "s"
    async with session_of(root) as session:
        await session.patch_state(session={"working": {"a": 1}})
        ended = trio.Event()
        with turn_held(root):
            async with trio.open_nursery() as nursery:

                async def prepare() -> None:
                    async with session.run("never") as run:
                        with refused("E_ABORTED", "E_OFF", "E_CLOSED"):
                            await run.project([])
                    ended.set()

                nursery.start_soon(prepare)
                await wait_all_tasks_blocked(0.02)
                if how == "cancel":
                    nursery.cancel_scope.cancel()
                elif how == "another run":
                    async with session.run("another"):
                        await ended.wait()
                elif how == "close":
                    session._cell.close()
                    await ended.wait()
                elif how == "off":
                    await session.set_mode("off")
                    await ended.wait()
                else:
                    nursery.start_soon(session.set_mode, "passive")
                    await ended.wait()
                    nursery.cancel_scope.cancel()
    async with session_of(root, mode=None) as session:
        assert record(session).specification is None
        assert await value(session, "session.working.a") == 1


@holds("L11", "case agent 136", "case store 73")
async def test_a_preparation_that_fails_leaves_the_old_state_and_can_be_tried_again(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root) as session, session.run("go") as run:
        with turn_held(root), trio.move_on_after(0.03) as scope:
            await run.project([])
        assert scope.cancelled_caught
        assert record(session).specification is None
        assert has_head(await run.project([]))
        assert record(session).specification == "go"


@holds("L10")
async def test_requests_at_the_same_time_share_one_preparation(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session, session.run("go") as run:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(run.project, [])
        status = await session.status()
        assert status["step"] == 0
        assert len({id_of(await run.project([])) for _ in range(3)}) == 1


@holds("L10", "case agent 137")
async def test_cards_whose_source_is_gone_are_removed_by_the_next_run(tmp_path: Path) -> None:
    source, kept = tmp_path / "source.md", tmp_path / "kept.md"
    source.write_text("x")
    kept.write_text("x")
    async with session_of(tmp_path / "s") as session:
        card = {"description": "d"}
        cards = {str(source): card, str(kept): card, "relative/path": card}
        await session.patch_state(global_={"artifacts": cards}, session={"artifacts": cards})
        source.unlink()
        async with session.run("go") as run:
            head = head_of(await run.project([]))
        assert set(head["state"]["artifacts"]) == {str(kept), "relative/path"}
        assert (await session.status())["step"] == 2
        for scope in ("global", "session"):
            assert set(await value(session, f"{scope}.artifacts")) == {str(kept), "relative/path"}


@holds("L13", "C29")
async def test_the_phase_of_rehydration_follows_the_life_of_the_session(tmp_path: Path) -> None:
    def phase(request: list[Any]) -> Any:
        return head_of(request).get("knowledge_rehydration", {}).get("phase")

    root = tmp_path / "s"
    async with session_of(root) as session:
        loop = AgentLoop(session)
        assert phase(await loop.turn("one")) == "new-bootstrap"
        continued = await loop.ask()
        assert (phase(continued), "specification" in head_of(continued)) == ("step", False)
        async with session.run("unfinished") as run:
            await loop.ask(run)
    async with session_of(root, mode=None) as session:
        assert phase(await AgentLoop(session).turn("two")) == "resume-bootstrap"


@holds("C23", "C24", "case agent 116", "case agent 117", "case agent 119")
async def test_a_run_sees_its_own_messages_from_the_prompt_on(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        loop = AgentLoop(session)
        await loop.turn("old request", "old answer")
        loop.say("custom", "standing")
        message = loop.say("user", "new request with a note about an image")
        async with session.run("new request", anchor=message["timestamp"]) as run:
            loop.say("user", "steering")
            request = await loop.ask(run)
        assert texts_of(request) == ["standing", "new request with a note about an image", "steering"]
        loop.say("user", "")
        async with session.run("") as run:
            request = await loop.ask(run)
        assert head_of(request)["specification"] == ""
        assert texts_of(request) == ["standing", ""]


@holds("C10", "C23", "C25")
async def test_a_message_that_steers_is_never_taken_for_the_one_that_began_the_run(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        loop = AgentLoop(session)
        loop.say("user", "again")
        loop.say("user", "again")
        async with session.run("again") as run:  # which of the two it is can not be told, so everything is kept
            assert texts_of(await loop.ask(run)) == ["again", "again"]
            loop.say("user", "steering")
            assert texts_of(await loop.ask(run)) == ["again", "again", "steering"]
            report = session.prefix_report()
            assert report is not None
            assert report.departure is None


@holds("C21", "Ours-15", "case agent 114", "case agent 115", "case agent 113")
async def test_recent_transitions_are_the_sessions_own_also_after_a_restart(tmp_path: Path) -> None:
    def recent(request: list[Any]) -> list[Any]:
        return [entry["transitions"] for entry in head_of(request).get("recent_transitions", [])]

    root = tmp_path / "s"
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "active")
        other = await runtime.open_session(CWD, "other", "active")
        await session.patch_state(cwd={"working": {"mine": 1}})
        await other.patch_state(cwd={"working": {"theirs": 1}})
        await session.patch_state(session={"lazy": {"hidden": 1}})
        await session.patch_state(global_={"working": {"mine": 2}}, session={"working": {"own": 2}})
        wanted = [
            [{"scope": "cwd", "patch": {"working": {"mine": 1}}}],
            [
                {"scope": "global", "patch": {"working": {"mine": 2}}},
                {"scope": "session", "patch": {"working": {"own": 2}}},
            ],
        ]
        async with session.run("go") as run:
            assert recent(await run.project([])) == wanted
        fresh = await runtime.open_session(CWD, "fresh", "active")
        async with fresh.run("go") as run:
            assert recent(await run.project([])) == []
    async with session_of(root, "main", mode=None) as session, session.run("again") as run:
        assert recent(await run.project([])) == wanted


@holds("C12", "L32")
async def test_a_run_that_was_superseded_answers_nothing_more(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session, session.run("older") as older:
        await older.project([])
        async with session.run("newer") as newer:
            with refused("E_ABORTED"):
                await older.project([])
            with refused("E_ABORTED"):
                await older.finish("no")
            assert head_of(await newer.project([]))["specification"] == "newer"


async def test_messages_and_prompts_that_can_not_be_used_are_refused(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session, session.run("go") as run:
        for wrong in ("text", [1], {"role": "user"}):
            with refused("E_SHAPE"):
                await run.project(wrong)  # type: ignore[arg-type]
        for prompt in (1, "\ud800"):
            with refused("E_JSON"):
                async with session.run(prompt):  # type: ignore[arg-type]
                    pass
