"""Laws of compaction over random sessions: nothing is lost, nothing is told twice, calls stay with their results."""

from __future__ import annotations

from itertools import chain
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kit.plain_tree import PlainTree
from kit.talk import answer, call, result, user
from strataflow.compaction import CompactionSettings, plan_compaction

_TEXTS = st.integers(1, 120).map("x".__mul__)
_SETTINGS = st.sampled_from(
    [
        {"type": "model_change", "provider": "f", "modelId": "m"},
        {"type": "label", "targetId": "e01", "label": "l"},
        {"type": "custom", "customType": "c"},
    ]
)
_SPEECH = st.one_of(
    _TEXTS.map(lambda text: [user(text)]),
    _TEXTS.map(lambda text: [answer(text)]),
    st.tuples(_TEXTS, st.integers(1, 3)).map(
        lambda drawn: [
            answer(*[call("read", path=f"{index}") for index in range(drawn[1])], stop="toolUse"),
            *[result(drawn[0])] * drawn[1],
        ]
    ),
    _TEXTS.map(lambda text: [{"role": "bashExecution", "command": "ls", "output": text, "timestamp": 1}]),
    _TEXTS.map(lambda text: [{"type": "custom_message", "customType": "c", "content": text, "display": True}]),
    _TEXTS.map(lambda text: [{"type": "branch_summary", "fromId": "e01", "summary": text}]),
    _SETTINGS.map(lambda entry: [entry]),
)


def _grow(tree: PlainTree, groups: list[list[dict[str, Any]]]) -> None:
    """Append everything; each message gets a time of its own, by which it can be told from its like."""
    for item in chain.from_iterable(groups):
        if "role" in item:
            tree.append_message({**item, "timestamp": 1000 + len(tree.entries)})
        else:
            tree.append(item["type"], **{key: value for key, value in item.items() if key != "type"})


_SESSIONS = st.lists(_SPEECH, min_size=1, max_size=25)


def _times(messages: Any) -> list[Any]:
    return [message["timestamp"] for message in messages if message["role"] in ("user", "assistant", "toolResult")]


@given(rounds=st.lists(_SESSIONS, min_size=1, max_size=3), keep=st.integers(1, 200))
def test_every_message_is_summed_up_or_kept_and_never_both(rounds: Any, keep: int) -> None:
    tree = PlainTree()
    told: list[Any] = []
    for groups in rounds:
        _grow(tree, groups)
        context = tree.build_session_context().messages
        plan = plan_compaction(tree.get_branch(), context, CompactionSettings(keep_recent_tokens=keep))
        assert plan is not None
        summed_up = _times([*plan.history, *plan.turn_prefix])
        told += summed_up
        tree.append_compaction("S", plan.first_kept_entry_id, plan.tokens_before)
        after = tree.build_session_context().messages
        assert after[0]["role"] == "compactionSummary"
        # What the model saw before is now in the summary, or still there as it was, in order.
        assert summed_up + _times(after) == _times(context)
        assert len(told) == len(set(told))
        _assert_calls_before_results(after)


def _assert_calls_before_results(messages: Any) -> None:
    has_call = False
    for message in messages:
        if message["role"] == "assistant":
            has_call = any(block["type"] == "toolCall" for block in message["content"])
        elif message["role"] == "toolResult":
            assert has_call, "a result is kept without its call"
