"""The prefix ledger: what is shared, where two requests part, and whether a rule says why (C10, B11, B12)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.conversations import Conversation
from kit.holds import holds
from strataflow.store.algebra import shown
from strataflow.store.projection import (
    SentRequest,
    assert_prefix_stable,
    canonical_messages,
    compare_requests,
    shared_bytes,
)

Json = dict[str, Any]


def user(text: str, **more: Any) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}], **more}


A_BLOCK = {"type": "text", "text": "a"}


def written(value: Any) -> str:
    """As a report shows a container."""
    return shown(canonical_messages(value).decode())


@holds("B11", "C10")
def test_an_extension_loses_one_byte() -> None:
    previous, current = [user("é")], [user("é"), user("more")]
    report = compare_requests(previous, current)
    assert report.previous_bytes == len(json.dumps(previous, ensure_ascii=False, separators=(",", ":")).encode())
    assert report.previous_bytes - report.shared_bytes == 1
    assert report.departure is None
    assert report.is_explained
    assert compare_requests(previous, previous).shared_bytes == report.previous_bytes
    assert compare_requests([], current).departure is None
    assert "extends" in str(report)


@pytest.mark.parametrize(
    "previous, current, message, field, before, after",
    [
        ([user("a"), user("b")], [user("a"), user("c")], 1, "content[0].text", '"b"', '"c"'),
        ([user("a", n=1)], [user("a", n=2), user("b")], 0, "n", "1", "2"),
        ([user("a", n=1)], [user("a")], 0, "n", "1", None),
        ([user("a")], [user("a", n=True)], 0, "n", None, "true"),
        ([user("a")], [{"content": [{"type": "text", "text": "a"}], "role": "user"}], 0, "role", '"role"', '"content"'),
        ([user("a")], [{"role": "user", "content": []}], 0, "content[0]", written(A_BLOCK), None),
        ([user("a")], [{"role": "user", "content": "a"}], 0, "content", written([A_BLOCK]), '"a"'),
        ([user("a", list=[1])], [user("a", list=[1, 2])], 0, "list[1]", None, "2"),
        ([user("a"), user("b")], [user("a")], 1, "", written(user("b")), None),
        ([user("a")], [], 0, "", written(user("a")), None),
    ],
)  # fmt: skip
def test_a_departure_names_message_field_and_both_values(
    previous: list[Json], current: list[Json], message: int, field: str, before: str | None, after: str | None
) -> None:
    report = compare_requests(previous, current)
    found = report.departure
    assert found is not None
    assert (found.message, found.field, found.before, found.after) == (message, field, before, after)
    old, new = canonical_messages(previous), canonical_messages(current)
    assert report.shared_bytes == shared_bytes(old, new)
    assert found.byte == report.shared_bytes
    assert str(found.byte) in str(report)
    with pytest.raises(AssertionError, match=r"request 1 does not extend request 0: .*no rule says why"):
        assert_prefix_stable([previous, current])


def test_long_texts_are_shown_around_their_difference() -> None:
    report = compare_requests([user("x" * 5000 + "a" + "y" * 5000)], [user("x" * 5000 + "b" + "y" * 5000)])
    found = report.departure
    assert found is not None
    assert found.before is not None
    assert found.after is not None
    assert "xa" in found.before
    assert "xb" in found.after
    assert len(str(report)) < 500


@holds("C11")
def test_a_departure_with_a_reason_is_explained_by_it() -> None:
    requests = [SentRequest([user("a")], "session"), SentRequest([user("b")], "run"), [user("b"), user("c")]]
    first, second = assert_prefix_stable(requests)
    assert first.rebase == "run"
    assert "(run)" in str(first)
    assert second.departure is None
    with pytest.raises(AssertionError, match="request 1"):
        assert_prefix_stable([SentRequest([user("a")]), SentRequest([user("b")])])


def test_the_canonical_form_is_compact_utf8_with_escaped_surrogates() -> None:
    assert canonical_messages([{"b": "é\u2028\x7f", "a": ["\ud83d", 1.5, None, True]}]) == (
        '[{"b":"é\u2028\x7f","a":["\\ud83d",1.5,null,true]}]'.encode()
    )


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_the_shared_prefix_is_the_longest_there_is(start: bytes, left: bytes, right: bytes) -> None:
    count = shared_bytes(start + left, start + right)
    assert count >= len(start)
    assert (start + left)[:count] == (start + right)[:count]
    assert (start + left)[count : count + 1] != (start + right)[count : count + 1] or count >= len(start + left)


@holds("B5", "B12", "C10")
@pytest.mark.parametrize("kind", ["active", "passive", "handoff"])
def test_eleven_inferences_lose_one_byte_each_in_every_mode(kind: str) -> None:
    talk = Conversation(mode="passive" if kind == "passive" else "active")
    if kind == "handoff":
        talk.switch("passive")
    talk.run("measure")
    talk.request()
    tails = []
    for number, action in enumerate("rrrrrrprrp"):
        if action == "r":
            tool = {"type": "toolCall", "id": f"r{number}", "name": "read", "arguments": {}}
            talk.say("assistant", content=[tool], stopReason="toolUse")
            talk.say("toolResult", "x" * 20_497, toolCallId=f"r{number}")
        else:
            if tails:
                talk.foreign(global_={"working": {"foreign": 1}})
            updates = talk.patch(session={"working": {"value": number}})
            tails.append(0 if updates is None else len(updates["effective"]))
        talk.request()
    assert tails == [0, 1]
    reports = assert_prefix_stable([talk.sent[0], *(sent.messages for sent in talk.sent[1:])])
    assert [report.previous_bytes - report.shared_bytes for report in reports] == [1] * 10
