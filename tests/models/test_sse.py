"""Bytes of server-sent events, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strataflow.runtime.models.sse import EventTooLong, SseEvent, SseParser


def parsed(*pieces: bytes, **more: int) -> list[tuple[str, str]]:
    parser = SseParser(**more)
    return [tuple(event) for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_each_kind_of_line_end_separates_lines_and_events(end: bytes) -> None:
    text = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data:3", b"", b""])
    # A lone CR at the very end may be the first half of CRLF, and ends the line nevertheless.
    assert parsed(text) == [("a", "1\n2"), ("message", "3")]


def test_comments_and_unknown_fields_are_passed_over() -> None:
    text = b": hello\nid: 7\nretry: 100\nnonsense\n:\ndata: x\n\n: bye\n\nevent: lonely\n\n"
    assert parsed(text) == [("message", "x")]


def test_one_blank_after_the_colon_is_dropped_and_no_more() -> None:
    assert parsed(b"data:  x \ndata\ndata:\n\n") == [("message", " x \n\n")]


def test_a_mark_of_byte_order_is_dropped_at_the_beginning_only() -> None:
    assert parsed(b"\xef\xbb\xbfdata: \xef\xbb\xbfx\n\n") == [("message", "\ufeffx")]


def test_an_event_that_the_end_cut_off_is_not_given() -> None:
    assert parsed(b"data: 1\n\ndata: 2\n") == [("message", "1")]


def test_other_separators_of_unicode_do_not_end_a_line() -> None:
    text = "a\u2028b\u0085c\x0bd\x0ce\x1cf"
    assert parsed(f"data: {text}\n\n".encode()) == [("message", text)]


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    assert parsed(b"data: a\xffb\n\n") == [("message", "a\ufffdb")]


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * 100 + b"\n\n"],
        [b"data: "] + [b"x" * 10] * 10,
        [b"data: xxxxxxxxxx\n"] * 10,
        [b"x" * 60, b"x" * 60],
    ],
)
def test_what_never_ends_is_refused_at_the_bound(pieces: list[bytes]) -> None:
    with pytest.raises(EventTooLong):
        parsed(*pieces, bytes_max=100)


def test_many_events_may_be_longer_than_the_bound_together() -> None:
    assert len(parsed(b"data: xxxxxxxxxx\n\n" * 50, bytes_max=100)) == 50
    assert len(parsed(b": comment\n" * 50 + b"data: x\n\n", bytes_max=100)) == 1


_LINES = st.sampled_from(
    [
        b"data: a",
        b"data: \xc3\xa9\xf0\x9f\x98\x80",
        b"data",
        b"event: e",
        b": c",
        b"",
        b"",
        b"data: {",
        b"id: 1",
        b"\xef\xbb\xbf",
    ]
)
_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
_TEXTS = st.lists(st.tuples(_LINES, _ENDS), max_size=30).map(lambda rows: b"".join(line + end for line, end in rows))


@given(_TEXTS, st.data())
def test_events_do_not_depend_on_how_the_bytes_are_cut(text: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parsed(*pieces) == parsed(text) == parsed(*(text[i : i + 1] for i in range(len(text))))


@given(
    st.lists(st.builds(SseEvent, st.sampled_from(["message", "a", "b c"]), st.text().filter(lambda t: "\r" not in t)))
)
def test_events_that_are_written_are_read_again(events: list[SseEvent]) -> None:
    text = ""
    for event in events:
        text += "" if event.name == "message" else f"event: {event.name}\n"
        text += "".join(f"data: {line}\n" for line in event.data.split("\n")) + "\n"
    assert parsed(text.encode()) == [tuple(event) for event in events]
