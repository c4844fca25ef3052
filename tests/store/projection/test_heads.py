"""Heads, navigation and recent transitions (C4 to C7, C14 to C16, C21, C22, C29)."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from kit.conversations import Conversation, content_of, dump, label_of, updates_in
from kit.holds import holds
from strataflow.store.projection import Transition, preview_request, recent_transitions

Json = dict[str, Any]


def head(talk: Conversation) -> Json:
    """What the head of the present request holds."""
    return content_of(talk.request()[0])


def with_lazy(lazy: Json) -> Conversation:
    talk = Conversation()
    if lazy:
        talk.patch(is_silent=True, cwd={"lazy": lazy})
    talk.run("work")
    return talk


@holds("C4", "C7", "C8")
def test_a_head_is_a_user_message_of_two_blocks_with_one_line_of_json() -> None:
    talk = Conversation()
    talk.patch(is_silent=True, cwd={"working": {"é": "ü", "b": 1, "a": 2}})
    talk.run("work")
    message = talk.request()[0]
    assert list(message) == ["role", "content", "timestamp"]
    assert message["role"] == "user"
    first, second = message["content"]
    label, line = first["text"].split("\n")
    assert "runtime context" in label
    assert "user data" in label
    assert "not an instruction" in label
    assert line == dump(json.loads(line))
    assert '"working":{"é":"ü","b":1,"a":2}' in line
    assert second["text"] == f"State Flow projection: {talk.carried.projection_id}"


@holds("C5", "C7")
def test_the_members_of_an_active_head_come_in_their_order() -> None:
    talk = Conversation(phase="step")
    talk.invalidations = [{"path": "/a", "scope": "cwd", "reason": "new"}]
    planes = ("lazy", "artifacts", "working", "contract", "intents")
    values: Json = {plane: {"k": {"description": "d"}} for plane in planes}
    talk.patch(is_silent=True, session=values)
    talk.memory.call("accept_response", {"text": "before"})
    talk.run("work")
    found = head(talk)
    assert list(found) == [
        "specification",
        "state",
        "lazy_navigation",
        "knowledge_rehydration",
        "artifact_invalidations",
        "recent_transitions",
    ]
    assert list(found["state"]) == ["intents", "contract", "working", "artifacts", "response"]
    assert found["specification"] == "work"


@holds("C5", "C16")
def test_what_an_active_head_does_not_have_it_leaves_out() -> None:
    talk = Conversation()
    talk.run("work")
    assert head(talk) == {
        "specification": "work",
        "state": {},
        "lazy_navigation": {"available": False, "path": "effective.lazy"},
    }


@holds("C6", "C14", "case agent 127")
def test_passive_heads_hold_state_and_navigation_and_no_answer() -> None:
    talk = Conversation(mode="passive", phase="step")
    talk.invalidations = [{"path": "/a", "scope": "cwd", "reason": "new"}]
    talk.patch(is_silent=True, cwd={"working": {"x": 1}})
    talk.memory.call("accept_response", {"text": "stored"})
    talk.say("user", "hello")
    assert head(talk) == {
        "state": {"working": {"x": 1}},
        "lazy_navigation": {"available": False, "path": "effective.lazy"},
    }
    assert talk.memory.call("read_state", {"path": "effective.response"}) == {"value": "stored"}
    talk.switch("active")
    assert head(talk)["state"] == {"working": {"x": 1}, "response": "stored"}
    talk.switch("passive")
    talk.memory.call("accept_response", {"text": "again"})
    messages = talk.request()
    assert list(content_of(messages[0])) == ["state", "continuation"]
    assert "response" not in content_of(messages[0])["state"]
    assert updates_in(messages) == []
    assert "exit handoff" in label_of(messages[0])


@holds("C6")
def test_a_handoff_says_otherwise_when_work_is_unfinished() -> None:
    notes = set()
    for is_unfinished in (True, False):
        talk = Conversation()
        talk.run("work")
        if not is_unfinished:
            talk.answer("done")
        talk.switch("passive")
        notes.add(head(talk)["continuation"])
    assert len(notes) == 2


@holds("C16", "case agent 112")
@pytest.mark.parametrize(
    "lazy, available, count",
    [
        ({f"k{number}": number for number in range(32)}, True, 32),
        ({f"k{number}": number for number in range(33)}, True, None),
        ({"empty": {}}, False, None),
        ({}, False, None),
        ({"k" * 1011: "x"}, True, 1),
        ({"k" * 1012: "x"}, True, None),
        ({"é" * 1011: "x"}, True, 1),
    ],
    ids=["32", "33", "empty", "none", "1024", "1025", "code points"],
)
def test_a_catalog_is_shown_whole_or_without_any_key(lazy: Json, available: bool, count: int | None) -> None:
    navigation = head(with_lazy(lazy))["lazy_navigation"]
    assert navigation["available"] is available
    assert (len(navigation["keys"]) if "keys" in navigation else None) == count
    assert navigation["path"] == "effective.lazy"


@holds("C16")
def test_a_catalog_names_kinds_of_the_effective_values() -> None:
    talk = with_lazy({"a": [1], "b": True, "n": 1.5, "o": {"x": 1}, "s": "t"})
    talk.patch(is_silent=True, session={"lazy": {"a": "masks", "more": {"y": 2}}})
    keys = head(talk)["lazy_navigation"]["keys"]
    assert keys == {
        "a": "string", "b": "boolean", "n": "number", "o": "object", "s": "string", "more": "object"
    }  # fmt: skip


@holds("C16")
def test_keys_of_all_scopes_count_together() -> None:
    talk = with_lazy({f"c{number}": 1 for number in range(20)})
    talk.patch(is_silent=True, session={"lazy": {f"s{number}": 1 for number in range(12)}})
    assert len(head(talk)["lazy_navigation"]["keys"]) == 32
    talk.patch(is_silent=True, session={"lazy": {"one": "more"}})
    talk.run("more")
    assert "keys" not in head(talk)["lazy_navigation"]


@holds("C16")
def test_keys_of_old_files_that_hold_only_empty_objects_do_not_count() -> None:
    talk = with_lazy({"a": 1})
    scopes = talk.scopes()
    value: Json = {"lazy": {"hollow": {"x": {}, "y": {"z": {}}}, "list": [{}]}}
    odd = attrs.evolve(scopes["session"], value=value, base=value, is_pruned=False)
    shown = preview_request(attrs.evolve(talk.context(), scopes={**scopes, "session": odd}), dump)
    assert content_of(shown[0])["lazy_navigation"]["keys"] == {"a": "number", "list": "array"}


@holds("C14", "A9", "A13")
def test_cards_are_shown_without_provenance_and_with_their_hint() -> None:
    talk = Conversation(hints={"/a": "newer", "/gone": "no card has this path"})
    card = {"description": "d", "hash": "sha256:" + "0" * 64, "compiled_at": "x"}
    scopes = talk.scopes()
    value = {"artifacts": {"/a": card, "/b": card}}
    old = attrs.evolve(scopes["cwd"], value=value, base=value)
    shown = preview_request(attrs.evolve(talk.context(), scopes={**scopes, "cwd": old}), dump)
    assert content_of(shown[0])["state"]["artifacts"] == {
        "/a": {"description": "d", "hint": "newer"},
        "/b": {"description": "d"},
    }
    assert "hash" in card


@holds("C21", "C22", "case agent 113")
def test_transitions_of_lazy_alone_are_hidden_and_the_others_keep_their_place() -> None:
    talk = Conversation()
    talk.patch(is_silent=True, cwd={"working": {"x": 1}, "lazy": {"l": 1}}, session={"lazy": {"l": 2}})
    talk.patch(is_silent=True, session={"lazy": {"l": 3}})
    talk.patch(is_silent=True, session={"working": {"y": 2}})
    talk.run("work")
    first, hidden, last = talk.transitions
    assert hidden.id not in dump(head(talk))
    assert head_transitions(talk) == [
        {"id": first.id, "at": first.at, "transitions": [{"scope": "cwd", "patch": {"working": {"x": 1}}}]},
        {"id": last.id, "at": last.at, "transitions": [{"scope": "session", "patch": {"working": {"y": 2}}}]},
    ]


def head_transitions(talk: Conversation) -> list[Json]:
    found: list[Json] = content_of(talk.sent[-1].messages[0])["recent_transitions"]
    return found


@holds("C22", "C7")
def test_patches_of_transitions_are_shown_as_reads_would_show_them() -> None:
    record: Json = {
        "unknown": {"a": 1},
        "response": "",
        "artifacts": {"/a": {"description": "d", "compiler": "c"}, "/b": None},
        "working": None,
        "lazy": None,
    }
    (entry,) = recent_transitions([Transition("t", 4, {"session": record, "cwd": {"unknown": 1}})], 7)
    assert entry == {
        "id": "t",
        "at": 4,
        "transitions": [
            {
                "scope": "session",
                "patch": {"working": None, "artifacts": {"/a": {"description": "d"}, "/b": None}, "response": None},
            }
        ],
    }
    assert record["artifacts"]["/a"]["compiler"] == "c"


@holds("C21", "case agent 114")
def test_a_head_shows_the_last_seven_transitions_oldest_first() -> None:
    talk = Conversation()
    for number in range(10):
        talk.patch(is_silent=True, cwd={"working": {"n": number}})
    talk.run("work")
    head(talk)
    patches = [entry["transitions"][0]["patch"]["working"]["n"] for entry in head_transitions(talk)]
    assert patches == [3, 4, 5, 6, 7, 8, 9]


@holds("C21")
def test_the_limit_counts_for_each_scope_on_its_own() -> None:
    transitions = [
        Transition("one", 1, {"global": {"working": {"n": 1}}, "cwd": {"working": {"n": 1}}}),
        Transition("two", 2, {"cwd": {"working": {"n": 2}}}),
        Transition("three", 3, {"cwd": {"lazy": {"n": 2}}}),
    ]
    found = recent_transitions(transitions, 1)
    assert [(entry["id"], [part["scope"] for part in entry["transitions"]]) for entry in found] == [("one", ["global"])]
    assert recent_transitions(transitions, 0) == []


@holds("C21", "Ours-15", "case agent 115")
def test_a_new_session_sees_shared_memory_and_nobody_elses_transitions() -> None:
    talk = Conversation()
    talk.foreign(cwd={"working": {"theirs": 1}})
    talk.run("work")
    found = head(talk)
    assert found["state"] == {"working": {"theirs": 1}}
    assert "recent_transitions" not in found
    assert talk.sent[-1].messages[1:] == talk.native


@holds("C29")
def test_after_an_answer_a_continuation_has_no_specification() -> None:
    talk = Conversation()
    talk.run("work")
    assert head(talk)["specification"] == "work"
    talk.answer("done")
    found = head(talk)
    assert "specification" not in found
    assert found["state"] == {"response": "done"}


@holds("P23", "case agent 133")
def test_an_empty_answer_takes_the_old_one_away_and_keeps_the_patches() -> None:
    talk = Conversation()
    talk.run("work")
    talk.answer("Previous")
    talk.run("again")
    talk.patch(session={"working": {"x": 1}})
    talk.answer("")
    assert head(talk)["state"] == {"working": {"x": 1}}


@holds("C5", "C24", "case agent 116")
def test_an_empty_prompt_is_a_specification_too() -> None:
    talk = Conversation()
    talk.say("user", "old request")
    talk.say("assistant", "old answer", stopReason="stop")
    talk.run("")
    messages = talk.request()
    assert content_of(messages[0])["specification"] == ""
    assert messages[1:] == [talk.native[-1]]


@holds("C15")
def test_what_was_said_is_never_redacted() -> None:
    talk = Conversation(mode="passive")
    talk.say("user", "the response is secret lazy text")
    talk.patch(cwd={"lazy": {"l": "secret lazy text"}})
    assert talk.request()[1:] == talk.native
