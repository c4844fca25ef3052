"""Sizes, cut points, plans, conversations as text, lists of files: as the original has them, but for its flaws."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from kit.pi_cases import case_id, cases
from kit.plain_tree import context_of
from kit.talk import NO_USAGE, answer, call, entries, result, user
from strataflow.compaction import (
    CompactionPlan,
    CompactionSettings,
    Cut,
    FileOperations,
    convert_to_llm,
    estimate_context,
    estimate_tokens,
    find_cut,
    plan_compaction,
    serialise_conversation,
    should_compact,
    usage_tokens,
)
from strataflow.runtime.resources.compaction.file_lists import operations_of_messages

_TOKENS, _CUTS = cases("tokens"), cases("compaction")
_TEXTS, _ROLES = cases("serialize"), cases("convert-to-llm")
# The original takes the settings in front of a user message for the middle of a turn; a turn begins there (3.4.6).
_WHOLE_TURN = ("settings before the cut", 150)


def _settings(case: dict[str, Any]) -> CompactionSettings:
    given = case["settings"]
    return CompactionSettings(given["enabled"], given["reserveTokens"], given["keepRecentTokens"])


def _plan(path: list[dict[str, Any]], keep: int) -> CompactionPlan | None:
    return plan_compaction(path, context_of(path), CompactionSettings(keep_recent_tokens=keep))


# -- sizes --------------------------------------------------------------------------------------------------------


@holds("AC-095", "AC-096", "AC-097")
@pytest.mark.parametrize("case", _TOKENS["estimateTokens"], ids=case_id)
def test_a_message_is_as_large_as_for_the_original(case: dict[str, Any]) -> None:
    assert estimate_tokens(case["message"]) == case["tokens"]


@holds("AC-099")
@pytest.mark.parametrize("case", _TOKENS["calculateContextTokens"], ids=case_id)
def test_a_usage_is_its_total_or_else_its_parts(case: dict[str, Any]) -> None:
    assert usage_tokens(case["usage"]) == case["tokens"]


@holds("AC-100", "AC-101")
@pytest.mark.parametrize("case", _TOKENS["estimateContextTokens"], ids=case_id)
def test_a_context_is_what_was_counted_and_estimates_for_the_rest(case: dict[str, Any]) -> None:
    estimate, expected = estimate_context(case["messages"]), case["result"]
    assert (estimate.tokens, estimate.usage_tokens, estimate.trailing_tokens, estimate.last_usage_index) == (
        expected["tokens"],
        expected["usageTokens"],
        expected["trailingTokens"],
        expected["lastUsageIndex"],
    )


@pytest.mark.parametrize("odd", ["5", None, [], {}])
def test_what_is_no_number_in_a_usage_counts_nothing(odd: Any) -> None:
    assert usage_tokens({"input": odd, "output": 3, "totalTokens": odd}) == 3


def test_a_count_of_all_zeros_is_no_count() -> None:
    estimate = estimate_context([user("abcd"), answer("abcdefgh", usage=NO_USAGE), user("abcd")])
    assert (estimate.tokens, estimate.last_usage_index) == (4, None)


@holds("AC-098")
@pytest.mark.parametrize("case", _TOKENS["shouldCompact"], ids=case_id)
def test_a_context_is_too_large_where_the_original_says_so(case: dict[str, Any]) -> None:
    assert should_compact(case["contextTokens"], case["contextWindow"], _settings(case)) is case["result"]


def test_the_default_settings_are_those_of_the_original() -> None:
    assert CompactionSettings() == _settings({"settings": _TOKENS["defaults"]})


# -- cut points ---------------------------------------------------------------------------------------------------


@holds("AC-102", "AC-103", "AC-104", "AC-105", "AC-106", "AC-107", "AC-108")
@pytest.mark.parametrize("case", _CUTS["findCutPoint"], ids=case_id)
def test_a_path_is_cut_where_the_original_cuts_it(case: dict[str, Any]) -> None:
    path, expected = _CUTS["sequences"][case["name"]], case["result"]
    turn_start = expected["turnStartIndex"] if expected["isSplitTurn"] else None
    if (case["name"], case["keepRecentTokens"]) == _WHOLE_TURN:
        turn_start = None
    cut = find_cut(path, case["startIndex"], case["endIndex"], case["keepRecentTokens"])
    assert cut == Cut(expected["firstKeptEntryIndex"], turn_start)


@holds("AC-107")
def test_settings_in_front_of_a_user_message_do_not_split_the_turn_before_them() -> None:
    path = entries(user("u" * 400), answer("a" * 400), {"type": "model_change"}, {"type": "label"}, user("v" * 400))
    assert find_cut(path, 0, len(path), 100) == Cut(2)
    plan = _plan(path, 100)
    assert plan is not None
    assert (plan.first_kept_entry_id, len(plan.history), list(plan.turn_prefix)) == ("e03", 2, [])


@holds("AC-109", "AC-110", "AC-111", "AC-112", "AC-113", "AC-114")
@pytest.mark.parametrize("case", _CUTS["prepareCompaction"], ids=case_id)
def test_a_plan_is_that_of_the_original(case: dict[str, Any]) -> None:
    path, expected = _CUTS["sequences"][case["name"]], case["result"]
    plan = _plan(path, case["keepRecentTokens"])
    if expected is None:
        assert plan is None
        return
    assert plan is not None
    history, prefix, is_split = expected["messagesToSummarize"], expected["turnPrefixMessages"], expected["isSplitTurn"]
    if (case["name"], case["keepRecentTokens"]) == _WHOLE_TURN:
        history, prefix, is_split = ["user:u", "assistant:a"], [], False
    assert [f"{message['role']}:{_first_letter(message)}" for message in plan.history] == history
    assert [message["role"] for message in plan.turn_prefix] == prefix
    assert plan.is_split is is_split
    assert plan.first_kept_entry_id == expected["firstKeptEntryId"]
    assert (plan.tokens_before, plan.previous_summary) == (expected["tokensBefore"], expected["previousSummary"])
    assert {name: sorted(getattr(plan.files, name)) for name in ("read", "written", "edited")} == expected["fileOps"]


def _first_letter(message: Any) -> str:
    content = message.get("content", message.get("summary", ""))
    text = content if isinstance(content, str) else "".join(block.get("text") or block["name"] for block in content)
    return str(text[:1])


@pytest.mark.parametrize("keep", [1, 60, 130, 220, 500])
def test_the_kept_part_never_begins_with_a_tool_result(keep: int) -> None:
    turns = [user("u" * 80), answer(call("read", path="a")), result("r" * 160), answer("a" * 40)]
    path = entries(*turns * 4)
    cut = find_cut(path, 0, len(path), keep)
    assert path[cut.first_kept]["message"]["role"] != "toolResult"


def test_settings_in_front_of_a_custom_message_stay_with_it() -> None:
    note = {"type": "custom_message", "customType": "c", "content": "n", "display": True}
    path = entries(user("u" * 400), answer("a" * 400), {"type": "model_change"}, note, answer("b" * 400))
    assert find_cut(path, 0, 4, 1) == Cut(1, 0)
    assert find_cut(path, 2, 5, 100) == Cut(2, 2)


def test_what_an_earlier_compaction_kept_nothing_of_is_not_looked_at_again() -> None:
    earlier = {"type": "compaction", "summary": "S", "firstKeptEntryId": "gone", "tokensBefore": 1}
    plan = _plan(entries(user("u"), earlier, {"type": "label", "targetId": "e01"}), 100)
    assert plan is not None
    assert (plan.first_kept_entry_id, plan.is_empty) == ("e03", True)


# -- text -----------------------------------------------------------------------------------------------------------


@holds("AC-119", "AC-120")
@pytest.mark.parametrize("case", _TEXTS["perMessage"], ids=case_id)
def test_a_message_reads_as_for_the_original(case: dict[str, Any]) -> None:
    assert serialise_conversation([case["message"]]) == case["text"]


def test_a_conversation_is_its_messages_parted_by_empty_lines() -> None:
    messages = [case["message"] for case in _TEXTS["perMessage"]]
    text = serialise_conversation(messages)
    assert len(text) == _TEXTS["wholeConversation"]
    assert text == "\n\n".join(case["text"] for case in _TEXTS["perMessage"] if case["text"])


def test_a_hidden_command_is_not_in_the_text_of_a_conversation() -> None:
    run = {"role": "bashExecution", "command": "ls", "output": "", "exitCode": 0, "timestamp": 1}
    assert serialise_conversation([run]) == "[User]: Ran `ls`\n(no output)"
    assert serialise_conversation([{**run, "excludeFromContext": True}]) == ""


@holds("AC-112")
@pytest.mark.parametrize("case", _TEXTS["lists"], ids=case_id)
def test_lists_of_files_are_those_of_the_original(case: dict[str, Any]) -> None:
    files = FileOperations(*(frozenset(case[name]) for name in ("read", "written", "edited")))
    assert files.details() == {"readFiles": case["readFiles"], "modifiedFiles": case["modifiedFiles"]}
    assert files.text() == case["formatted"]


def test_only_the_paths_of_three_tools_count_as_files() -> None:
    calls = [call(name, path=name[0]) for name in ("read", "write", "edit", "grep")]
    files = operations_of_messages([answer(*calls, call("read", path=5), call("read")), user("read")])
    expected = _TEXTS["extracted"]
    assert {name: sorted(getattr(files, name)) for name in expected} == expected


# -- roles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", _ROLES["cases"], ids=case_id)
def test_roles_are_converted_as_by_the_original(case: dict[str, Any]) -> None:
    assert convert_to_llm([case["in"]]) == case["out"]


@pytest.mark.parametrize("role", ["branchSummary", "compactionSummary"])
def test_a_summary_is_a_user_message_with_a_sentence_before_it(role: str) -> None:
    (message,) = convert_to_llm([{"role": role, "summary": "BODY", "timestamp": 5}])
    (block,) = message["content"]
    introduction, _, tail = block["text"].partition("\n\n")  # type: ignore[index,typeddict-item]
    assert introduction
    assert tail == _ROLES[role]["tailAfterIntroSentence"]
    assert (message["role"], message["timestamp"]) == ("user", 5)


def test_images_can_be_replaced_by_a_remark() -> None:
    image = {"type": "image", "data": "x", "mimeType": "image/png"}
    message = {"role": "user", "content": [{"type": "text", "text": "a"}, image], "timestamp": 1}
    (with_image,) = convert_to_llm([message])
    (without,) = convert_to_llm([message], has_images=False)
    assert with_image == message
    assert [block["type"] for block in without["content"]] == ["text", "text"]  # type: ignore[index]
    assert message["content"] == [{"type": "text", "text": "a"}, image]


def test_messages_of_a_users_own_kind_say_themselves_as_json() -> None:
    class Note:
        role = "custom"
        timestamp = 7

        def to_json(self) -> dict[str, Any]:
            return {"role": "custom", "customType": "n", "content": "hi", "display": True, "timestamp": 7}

    assert convert_to_llm([Note()]) == [{"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 7}]
