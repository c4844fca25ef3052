"""Moving through a session's tree, with and without a summary of the branch that is left."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kit.holds import holds
from kit.pi_cases import cases
from kit.plain_tree import PlainTree
from kit.summarizers import AskedOf, Scripted
from kit.talk import answer, entries, result, user
from strataflow import ReadError
from strataflow.compaction import (
    NOTHING_TO_SUMMARISE,
    CompactionError,
    CompactionSettings,
    left_branch,
    navigate_session,
    prepare_branch,
    serialise_conversation,
)

_TABLE = cases("summaries")
_PARENTS = {"B": "A", "C": "B", "D": "C", "Dr": "D", "K": "Dr", "E": "K", "F": "B", "G": "F"}
_BRANCH = {case["label"]: case for case in _TABLE["generateBranchSummary"]}


def _lettered() -> PlainTree:
    """A-B-C-D-Dr-K(compaction)-E; B-F-G; R is a second root."""
    types = _TABLE["tree"]["types"]
    found: list[dict[str, Any]] = []
    for name in _TABLE["tree"]["order"]:
        base = {"type": types[name], "id": name, "parentId": _PARENTS.get(name)}
        own = {"summary": "K"} if types[name] == "compaction" else {"message": user(f"text {name}")}
        found.append({**base, "timestamp": "2025-01-01T00:00:00.000Z", **own})
    return PlainTree(found, "E")


def _left(path: list[dict[str, Any]]) -> PlainTree:
    """A tree whose leaf ends ``path``, which hangs on a root; another answer hangs there too."""
    first = entries(user("root"), answer("base"))
    chained = [{**entry, "id": f"x{number}", "parentId": f"x{number - 1}"} for number, entry in enumerate(path)]
    chained[0]["parentId"] = "e02"
    other = {**entries(answer("other"))[0], "id": "other", "parentId": "e02"}
    return PlainTree([*first, other, *chained], chained[-1]["id"])


@holds("AC-125", "AC-126", "AC-127")
@pytest.mark.parametrize(
    "case", _TABLE["collectEntriesForBranchSummary"], ids=lambda case: f"{case['oldLeaf']}-{case['target']}"
)
def test_what_is_left_is_what_the_original_collects(case: dict[str, Any]) -> None:
    tree = _lettered()
    old = tree.get_branch(case["oldLeaf"]) if case["oldLeaf"] else []
    left = left_branch(old, tree.get_branch(case["target"]))
    assert [entry["id"] for entry in left.entries] == case["entries"]
    assert left.common_ancestor == case["commonAncestor"]


@holds("AC-128")
@pytest.mark.parametrize("case", _TABLE["prepareBranchEntries"]["results"], ids=lambda case: str(case["budget"]))
def test_what_fits_a_budget_is_what_the_original_takes(case: dict[str, Any]) -> None:
    material = prepare_branch(_TABLE["prepareBranchEntries"]["entries"], case["budget"])
    assert [message["role"] for message in material.messages] == case["roles"]
    assert material.tokens == case["totalTokens"]
    assert (sorted(material.files.read), sorted(material.files.edited)) == (case["read"], case["edited"])


@holds("AC-115")
@pytest.mark.parametrize(
    "label, wishes",
    [
        ("default", {}),
        ("custom instructions appended", {"instructions": "MY OWN INSTRUCTIONS"}),
        ("custom instructions replace", {"instructions": "MY OWN INSTRUCTIONS", "is_replacing": True}),
    ],
)
async def test_a_branch_summary_asks_and_stores_what_the_original_does(label: str, wishes: dict[str, Any]) -> None:
    expected = _BRANCH[label]
    (told,) = expected["calls"]
    left = _TABLE["prepareBranchEntries"]["entries"]
    tree, summarizer = _left(left), Scripted(["BS text"])
    done = await navigate_session(tree, "other", summarizer, **wishes)
    (request,) = summarizer.asked
    asked = AskedOf.of(request)
    # Its length is not that of the table: the sentence before a summary inside of it is ours.
    assert asked.conversation.startswith(told["conversation"][:50])
    assert asked.conversation == serialise_conversation(prepare_branch(left, 0).messages)
    assert request.max_tokens == told["maxTokens"]
    assert (asked.instructions == "MY OWN INSTRUCTIONS") is told["onlyCustom"]
    if told["focus"]:
        assert asked.instructions.endswith(told["focus"])
    stored = tree.entries[-1]
    assert (stored["id"], stored["type"], stored["parentId"]) == (done.summary_entry_id, "branch_summary", "other")
    assert done.leaf_id == tree.leaf == stored["id"]
    preamble, _, rest = stored["summary"].partition("BS text")
    assert "BS text" + rest == expected["result"]["summary"].partition(">")[2]
    assert (preamble.count("\n"), preamble[-2:]) == (3, "\n\n")
    assert stored["details"] == {name: expected["result"][name] for name in ("readFiles", "modifiedFiles")}
    assert stored["fromHook"] is False


@holds("AC-129")
async def test_a_branch_without_words_gets_the_fixed_remark_and_no_question() -> None:
    tree, summarizer = _left(entries({"type": "custom", "customType": "c"}, result("only a result"))), Scripted([])
    await navigate_session(tree, "other", summarizer)
    assert (tree.entries[-1]["summary"], summarizer.asked) == (NOTHING_TO_SUMMARISE, [])
    assert _BRANCH["no content"]["result"]["summary"] == NOTHING_TO_SUMMARISE


@holds("AC-126")
@pytest.mark.parametrize("old_leaf, target", [("B", "E"), ("B", "G")])
async def test_going_to_a_descendant_leaves_nothing_to_sum_up(old_leaf: str, target: str) -> None:
    tree, summarizer = _lettered(), Scripted([])
    tree.leaf, count = old_leaf, len(tree.entries)
    tree.entries[-4]["message"] = answer("an answer")
    tree.entries[-2]["message"] = answer("an answer")
    done = await navigate_session(tree, target, summarizer)
    assert (done.leaf_id, tree.leaf, len(tree.entries)) == (target, target, count)


@holds("AC-130")
async def test_a_user_message_is_given_back_and_the_summary_stands_before_it() -> None:
    tree = PlainTree.of(entries({"type": "model_change"}, user("u1"), answer("a1"), user("u2"), answer("a2")))
    done = await navigate_session(tree, "e04", Scripted(["tried"]), label="tried")
    summary, label = tree.entries[-2:]
    assert (summary["type"], summary["parentId"]) == ("branch_summary", "e03")
    assert (label["type"], label["targetId"], label["label"]) == ("label", summary["id"], "tried")
    assert (done.text, done.leaf_id, done.summary_entry_id) == ("u2", label["id"], summary["id"])


@holds("AC-131")
async def test_the_first_user_message_leads_to_its_parent() -> None:
    tree = PlainTree.of(entries({"type": "model_change"}, user("u1"), answer("a1")))
    done = await navigate_session(tree, "e02")
    assert (done.text, done.leaf_id, tree.leaf) == ("u1", "e01", "e01")
    tree = PlainTree.of(entries(user("u1"), answer("a1")))
    done = await navigate_session(tree, "e01")
    assert (done.text, done.leaf_id, tree.leaf) == ("u1", None, None)
    done = await navigate_session(tree, "e02", Scripted([]), label="here")
    assert (done.text, tree.entries[-1]["targetId"]) == (None, "e02")


async def test_a_custom_message_is_given_back_too() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "data": ""}, {"type": "text", "text": "b"}]
    note = {"type": "custom_message", "customType": "c", "content": blocks, "display": True}
    tree = PlainTree.of(entries(user("u1"), note, answer("a1")))
    done = await navigate_session(tree, "e02")
    assert (done.text, done.leaf_id) == ("ab", "e01")


async def test_the_present_leaf_is_no_move_and_an_unknown_target_is_refused() -> None:
    tree = _lettered()
    done = await navigate_session(tree, "E", Scripted([]), label="x")
    assert (done.is_moved, done.leaf_id, len(tree.entries)) == (False, "E", 10)
    with pytest.raises(ReadError, match="Entry nope not found") as caught:
        await navigate_session(tree, "nope", Scripted([]))
    assert (caught.value.code, tree.leaf) == ("E_MISSING", "E")


@pytest.mark.parametrize("told, code", [("error", "E_MODEL"), ("aborted", "E_ABORTED")])
async def test_without_a_summary_nothing_moves(told: str, code: str) -> None:
    tree, summarizer = _lettered(), Scripted([answer(stop=told, errorMessage="bad gateway")])
    with pytest.raises(CompactionError) as caught:
        await navigate_session(tree, "G", summarizer, label="x")
    assert caught.value.code == code
    assert ("bad gateway" in caught.value.message) is (told == "error")
    assert (tree.leaf, len(tree.entries)) == ("E", 10)


async def test_a_cancelled_move_changes_nothing() -> None:
    tree = _lettered()
    with trio.CancelScope() as scope:

        async def cancels() -> None:
            scope.cancel()
            await trio.lowlevel.checkpoint()

        await navigate_session(tree, "G", Scripted(["S"], cancels), label="x")
    assert scope.cancelled_caught
    assert (tree.leaf, len(tree.entries)) == ("E", 10)


async def test_a_session_that_went_on_meanwhile_is_not_moved() -> None:
    tree = _lettered()

    async def goes_on() -> None:
        tree.append_message(user("more"))

    with pytest.raises(CompactionError) as caught:
        await navigate_session(tree, "G", Scripted(["S"], goes_on))
    assert (caught.value.code, tree.leaf, len(tree.entries)) == ("E_MOVED", "n10", 11)


@pytest.mark.parametrize("window, words", [(0, 3), (16_384 + 150, 1), (100, 0)])
async def test_only_what_fits_the_model_is_asked_about(window: int, words: int) -> None:
    tree, summarizer = _left(entries(answer("a" * 400), answer("b" * 400), answer("c" * 400))), Scripted(["S"])
    await navigate_session(tree, "other", summarizer, context_window=window, settings=CompactionSettings())
    asked = [AskedOf.of(request).conversation for request in summarizer.asked]
    assert sum(text.count("[Assistant]") for text in asked) == words
