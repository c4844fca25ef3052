"""What a model sees of a path: messages, level, model, and what compactions put away."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from kit.session_trees import assistant, ids, texts, tree_in_memory, user
from strataflow import ReadError
from strataflow.store.trace import TraceTree, build_context_entries, build_session_context


@pytest.fixture
def tree() -> TraceTree:
    return tree_in_memory()


def talk(tree: TraceTree, *numbers: int) -> list[str]:
    """u1, a1, u2, a2 …; the ids of the prompts."""
    prompts = []
    for number in numbers:
        prompts.append(tree.append_message(user(f"u{number}")))
        tree.append_message(assistant(f"a{number}"))
    return prompts


def seen(tree: TraceTree) -> list[str]:
    """The texts of the context, which the free function over plain entries must agree with."""
    context = tree.build_session_context()
    entries = tree.get_entries()
    assert build_session_context(entries, tree.get_leaf_id()) == context
    assert build_context_entries(entries, tree.get_leaf_id()) == tree.build_context_entries()
    return texts(context.messages)


@holds("case host 68", "host 2.5.1", "host 2.5.4")
def test_messages_are_told_in_the_order_of_the_path(tree: TraceTree) -> None:
    talk(tree, 1, 2)
    assert [message["role"] for message in tree.build_session_context().messages] == ["user", "assistant"] * 2
    assert tree.build_session_context().messages[0] == user("u1")


@holds("case host 69", "case host 70", "case host 71", "case host 72", "host 2.5.3")
def test_the_last_level_and_the_last_model_of_the_path_hold(tree: TraceTree) -> None:
    tree.append_message(user("u"))
    tree.append_thinking_level_change("high")
    tree.append_model_change("openai", "gpt-4")
    assert tree.build_session_context().model == {"provider": "openai", "modelId": "gpt-4"}
    tree.append_message(assistant("a", provider="anthropic", model="claude-test"))
    context = tree.build_session_context()
    assert (context.thinking_level, len(context.messages)) == ("high", 2)
    assert context.model == {"provider": "anthropic", "modelId": "claude-test"}
    tree.append_model_change("third", "small-3")
    tree.append_thinking_level_change("not-a-level")
    context = tree.build_session_context()
    assert context.model == {"provider": "third", "modelId": "small-3"}
    assert context.thinking_level == "not-a-level"


@holds("case host 73", "case host 74", "host 1.4.1")
def test_custom_entries_say_nothing_and_custom_messages_do_whatever_is_displayed(tree: TraceTree) -> None:
    tree.append_message(user("u"))
    tree.append_custom_entry("state", {"n": 1})
    tree.append_custom_message_entry("policy", "frozen", False, {"by": "ops"}, timestamp_ms=5)
    message = tree.build_session_context().messages[1]
    assert message == {
        "role": "custom",
        "customType": "policy",
        "content": "frozen",
        "display": False,
        "details": {"by": "ops"},
        "timestamp": 5,
    }
    assert seen(tree) == ["u", "frozen"]


@holds("case host 75", "case host 76", "case host 82", "host 2.5.5")
def test_a_compaction_stands_for_what_it_has_not_kept(tree: TraceTree) -> None:
    tree.append_thinking_level_change("high")
    first, second = talk(tree, 1, 2)
    leaf = tree.get_leaf_id()
    tree.append_compaction("S", second, 12, timestamp_ms=9)
    talk(tree, 3)
    assert seen(tree) == ["S", "u2", "a2", "u3", "a3"]
    assert tree.build_session_context().thinking_level == "high"
    assert tree.build_session_context().messages[0] == {
        "role": "compactionSummary",
        "summary": "S",
        "tokensBefore": 12,
        "timestamp": 9,
    }
    assert leaf is not None
    tree.branch(leaf)
    tree.append_compaction("all", first, 12)
    assert seen(tree) == ["all", "u1", "a1", "u2", "a2"]


@holds("case host 77", "case host 78", "host 2.5.7")
def test_of_two_compactions_the_latest_alone_is_told(tree: TraceTree) -> None:
    _, second, third = talk(tree, 1, 2, 3)
    tree.append_compaction("S1", third, 1)
    fourth, _ = talk(tree, 4, 5)
    leaf = tree.get_leaf_id()
    assert leaf is not None
    tree.append_compaction("S2", fourth, 1)
    assert seen(tree) == ["S2", "u4", "a4", "u5", "a5"]
    tree.branch(leaf)
    tree.append_compaction("S2", second, 1)
    assert seen(tree) == ["S2", "u2", "a2", "u3", "a3", "u4", "a4", "u5", "a5"]
    assert [entry["type"] for entry in tree.build_context_entries()].count("compaction") == 2


@holds("case host 79", "host 2.5.6")
@pytest.mark.parametrize("kept", ["deadbeef", "", 5, None])
def test_a_compaction_that_names_nothing_before_it_keeps_nothing(tree: TraceTree, kept: Any) -> None:
    talk(tree, 1, 2)
    tree.append_compaction("S", kept, 1)
    (later,) = talk(tree, 3)
    assert seen(tree) == ["S", "u3", "a3"]
    tree.append_compaction("T", later, 1)
    assert seen(tree) == ["T", "u3", "a3"]


@holds("case host 80")
def test_a_compaction_counts_on_its_own_branch_only(tree: TraceTree) -> None:
    talk(tree, 1)
    fork = tree.get_leaf_id()
    assert fork is not None
    (second,) = talk(tree, 2)
    tree.append_compaction("S", second, 1)
    tree.branch(fork)
    talk(tree, 3)
    assert seen(tree) == ["u1", "a1", "u3", "a3"]


@holds("case host 81", "host 2.5.8")
def test_what_is_kept_may_begin_with_any_entry(tree: TraceTree) -> None:
    talk(tree, 1)
    level = tree.append_thinking_level_change("high")
    talk(tree, 2)
    tree.append_compaction("S", level, 1)
    assert seen(tree) == ["S", "u2", "a2"]
    context = tree.build_session_context()
    assert (context.thinking_level, context.model) == ("high", {"provider": "faux", "modelId": "faux-1"})


@holds("case host 85", "case host 86", "host 2.5.9")
def test_the_entries_that_count_are_all_types_of_them(tree: TraceTree) -> None:
    (first,) = talk(tree, 1)
    label = tree.append_label_change(first, "x")
    assert ids(tree.build_context_entries()) == ids(tree.get_branch())
    compaction = tree.append_compaction("S", label, 1)
    custom = tree.append_custom_entry("x")
    assert ids(tree.build_context_entries()) == [compaction, label, custom]


@holds("case host 83", "case host 84")
def test_the_free_function_falls_back_to_the_last_entry(tree: TraceTree) -> None:
    talk(tree, 1)
    entries = tree.get_entries()
    assert build_session_context(entries, "unknown") == build_session_context(entries) == tree.build_session_context()
    assert build_session_context(entries, None).messages == build_session_context([], None).messages == []
    with pytest.raises(ReadError):
        tree.build_session_context("unknown")


@holds("case host 60")
def test_a_summary_without_text_says_nothing(tree: TraceTree) -> None:
    (first,) = talk(tree, 1)
    tree.branch_with_summary(first, "")
    assert seen(tree) == ["u1"]
    tree.branch_with_summary(first, "left", timestamp_ms=4)
    message = tree.build_session_context().messages[-1]
    assert message["role"] == "branchSummary"
    assert (message["summary"], message["timestamp"], len(message)) == ("left", 4, 4)


@holds("host 1.4.6")
def test_types_that_nobody_knows_are_part_of_the_tree_and_say_nothing(tree: TraceTree) -> None:
    talk(tree, 1)
    entries = [*tree.get_entries()]
    entries.append({"type": "usage", "id": "new", "parentId": entries[-1]["id"], "timestamp": "odd"})
    assert texts(build_session_context(entries).messages) == ["u1", "a1"]
    assert build_context_entries(entries)[-1]["type"] == "usage"
