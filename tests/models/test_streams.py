"""Streams of both formats as events of an answer: pure, without a network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.model_wires import (
    WIRE_NAMES,
    Block,
    Called,
    Said,
    WireName,
    anthropic_event,
    model_of,
    openai_chunk,
    stream_of,
    tokens_of,
)
from strataflow.runtime.agent.model_stream import StreamEvent
from strataflow.runtime.models.wires import read_answer

BOTH = pytest.mark.parametrize("wire", WIRE_NAMES)

_PIECES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4).map(tuple)
_SAID = st.builds(Said, st.sampled_from(["text", "thinking"]), _PIECES)
_NUMBERS = st.integers(-(2**53), 2**53)
_ARGUMENTS = st.dictionaries(st.text(max_size=4), st.one_of(st.text(max_size=6), _NUMBERS, st.booleans()), max_size=3)


@st.composite
def _called(draw: st.DrawFn) -> Called:
    text = json.dumps(draw(_ARGUMENTS), ensure_ascii=draw(st.booleans()))
    cut = draw(st.integers(0, len(text)))
    pieces = tuple(piece for piece in (text[:cut], text[cut:]) if piece)
    return Called(f"call-{draw(_NUMBERS)}", draw(st.sampled_from(["read", "write"])), pieces)


@st.composite
def _answers(draw: st.DrawFn) -> list[Block]:
    """Blocks of which no two neighbours are of one kind: chat completions have no borders between those."""
    said: list[Block] = []
    for block in draw(st.lists(_SAID, max_size=4)):
        if not said or said[-1].kind != block.kind:  # type: ignore[union-attr]
            said.append(block)
    return said + draw(st.lists(_called(), max_size=3))


def read(wire: WireName, pieces: list[bytes], **model: Any) -> list[StreamEvent]:
    return read_answer(model_of(wire, **model), pieces, 5)


def last(events: list[StreamEvent]) -> Any:
    return events[-1].get("message") or events[-1].get("error")


def shown(event: StreamEvent) -> dict[str, Any]:
    """Without the message so far: it is alive, and says the same at the end of all of them."""
    return {name: value for name, value in event.items() if name != "partial"}


def rebuilt(events: list[StreamEvent]) -> list[Any]:
    """The content as somebody builds it who only listens to starts, deltas and ends."""
    content: list[Any] = []
    for event in events:
        kind, _, what = event["type"].partition("_")
        if what == "start" and kind != "toolcall":
            assert event["contentIndex"] == len(content)
            content.append([kind, ""])
        elif what == "start":
            assert event["contentIndex"] == len(content)
            content.append([kind, "", None])
        elif what == "delta":
            content[event["contentIndex"]][1] += event["delta"]
        elif what == "end" and kind == "toolcall":
            content[event["contentIndex"]][2] = event["toolCall"]
        elif what == "end":
            assert content[event["contentIndex"]][1] == event["content"]
    return content


@BOTH
@given(blocks=_answers())
def test_what_a_server_says_is_what_the_answer_holds(wire: WireName, blocks: list[Block]) -> None:
    events = read(wire, stream_of(wire, blocks))
    message = last(events)
    assert [event["type"] for event in events].count("start") == 1
    assert (events[0]["type"], events[-1]["type"]) == ("start", "done")
    found = []
    for block in message["content"]:
        if block["type"] == "toolCall":
            found.append((block["id"], block["name"], block["arguments"]))
        else:
            found.append((block["type"], block[block["type"]]))
    said = []
    for block in blocks:
        if isinstance(block, Called):
            said.append((block.id, block.name, json.loads("".join(block.pieces))))
        else:
            said.append((block.kind, "".join(block.pieces)))
    assert found == said
    assert [part[1] for part in rebuilt(events) if part[0] != "toolcall"] == [
        "".join(block.pieces) for block in blocks if isinstance(block, Said)
    ]
    assert message["usage"]["output"] == tokens_of(blocks)
    assert message["stopReason"] == ("toolUse" if any(isinstance(block, Called) for block in blocks) else "stop")


@BOTH
@given(blocks=_answers(), data=st.data())
def test_events_of_an_answer_do_not_depend_on_how_its_bytes_are_cut(
    wire: WireName, blocks: list[Block], data: st.DataObject
) -> None:
    pieces = stream_of(wire, blocks)
    text = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    cut = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert list(map(shown, read(wire, cut))) == list(map(shown, read(wire, pieces)))


@BOTH
@given(blocks=_answers(), data=st.data())
def test_a_stream_that_ends_anywhere_gives_an_answer_or_an_error_and_never_half_a_call(
    wire: WireName, blocks: list[Block], data: st.DataObject
) -> None:
    text = b"".join(stream_of(wire, blocks))
    events = read(wire, [text[: data.draw(st.integers(0, len(text)))]])
    assert events[-1]["type"] in ("done", "error")
    for block in last(events)["content"]:
        if block["type"] == "toolCall":
            assert type(block["arguments"]) is dict
            assert events[-1]["type"] == "error" or "invalidArguments" not in block


@BOTH
def test_an_error_within_the_stream_ends_it_with_what_came(wire: WireName) -> None:
    bad = {"type": "overloaded_error", "message": "Overloaded"}
    piece = openai_chunk(error=bad) if wire == "openai-completions" else anthropic_event("error", error=bad)
    events = read(wire, [*stream_of(wire, [Said("text", ("a", "b"))])[:4], piece, *stream_of(wire, [])])
    assert events[-1]["type"] == "error"
    assert last(events)["errorMessage"] == "overloaded_error: Overloaded"
    assert last(events)["content"][0]["text"].startswith("a")


@BOTH
@pytest.mark.parametrize("arguments", ["{", '{"a":1', "[1]", "null", '{"a":NaN}', '{"a":1,"a":2}', '"x"'])
def test_arguments_that_are_no_sound_object_are_kept_aside_and_never_run(wire: WireName, arguments: str) -> None:
    message = last(read(wire, stream_of(wire, [Called("c", "f", (arguments,))])))
    (call,) = message["content"]
    assert (call["arguments"], call["invalidArguments"]) == ({}, arguments)


@BOTH
def test_a_call_without_arguments_has_none(wire: WireName) -> None:
    (call,) = last(read(wire, stream_of(wire, [Called("c", "f", ())])))["content"]
    assert call == {"type": "toolCall", "id": "c", "name": "f", "arguments": {}}


@pytest.mark.parametrize(
    "wire, stop, reason",
    [
        ("openai-completions", "length", "length"),
        ("openai-completions", "content_filter", "error"),
        ("openai-completions", "something_new", "stop"),
        ("anthropic-messages", "max_tokens", "length"),
        ("anthropic-messages", "model_context_window_exceeded", "length"),
        ("anthropic-messages", "refusal", "error"),
        ("anthropic-messages", "stop_sequence", "stop"),
        ("anthropic-messages", "pause_turn", "stop"),
    ],
)
def test_reasons_to_stop_are_told_in_our_words(wire: WireName, stop: str, reason: str) -> None:
    assert last(read(wire, stream_of(wire, [Said("text", ("a",))], stop)))["stopReason"] == reason


@BOTH
def test_halves_of_a_pair_that_come_apart_become_one_character(wire: WireName) -> None:
    message = last(events := read(wire, stream_of(wire, [Said("text", ("a\ud83d", "\ude00b", "\udc00", "c\ud83d"))])))
    assert message["content"][0]["text"] == "a\U0001f600b\ufffdc\ufffd"
    assert rebuilt(events)[0][1] == "a\U0001f600b\ufffdc\ufffd"


def test_the_message_so_far_grows_in_place_and_is_never_copied() -> None:
    events = read("openai-completions", stream_of("openai-completions", [Said("text", ("a",) * 50)]))
    assert len({id(event["partial"]) for event in events if "partial" in event}) == 1
    assert events[-1]["message"] is events[0]["partial"]


# -- servers that differ ----------------------------------------------------------------------------------------------


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    whole = [{"id": f"c{n}", "function": {"name": "f", "arguments": {"n": n}}} for n in range(2)]
    same = [{"index": 0, "id": f"d{n}", "function": {"name": "f", "arguments": "{}"}} for n in range(2)]
    pieces = [openai_chunk({"tool_calls": whole}), openai_chunk({"tool_calls": same}), b"data: [DONE]\n\n"]
    message = last(read("openai-completions", pieces))
    assert [block["id"] for block in message["content"]] == ["c0", "c1", "d0", "d1"]
    assert message["content"][1]["arguments"] == {"n": 1}


def test_calls_whose_pieces_are_mixed_are_put_together() -> None:
    def piece(index: int, arguments: str, **more: Any) -> bytes:
        return openai_chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments, **more}}]})

    pieces = [piece(0, "", name="a"), piece(1, "", name="b"), piece(0, '{"x":'), piece(1, '{"y":'), piece(0, "1}")]
    message = last(read("openai-completions", [*pieces, piece(1, "2}"), openai_chunk({}, finish_reason="stop")]))
    assert [(block["name"], block["arguments"]) for block in message["content"]] == [("a", {"x": 1}), ("b", {"y": 2})]
    assert message["stopReason"] == "toolUse"
    assert len({block["id"] for block in message["content"]}) == 2  # ids are made where there are none


def test_an_answer_needs_no_end_mark_after_its_reason_to_stop() -> None:
    pieces = [openai_chunk({"content": "a"}), openai_chunk({}, finish_reason="stop")]
    assert read("openai-completions", pieces)[-1]["type"] == "done"
    assert (
        read("anthropic-messages", stream_of("anthropic-messages", [Said("text", ("a",))])[:-1])[-1]["type"] == "done"
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thoughts_are_found_under_each_of_their_names(field: str) -> None:
    pieces = [openai_chunk({field: "hm"}), openai_chunk({"content": "a"}), b"data: [DONE]\n\n"]
    (thought, _) = last(read("openai-completions", pieces))["content"]
    assert thought == {"type": "thinking", "thinking": "hm", "thinkingSignature": field}


def test_a_thought_that_is_not_shown_keeps_its_seal() -> None:
    block = {"type": "redacted_thinking", "data": "sealed"}
    pieces = stream_of("anthropic-messages", [Said("text", ("a",))])
    pieces[2:2] = [
        anthropic_event("content_block_start", index=7, content_block=block),
        anthropic_event("content_block_stop", index=7),
    ]
    thought = last(read("anthropic-messages", pieces))["content"][0]
    assert thought == {"type": "thinking", "thinking": "", "redacted": True, "thinkingSignature": "sealed"}


def test_kinds_of_blocks_and_events_that_nobody_knows_are_passed_over() -> None:
    pieces = stream_of("anthropic-messages", [Said("text", ("a",))])
    pieces[2:2] = [
        anthropic_event("content_block_start", index=9, content_block={"type": "server_tool_use", "id": "x"}),
        anthropic_event("content_block_delta", index=9, delta={"type": "input_json_delta", "partial_json": "{"}),
        anthropic_event("content_block_stop", index=9),
        anthropic_event("news", of="tomorrow"),
    ]
    assert last(read("anthropic-messages", pieces))["content"] == [{"type": "text", "text": "a"}]


@given(
    st.recursive(
        st.none() | st.booleans() | _NUMBERS | st.text(max_size=5),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "choices",
                        "delta",
                        "content",
                        "tool_calls",
                        "function",
                        "index",
                        "usage",
                        "content_block",
                        "message",
                        "error",
                        "id",
                        "finish_reason",
                        "prompt_tokens_details",
                    ]
                ),
                c,
                max_size=5,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from(WIRE_NAMES),
    st.sampled_from(["message_start", "content_block_start", "content_block_delta", "message_delta", None]),
)
def test_no_json_makes_more_than_an_error(value: Any, wire: WireName, kind: str | None) -> None:
    if kind is not None and type(value) is dict:
        value = {**value, "type": kind}
    elif kind is not None and wire == "openai-completions":
        value = {"choices": [{"delta": value}], "usage": value}
    pieces = [*stream_of(wire, [Said("text", ("a",))])[:4], b"data: " + json.dumps(value).encode() + b"\n\n"]
    assert read(wire, pieces)[-1]["type"] in ("done", "error")
