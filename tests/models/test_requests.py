"""What is sent to models: a transcript as each of them can take it, in bytes that stay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.holds import holds
from kit.model_wires import WIRE_NAMES, WireName, model_of
from strataflow.runtime.agent.messages import LlmMessage
from strataflow.runtime.agent.model_stream import ModelRequest, StreamOptions
from strataflow.runtime.models.encoding import encoded
from strataflow.runtime.models.transform import NO_IMAGES, NO_RESULT, prepared
from strataflow.runtime.models.usage import no_usage
from strataflow.runtime.models.wires import request_body

BOTH = pytest.mark.parametrize("wire", WIRE_NAMES)
TOOL: Any = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
IMAGE: Any = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


def user(content: Any = "Hi") -> Any:
    return {"role": "user", "content": content, "timestamp": 1}


def text(said: str) -> Any:
    return {"type": "text", "text": said}


def call(call_id: str = "c1") -> Any:
    return {"type": "toolCall", "id": call_id, "name": "add", "arguments": {"a": 1}}


def thought(seal: str | None = None, **more: Any) -> Any:
    return {"type": "thinking", "thinking": "hm", **({} if seal is None else {"thinkingSignature": seal}), **more}


def answer(*content: Any, wire: WireName = "anthropic-messages", stop: str = "stop", model: str = "m-1") -> Any:
    head = {"role": "assistant", "content": list(content), "api": wire, "provider": "local", "model": model}
    return {**head, "usage": no_usage(), "stopReason": stop, "timestamp": 2}


def result(call_id: str = "c1", *content: Any, error: bool = False) -> Any:
    blocks = list(content) or [text("2")]
    return {"role": "toolResult", "toolCallId": call_id, "toolName": "add", "content": blocks, "isError": error} | {
        "timestamp": 3
    }


def body(
    wire: WireName, messages: list[Any], model: Any = None, system: str = "", tools: Any = (), **options: Any
) -> Any:
    request = ModelRequest(system, messages, list(tools))
    return request_body(model or model_of(wire), request, StreamOptions(**options))


# -- chat completions -------------------------------------------------------------------------------------------------


def test_chat_completions_get_roles_calls_results_and_images_in_their_form() -> None:
    messages = [
        user([text("see"), IMAGE]),
        answer(thought("reasoning_content"), text("I add."), call(), call("c2"), wire="openai-completions"),
        result("c1", text("2"), IMAGE),
        result("c2"),
        user("go on"),
    ]
    sent = body("openai-completions", messages, system="Be kind.", tools=[TOOL])
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    function = {"name": "add", "arguments": '{"a":1}'}
    calls = [{"id": name, "type": "function", "function": function} for name in ("c1", "c2")]
    assert sent["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "see"}, url]},
        {"role": "assistant", "content": "I add.", "reasoning_content": "hm", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "user", "content": [{"type": "text", "text": "Images from the results above:"}, url]},
        {"role": "user", "content": "go on"},
    ]
    assert sent["tools"] == [{"type": "function", "function": TOOL}]
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})


@pytest.mark.parametrize(
    "level, efforts, asked",
    [
        ("minimal", (), "low"),
        ("low", (), "low"),
        ("xhigh", (), "high"),
        ("minimal", ("minimal", "low", "medium", "high"), "minimal"),
        ("xhigh", ("low", "high", "xhigh"), "xhigh"),
        ("medium", ("low", "high"), "low"),
    ],
)
def test_a_level_is_asked_for_by_the_nearest_name_that_the_model_knows(level: Any, efforts: Any, asked: str) -> None:
    model = model_of("openai-completions", efforts=efforts)
    assert body("openai-completions", [user()], model, reasoning=level)["reasoning_effort"] == asked


@BOTH
@pytest.mark.parametrize("reasons, level", [(False, "high"), (True, None), (True, "off")])
def test_no_thinking_is_asked_where_none_is_wanted_or_possible(wire: WireName, reasons: bool, level: Any) -> None:
    sent = body(wire, [user()], model_of(wire, reasoning=reasons), reasoning=level)
    assert not {"thinking", "reasoning_effort"} & sent.keys()


def test_the_output_limit_goes_under_the_name_that_the_server_knows() -> None:
    wire: WireName = "openai-completions"
    assert "max_tokens" not in body(wire, [user()])
    assert body(wire, [user()], max_tokens=7)["max_tokens"] == 7
    assert body(wire, [user()], model_of(wire, provider="openai"), max_tokens=7)["max_completion_tokens"] == 7


# -- messages ---------------------------------------------------------------------------------------------------------

MARKER = {"cache_control": {"type": "ephemeral"}}


def test_messages_get_blocks_results_and_markers_where_prefixes_end() -> None:
    messages = [
        user("one"),
        answer(thought("seal"), thought("blob", redacted=True, thinking=""), text("I add."), call()),
        result("c1", text("2"), IMAGE, error=True),
        user("two"),
    ]
    sent = body("anthropic-messages", messages, system="Be kind.", tools=[TOOL, TOOL])
    assert sent["system"] == [{"type": "text", "text": "Be kind.", **MARKER}]
    tool = {"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}
    assert sent["tools"] == [tool, {**tool, **MARKER}]
    source = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
    content = [{"type": "text", "text": "2"}, {"type": "image", "source": source}]
    assert sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "one", **MARKER}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "seal"},
                {"type": "redacted_thinking", "data": "blob"},
                {"type": "text", "text": "I add."},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": content, "is_error": True},
                {"type": "text", "text": "two", **MARKER},
            ],
        },
    ]


@holds("host 5.7.6")
@pytest.mark.parametrize(
    "level, most, asked, budgets, sent",
    [
        (None, 64_000, None, None, (32_000, None)),
        (None, 8_192, None, None, (8_192, None)),
        ("minimal", 64_000, 1_000, None, (2_024, 1_024)),
        ("low", 64_000, 1_000, None, (3_048, 2_048)),
        ("medium", 64_000, 1_000, None, (9_192, 8_192)),
        ("high", 64_000, 1_000, None, (17_384, 16_384)),
        ("xhigh", 64_000, 1_000, None, (17_384, 16_384)),
        ("xhigh", 64_000, 1_000, {"xhigh": 30_000}, (31_000, 30_000)),
        ("high", 64_000, 1_000, {"high": 2_048, "low": 512}, (3_048, 2_048)),
        ("high", 8_192, 4_000, None, (8_192, 7_168)),
        ("high", 0, 4_000, None, (20_384, 16_384)),
        ("low", 64_000, 1_000, {"low": 512}, (1_512, None)),
        ("high", 1_500, 1_000, None, (1_500, None)),
    ],
)
def test_a_level_is_a_budget_within_what_the_model_can_give(
    level: Any, most: int, asked: int | None, budgets: Any, sent: tuple[int, int | None]
) -> None:
    wire: WireName = "anthropic-messages"
    model = model_of(wire, max_tokens=most)
    found = body(wire, [user()], model, reasoning=level, max_tokens=asked, thinking_budgets=budgets, temperature=0.5)
    assert (found["max_tokens"], found.get("thinking", {}).get("budget_tokens")) == sent
    assert ("temperature" in found) is (sent[1] is None)


@BOTH
def test_members_of_ones_own_are_put_over_the_request_and_none_takes_away(wire: WireName) -> None:
    sent = body(wire, [user()], extra={"model": "mine", "stream_options": None, "top_p": 0.5})
    assert (sent["model"], sent["top_p"], "stream_options" in sent) == ("mine", 0.5, False)


# -- between models ---------------------------------------------------------------------------------------------------


def taken(messages: list[Any], **model: Any) -> list[Any]:
    return prepared(messages, model_of("anthropic-messages", **model))


def test_thoughts_of_another_model_are_left_out_and_text_stays() -> None:
    messages = [answer(thought("seal"), text("a"), model="other"), answer(thought("seal"), text("b"))]
    assert [[block["type"] for block in message["content"]] for message in taken(messages)] == [
        ["text"],
        ["thinking", "text"],
    ]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    _, found = taken([answer(call(), stop="toolUse")])
    assert (found["toolCallId"], found["isError"], found["content"]) == ("c1", True, [text(NO_RESULT)])


def test_a_result_stands_right_behind_its_call_whatever_came_between() -> None:
    messages = [answer(call("c1"), call("c2")), user("wait"), result("c2"), result("c1"), result("c1", text("again"))]
    found = taken(messages)
    assert [message.get("toolCallId", message["role"]) for message in found] == ["assistant", "c1", "c2", "user"]
    assert found[1]["content"] == [text("2")]


def test_a_result_without_its_call_is_left_out() -> None:
    assert taken([user(), result("c9"), answer(text("a"))]) == [user(), answer(text("a"))]


def test_of_an_aborted_answer_the_text_stays_and_what_is_half_goes() -> None:
    messages = [
        answer(thought(), text("so far"), call(), stop="aborted"),
        answer(thought("seal"), call("c2"), stop="error"),
        answer(call("c3"), stop="aborted"),
        result("c3"),
    ]
    first, second, third = taken(messages)
    assert first["content"] == [text("so far")]
    assert second["content"] == [call("c3")]
    assert third["toolCallId"] == "c3"


def test_ids_become_of_one_form_and_are_never_used_twice() -> None:
    odd = "call|äé " + "x" * 60
    messages = [m for name in ("c1", "c1", odd, odd, "") for m in (answer(call(name)), result(name))]
    found = taken(messages)
    ids = [message["content"][0]["id"] for message in found[::2]]
    assert ids[0] == "c1"
    assert len(set(ids)) == 5
    assert all(len(name) <= 40 and name.replace("_", "").replace("-", "").isalnum() and name.isascii() for name in ids)
    assert [message["toolCallId"] for message in found[1::2]] == ids


def test_images_become_a_remark_for_models_that_do_not_see() -> None:
    found = taken([user([text("see"), IMAGE]), answer(call()), result("c1", IMAGE)], input=("text",))
    assert [found[0]["content"], found[2]["content"]] == [[text("see"), text(NO_IMAGES)], [text(NO_IMAGES)]]


_BLOCKS = st.lists(
    st.one_of(
        st.builds(text, st.text(max_size=3)),
        st.builds(thought, st.sampled_from([None, "seal"])),
        st.builds(call, st.sampled_from(["a", "b", "c", "|"])),
    ),
    max_size=4,
    unique_by=lambda block: block.get("id", id(block)),
)
_STOPS = st.sampled_from(["stop", "aborted", "error"])
_MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=3)),
        st.builds(
            lambda blocks, stop: answer(*blocks, stop=stop), _BLOCKS, st.sampled_from(["stop", "aborted", "error"])
        ),
        st.builds(result, st.sampled_from(["a", "b", "c", "|"])),
    ),
    max_size=10,
)


@given(_MESSAGES)
def test_every_call_that_is_sent_is_followed_by_exactly_its_results(messages: list[LlmMessage]) -> None:
    before = json.dumps(messages)
    found = taken(messages)
    assert json.dumps(messages) == before
    waiting: list[str] = []
    seen: set[str] = set()
    for message in found:
        if message["role"] == "toolResult":
            assert message["toolCallId"] == waiting.pop(0)
        else:
            assert waiting == []
        if message["role"] == "assistant":
            waiting = [block["id"] for block in message["content"] if block["type"] == "toolCall"]
            assert not seen.intersection(waiting)
            seen.update(waiting)
            assert any(block["type"] != "thinking" for block in message["content"])
    assert waiting == []


@BOTH
@given(messages=_MESSAGES, more=_MESSAGES)
def test_what_was_sent_before_an_answer_is_the_beginning_of_the_next_request(
    wire: WireName, messages: list[Any], more: list[Any]
) -> None:
    def sent(transcript: list[Any]) -> list[str]:
        found = body(wire, transcript, system="s")["messages"]
        for turn in found:
            for block in turn["content"] if type(turn["content"]) is list else []:
                block.pop("cache_control", None)  # a marker is not part of what is cached
        return [json.dumps(turn) for turn in found]

    # After an answer nothing that stood before it changes: its results come behind it.
    earlier = sent([*messages, user("now")])
    later = sent([*messages, user("now"), answer(text("a")), *more])
    assert later[: len(earlier)] == earlier


# -- bytes ------------------------------------------------------------------------------------------------------------


def test_halves_of_pairs_and_large_numbers_do_not_stop_a_request() -> None:
    assert json.loads(encoded({"a": "x\ud83d", "b": 2**70, "c": "\ud83d\ude00"})) == {
        "a": "x\ufffd",
        "b": 2**70,
        "c": "\U0001f600",
    }
