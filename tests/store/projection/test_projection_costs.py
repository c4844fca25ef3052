"""What a request costs: it follows what is new, not what is stored. Counted in calls and characters, not in time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kit.conversations import Conversation, dump
from kit.holds import holds
from strataflow.store.projection import NOTHING_SENT, AcceptedCall, acknowledge_call, project

Json = dict[str, Any]


class CountedDump:
    """A dump that knows how much it has written."""

    def __init__(self) -> None:
        self.chars = 0

    def __call__(self, value: Any) -> str:
        text = dump(value)
        self.chars += len(text)
        return text


def calls_of(action: Callable[[], Any]) -> int:
    """How many function calls, of Python and of C, an action makes."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def talk_over(keys: int) -> Conversation:
    """A conversation of 200 messages over a memory of so many keys in two scopes."""
    talk = Conversation()
    rows = {f"k{number}": {"n": number, "list": [number]} for number in range(keys)}
    cards = {f"/{number}": {"description": "d"} for number in range(keys)}
    talk.patch(is_silent=True, cwd={"working": rows, "lazy": rows, "artifacts": cards})
    talk.patch(is_silent=True, session={"working": {"own": {"n": 1}, "k1": {"over": 1}}})
    talk.run("work")
    for _ in range(199):
        talk.say("assistant", "x")
    talk.request()
    return talk


SIZES = (40, 1000)


@holds("C10")
def test_a_request_without_news_writes_nothing_and_costs_the_same_over_any_state() -> None:
    counts = []
    for keys in SIZES:
        talk = talk_over(keys)
        request, written = talk.context(), CountedDump()
        counts.append(
            calls_of(lambda talk=talk, request=request, written=written: project(talk.carried, request, written))
        )
        assert written.chars == 0
    assert counts[0] == counts[1]


def change_one_key(talk: Conversation) -> None:
    talk.foreign(cwd={"working": {"k7": {"n": -1}}})


def add_one_card(talk: Conversation) -> None:
    talk.foreign(cwd={"artifacts": {"/new": {"description": "d"}}})


def set_one_hint(talk: Conversation) -> None:
    talk.hints = {"/7": "newer"}


@holds("C17")
@pytest.mark.parametrize("change", [change_one_key, add_one_card, set_one_hint])
def test_an_update_costs_what_changed_and_not_what_is_stored(change: Callable[[Conversation], None]) -> None:
    counts = []
    for keys in SIZES:
        talk = talk_over(keys)
        change(talk)
        request, written = talk.context(), CountedDump()
        counts.append(
            calls_of(lambda talk=talk, request=request, written=written: project(talk.carried, request, written))
        )
        assert 0 < written.chars < 250
    assert counts[0] == counts[1]


@holds("T24")
def test_a_receipt_costs_what_changed_and_not_what_is_stored() -> None:
    counts = []
    for keys in SIZES:
        talk = talk_over(keys)
        before = talk.scopes()
        patches: Any = {"cwd": {"working": {"k7": {"list": {"[0]": 5}}}}}
        talk.memory.call("patch_state", patches)
        call = AcceptedCall(patches, before, talk.scopes())
        counts.append(calls_of(lambda talk=talk, call=call: acknowledge_call(talk.carried, call, dump)))
        assert acknowledge_call(talk.carried, call, dump)[1] is None
    assert counts[0] == counts[1]


def test_a_first_head_writes_the_state_once() -> None:
    talk = talk_over(SIZES[1])
    request, written = attrs.evolve(talk.context(), transitions=()), CountedDump()
    _, messages, _ = project(NOTHING_SENT, request, written)
    assert written.chars < len(messages[0]["content"][0]["text"]) + 100


def test_a_catalog_of_many_keys_is_not_walked() -> None:
    counts = []
    for keys in SIZES:
        talk = talk_over(keys)
        talk.foreign(cwd={"lazy": {"k7": "x"}})
        request = talk.context()
        counts.append(calls_of(lambda talk=talk, request=request: project(talk.carried, request, dump)))
    assert counts[0] == counts[1]
