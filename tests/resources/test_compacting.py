"""Compacting a session: one append or nothing, whatever happens on the way."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kit.holds import holds
from kit.pi_cases import cases
from kit.plain_tree import PlainTree, context_of
from kit.summarizers import AskedOf, Scripted
from kit.talk import USAGE, answer, call, entries, result, user
from strataflow.compaction import CompactionError, CompactionSettings, OnTree, compact_session, in_thread

_PATHS = cases("compaction")["sequences"]
_TABLE = {case["label"]: case for case in cases("summaries")["compact"]}
# Label of the table -> sequence, tokens to keep, answers.
_RUNS: dict[str, tuple[str, int, list[Any]]] = {
    "whole history": ("plain turns of 100 tokens", 150, ["S1"]),
    "non reasoning model": ("plain turns of 100 tokens", 150, ["S2"]),
    "thinking off": ("plain turns of 100 tokens", 150, ["S2b"]),
    "split turn without history": ("one turn with tools", 250, ["PREFIX"]),
    "update of a previous summary": ("after an earlier compaction", 150, ["S3"]),
}
_KEEP_150 = CompactionSettings(keep_recent_tokens=150)


def _tree(name: str = "plain turns of 100 tokens") -> PlainTree:
    return PlainTree.of(_PATHS[name])


async def _refusal(tree: PlainTree, summarizer: Scripted, settings: CompactionSettings = _KEEP_150) -> CompactionError:
    before = list(tree.entries), tree.leaf
    with pytest.raises(CompactionError) as caught:
        await compact_session(tree, summarizer, settings=settings)
    assert (tree.entries, tree.leaf) == before
    return caught.value


@holds("AC-113", "AC-115", "AC-117")
@pytest.mark.parametrize("label", _RUNS)
async def test_a_compaction_asks_and_stores_what_the_original_does(label: str) -> None:
    name, keep, answers = _RUNS[label]
    expected = _TABLE[label]
    tree, summarizer = _tree(name), Scripted(list(answers))
    (asked_before,) = expected["calls"]
    done = await compact_session(
        tree,
        summarizer,
        settings=CompactionSettings(keep_recent_tokens=keep),
        instructions=asked_before["focus"],
    )
    assert (done.summary, done.first_kept_entry_id, done.tokens_before, done.details) == tuple(
        expected["result"][name] for name in ("summary", "firstKeptEntryId", "tokensBefore", "details")
    )
    (request,) = summarizer.asked
    asked = AskedOf.of(request)
    shown = asked_before["conversation"]
    assert asked.conversation.startswith(shown[:50])
    assert shown.endswith(f"({len(asked.conversation)})")
    assert asked.previous == asked_before["previousSummary"]
    assert asked.instructions.endswith(asked_before["focus"] or ".")
    assert request.max_tokens == asked_before["maxTokens"]
    stored = tree.entries[-1]
    assert (stored["type"], stored["id"], stored["fromHook"]) == ("compaction", done.entry_id, False)
    assert [stored[key] for key in ("summary", "firstKeptEntryId", "tokensBefore", "details", "usage")] == [
        done.summary,
        done.first_kept_entry_id,
        done.tokens_before,
        done.details,
        done.usage,
    ]


async def test_instructions_are_added_at_the_end_of_the_request() -> None:
    summarizer = Scripted(["S"])
    await compact_session(_tree(), summarizer, settings=_KEEP_150, instructions="the tests")
    asked = AskedOf.of(summarizer.asked[0])
    assert asked.instructions.endswith(" the tests")
    for section in (
        "Goal",
        "Constraints",
        "Progress",
        "Key decisions",
        "Next steps",
        "Critical context",
        "Test status",
    ):
        assert f"## {section}" in asked.instructions


async def test_a_split_turn_with_history_asks_twice_at_the_same_time() -> None:
    waiting = 0

    async def both_wait() -> None:
        nonlocal waiting
        waiting += 1
        while waiting < 2:
            await trio.lowlevel.checkpoint()

    tree, summarizer = _tree(), Scripted(["HISTORY", "PREFIX"], both_wait)
    done = await compact_session(tree, summarizer, settings=CompactionSettings(keep_recent_tokens=100))
    asked = {AskedOf.of(request).conversation: request.max_tokens for request in summarizer.asked}
    assert sorted(asked.values()) == [8192, 13107]
    assert sorted(done.summary.split("\n\n---\n\n**Turn Context (split turn):**\n\n")) == ["HISTORY", "PREFIX"]
    assert done.usage["totalTokens"] == 2 * USAGE["totalTokens"]


@holds("AC-121")
async def test_a_second_compaction_at_once_is_refused() -> None:
    tree = _tree()
    await compact_session(tree, Scripted(["S"]), settings=_KEEP_150)
    error = await _refusal(tree, Scripted([]))
    assert (error.code, error.message) == ("E_NOTHING", "Already compacted")


@pytest.mark.parametrize(
    "path",
    [
        [],
        entries({"type": "model_change"}, {"type": "thinking_level_change", "thinkingLevel": "off"}),
        entries(user("hi"), answer("hello")),
        entries(*[{"role": "bashExecution", "command": "x", "output": "y" * 900, "excludeFromContext": True}] * 3),
    ],
    ids=["empty", "settings only", "all kept", "nothing for a model"],
)
async def test_nothing_is_asked_where_nothing_can_be_summed_up(path: list[dict[str, Any]]) -> None:
    summarizer = Scripted([])
    error = await _refusal(PlainTree.of(path), summarizer)
    assert error.code == "E_NOTHING"
    assert "Nothing to compact" in error.message
    assert summarizer.asked == []


@holds("AC-118")
@pytest.mark.parametrize(
    "told, code, text",
    [
        (answer(stop="error", errorMessage="overloaded"), "E_MODEL", "Summarization failed: overloaded"),
        (answer("half", stop="error"), "E_MODEL", "Summarization failed: unknown error"),
        (answer("half of it", stop="length"), "E_MODEL", "cut off by the output limit"),
        (answer(stop="aborted"), "E_ABORTED", "aborted"),
        (answer(" \n"), "E_MODEL", "no text"),
        (answer(call("read", path="x"), stop="toolUse"), "E_MODEL", "no text"),
        (OSError("no network"), "E_MODEL", "Summarization failed: no network"),
    ],
)
async def test_an_answer_that_is_no_summary_leaves_the_session_as_it_was(told: Any, code: str, text: str) -> None:
    error = await _refusal(_tree(), Scripted([told]))
    assert error.code == code
    assert text in error.message


async def test_the_first_failure_of_two_requests_ends_the_other() -> None:
    async def second_hangs() -> None:
        if len(summarizer.asked) == 2:
            await trio.sleep_forever()
        await trio.testing.wait_all_tasks_blocked()

    summarizer = Scripted([OSError("no network"), OSError("no network")], second_hangs)
    error = await _refusal(_tree(), summarizer, CompactionSettings(keep_recent_tokens=100))
    assert (error.code, len(summarizer.asked)) == ("E_MODEL", 2)


class _CancelAtStep(trio.abc.Instrument):
    """Cancels before the nth step of any task."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.scope, self.left = scope, step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


async def _inline(function: Any, /) -> Any:
    await trio.lowlevel.checkpoint()
    return function()


@pytest.mark.parametrize("on_tree", [_inline, in_thread])
async def test_a_compaction_cancelled_at_any_step_is_all_or_nothing(on_tree: OnTree) -> None:
    outcomes = []
    for step in range(1, 40):
        tree, scope = _tree(), trio.CancelScope()
        instrument = _CancelAtStep(scope, step)
        trio.lowlevel.add_instrument(instrument)
        with scope:
            await compact_session(
                tree,
                Scripted(["H", "P"], trio.lowlevel.checkpoint),
                settings=CompactionSettings(keep_recent_tokens=100),
                on_tree=on_tree,
            )
        trio.lowlevel.remove_instrument(instrument)
        outcomes.append((scope.cancelled_caught, len(tree.entries) - 12))
    assert set(outcomes) == {(True, 0), (False, 1)}


async def test_messages_that_came_meanwhile_stay_behind_the_summary() -> None:
    tree = _tree()

    async def goes_on() -> None:
        tree.append_message(user("more"))

    await compact_session(tree, Scripted(["S"], goes_on), settings=_KEEP_150)
    contents = [message.get("content") for message in context_of(tree.get_branch())]
    assert contents[-1] == "more"
    assert len(contents) == 4


async def test_a_session_that_moved_meanwhile_is_not_compacted() -> None:
    tree = _tree()

    async def moves() -> None:
        tree.branch("e04")

    with pytest.raises(CompactionError, match="another branch") as caught:
        await compact_session(tree, Scripted(["S"], moves), settings=_KEEP_150)
    assert caught.value.code == "E_MOVED"
    assert len(tree.entries) == 12


async def test_of_two_compactions_at_once_one_is_refused() -> None:
    tree = _tree()

    async def the_other_wins() -> None:
        await compact_session(tree, Scripted(["OTHER"]), settings=_KEEP_150)

    with pytest.raises(CompactionError) as caught:
        await compact_session(tree, Scripted(["S"], the_other_wins), settings=_KEEP_150)
    assert caught.value.code == "E_MOVED"
    assert [entry["summary"] for entry in tree.entries if entry["type"] == "compaction"] == ["OTHER"]


async def test_an_append_that_fails_leaves_the_error_of_the_disk() -> None:
    tree = _tree()
    tree.fails = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        await compact_session(tree, Scripted(["S"]), settings=_KEEP_150)
    assert len(tree.entries) == 12


async def test_compactions_in_a_row_carry_everything_on() -> None:
    tree = PlainTree.of(entries(user("u" * 400), answer(call("read", path="a.txt"), "a" * 400)))
    for turn in range(4):
        tree.append_message(user(f"{turn}" * 400))
        tree.append_message(answer(call("edit", path=f"{turn}.txt"), "b" * 400))
        summarizer = Scripted([f"S{turn}"])
        done = await compact_session(tree, summarizer, settings=CompactionSettings(keep_recent_tokens=150))
        asked = AskedOf.of(summarizer.asked[0])
        assert (asked.previous or "").startswith(f"S{turn - 1}" if turn else "")
        assert "a.txt" in done.details["readFiles"]
    # What was kept by one compaction is summed up by the next, so nothing is ever lost.
    assert done.details["modifiedFiles"] == ["0.txt", "1.txt", "2.txt"]
    roles = [message["role"] for message in tree.build_session_context().messages]
    assert roles == ["compactionSummary", "user", "assistant"]


async def test_an_earlier_summary_outlives_a_turn_that_leaves_no_history() -> None:
    first = {
        "type": "compaction",
        "summary": "KNOWN\n\n<read-files>\nold\n</read-files>",
        "firstKeptEntryId": "none",
        "tokensBefore": 9,
        "details": {"readFiles": ["old"], "modifiedFiles": []},
    }
    steps = [answer(call("read", path="new")), result("r" * 800)] * 3
    tree = PlainTree.of(entries(user("x"), first, user("u"), *steps, answer("done")))
    done = await compact_session(tree, Scripted(["PREFIX"]), settings=CompactionSettings(keep_recent_tokens=100))
    assert done.summary == (
        "KNOWN\n\n---\n\n**Turn Context (split turn):**\n\nPREFIX\n\n<read-files>\nnew\nold\n</read-files>"
    )
