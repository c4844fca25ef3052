"""Requests that continue one another: byte stability, new projections, updates at their places (C8 to C20)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kit.conversations import Conversation, content_of, dump, id_of, is_update, label_of, updates_in
from kit.holds import holds
from strataflow.store.algebra import TailRecord
from strataflow.store.projection import (
    NOTHING_SENT,
    Carried,
    Rebase,
    assert_prefix_stable,
    canonical_messages,
    compare_requests,
    end_projection,
    preview_request,
    project,
)

Json = dict[str, Any]


def talking(mode: Any = "active", **scopes: Json) -> Conversation:
    """A conversation after its first request."""
    talk = Conversation(mode=mode)
    if scopes:
        talk.patch(is_silent=True, **scopes)
    talk.run("work")
    talk.request()
    return talk


def act(talk: Conversation) -> None:
    """One more step of a run: a tool call and its result."""
    number = len(talk.native)
    call = {"type": "toolCall", "id": f"t{number}", "name": "read", "arguments": {}}
    talk.say("assistant", content=[call], stopReason="toolUse")
    talk.say("toolResult", "read", toolCallId=f"t{number}")


@holds("C8", "C9", "C10", "case agent 105")
@pytest.mark.parametrize("mode", ["active", "passive"])
def test_a_run_with_two_barriers_is_one_prefix_with_one_id(mode: Any) -> None:
    talk = talking(mode, cwd={"working": {"n": 0}})
    for number in (1, 2):
        act(talk)
        talk.request()
        talk.patch(cwd={"working": {"n": number}})
        talk.request()
    reports = assert_prefix_stable([talk.sent[0], *(sent.messages for sent in talk.sent[1:])])
    assert [report.previous_bytes - report.shared_bytes for report in reports] == [1, 1, 1, 1]
    assert len({id_of(list(sent.messages)) for sent in talk.sent}) == 1
    last = talk.sent[-1].messages
    assert [message for message in last[1:] if not is_update(message)] == talk.native
    assert all(mine is theirs for mine, theirs in zip(last[1:], talk.native, strict=True))


@holds("C10")
def test_a_request_without_news_is_the_same_once_more() -> None:
    talk = talking()
    before = talk.carried
    first = talk.request()
    assert talk.request() == first
    assert talk.carried is before


@holds("C11", "case agent 106")
def test_a_second_turn_keeps_the_projection_in_passive_mode_only() -> None:
    passive = talking("passive")
    first = passive.sent[-1].messages
    passive.answer("done")
    passive.run("more")
    second = passive.request()
    assert passive.rebase is None
    assert id_of(second) == id_of(list(first))
    assert second[: len(first)] == first

    active = talking()
    first = active.sent[-1].messages
    active.answer("done")
    second = active.request()
    assert active.rebase == "answer"
    assert id_of(second) != id_of(list(first))
    active.run("more")
    active.request()
    assert active.rebase == "run"


@holds("C17", "C18", "C10", "case agent 107")
def test_a_foreign_change_is_one_update_that_stays_where_it_was() -> None:
    talk = talking(cwd={"working": {"x": 1}})
    act(talk)
    talk.foreign(cwd={"working": {"x": 2}, "lazy": {"l": 1}})
    first = talk.request()
    assert is_update(first[-1])
    assert content_of(first[-1]) == {
        "state_updates": {
            "projection": id_of(first),
            "effective": [{"path": ["working", "x"], "value": 2}],
            "lazy_navigation": {"available": True, "path": "effective.lazy", "keys": {"l": "number"}},
        }
    }
    act(talk)
    second = talk.request()
    assert second[: len(first)] == first
    assert len(updates_in(second)) == 1
    assert talk.request() == second


@holds("C17", "C18", "case agent 108")
def test_what_is_no_longer_so_is_told_too() -> None:
    talk = Conversation(phase="new-bootstrap", hints={"/a": "newer"})
    talk.invalidations = [{"path": "/a", "scope": "cwd", "reason": "source-changed"}]
    talk.patch(is_silent=True, cwd={"artifacts": {"/a": {"description": "d"}}})
    talk.run("work")
    head = content_of(talk.request()[0])
    assert head["state"]["artifacts"] == {"/a": {"description": "d", "hint": "newer"}}
    assert head["knowledge_rehydration"] == {"phase": "new-bootstrap"}
    assert head["artifact_invalidations"] == talk.invalidations
    talk.phase, talk.hints, talk.invalidations = None, {}, []
    (update,) = updates_in(talk.request())
    assert update == {
        "state_updates": {
            "projection": id_of(list(talk.sent[-1].messages)),
            "effective": [{"path": ["artifacts", "/a", "hint"], "deleted": True}],
        },
        "artifact_invalidations": [],
        "knowledge_rehydration": None,
    }
    talk.phase = "step"
    assert updates_in(talk.request())[-1] == {"knowledge_rehydration": {"phase": "step"}}


@holds("C11", "case agent 109")
@pytest.mark.parametrize("fault", ["timestamp", "role", "toolCallId", "missing", "content"])
def test_another_past_begins_a_new_projection_without_its_updates(fault: str) -> None:
    talk = talking(cwd={"working": {"x": 1}})
    act(talk)
    talk.foreign(cwd={"working": {"x": 2}})
    old = talk.request()
    assert updates_in(old)
    if fault == "missing":
        del talk.native[-1]
    else:
        talk.native[-1] = {**talk.native[-1], fault: {"role": "custom", "content": "else"}.get(fault, "99")}
    new = talk.request()
    assert talk.rebase == "native"
    assert id_of(new) != id_of(old)
    assert updates_in(new) == []
    assert content_of(new[0])["state"] == {"working": {"x": 2}}


@holds("C10")
def test_messages_that_are_made_anew_each_time_are_the_same_messages() -> None:
    talk = talking()
    act(talk)
    first = talk.request()
    talk.native = [dict(reversed(list(message.items()))) for message in talk.native]
    act(talk)
    second = talk.request()
    assert talk.rebase is None
    assert canonical_messages(second).startswith(canonical_messages(first)[:-1])


@holds("C11", "C13", "case agent 111")
def test_after_a_reload_an_older_receipt_belongs_to_another_projection() -> None:
    talk = talking("passive", cwd={"working": {"x": 1}})
    talk.foreign(cwd={"working": {"x": 2}})
    receipt = talk.patch(cwd={"working": {"y": 1}})
    assert receipt is not None
    talk.request()
    talk.reload()
    talk.foreign(cwd={"working": {"x": 3}})
    messages = talk.request()
    assert talk.rebase == "session"
    assert id_of(messages) != receipt["projection"]
    assert content_of(messages[0])["state"]["working"]["x"] == 3
    assert receipt["projection"] in dump(messages)


@holds("C11")
@pytest.mark.parametrize("reason", ["session", "mode", "run", "answer", "compaction"])
def test_what_ends_a_projection_names_itself(reason: Rebase) -> None:
    for mode in ("active", "passive"):
        talk = talking(mode)
        talk.carried = end_projection(end_projection(talk.carried, reason), "compaction")
        talk.request()
        # In passive mode neither a run nor an answer ends anything; what came first counts.
        assert talk.rebase == ("compaction" if mode == "passive" and reason in ("run", "answer") else reason)


@holds("C11")
def test_a_change_of_mode_is_noticed_even_if_nobody_tells() -> None:
    talk = talking()
    talk.mode = "passive"
    talk.request()
    assert talk.rebase == "mode"
    talk.mode = "active"
    talk.request()
    assert talk.rebase == "mode"


@holds("C12")
def test_a_preview_leaves_no_trace() -> None:
    talk = talking(cwd={"working": {"x": 1}})
    talk.foreign(cwd={"working": {"x": 2}})
    shown = preview_request(talk.context(), dump)
    assert content_of(shown[0])["state"] == {"working": {"x": 2}}
    assert len(updates_in(talk.request())) == 1


@holds("C9")
def test_a_handoff_without_memory_is_shown_without_label_and_updates() -> None:
    talk = Conversation()
    talk.patch(is_silent=True, cwd={"working": {"x": 1}})
    talk.switch("passive")
    talk.say("user", "hello")
    talk.is_loaded = False
    messages = talk.request()
    assert "exit handoff" in label_of(messages[0])
    assert len(messages[0]["content"]) == 1
    talk.foreign(cwd={"working": {"x": 2}})
    receipt = talk.patch(session={"working": {"y": None}})
    assert receipt == {"projection": None, "effective": [{"path": ["working", "y"], "deleted": True}]}
    assert updates_in(talk.request()) == []
    assert talk.rebase is None
    talk.is_loaded = True
    messages = talk.request()
    assert talk.rebase == "session"
    assert len(messages[0]["content"]) == 2
    assert updates_in(messages)[0]["state_updates"]["effective"] == [{"path": ["working", "x"], "value": 2}]


@holds("C20")
def test_changes_between_the_switch_and_the_first_request_are_an_update() -> None:
    talk = talking(cwd={"working": {"x": 1}})
    talk.answer("done")
    talk.switch("passive")
    talk.foreign(cwd={"working": {"x": 2}})
    talk.say("user", "hello")
    messages = talk.request()
    assert content_of(messages[0])["state"] == {"working": {"x": 1}}
    assert updates_in(messages)[0]["state_updates"]["effective"] == [{"path": ["working", "x"], "value": 2}]


@holds("C8")
def test_without_memory_nothing_is_invented() -> None:
    talk = Conversation(mode="passive", is_loaded=False)
    talk.say("user", "hello")
    request = talk.context()
    carried, messages, rebase = project(NOTHING_SENT, request, dump)
    assert messages is request.messages
    assert rebase == "session"
    assert project(carried, request, dump)[2] is None
    talk.carried, talk.is_loaded = carried, True
    assert "passive memory" in label_of(talk.request()[0])
    assert talk.rebase == "session"


@holds("C10")
def test_a_projection_goes_on_while_its_memory_can_not_be_read() -> None:
    talk = talking("passive", cwd={"working": {"x": 1}})
    talk.foreign(cwd={"working": {"x": 2}})
    talk.is_loaded = False
    act(talk)
    first = talk.request()
    assert talk.rebase is None
    assert updates_in(first) == []
    talk.is_loaded = True
    second = talk.request()
    assert talk.rebase is None
    assert len(updates_in(second)) == 1


@holds("case agent 126")
def test_off_leaves_the_messages_alone_and_forgets_the_projection() -> None:
    talk = talking()
    talk.mode = "off"
    request = talk.context()
    talk.carried, messages, rebase = project(talk.carried, request, dump)
    assert messages is request.messages
    assert rebase == "mode"
    assert talk.carried.live is None
    talk.say("user", "more")
    talk.request()
    assert talk.rebase is None
    del talk.native[0]
    talk.request()
    assert talk.rebase == "native"
    talk.mode = "active"
    talk.request()
    assert talk.rebase == "mode"


def test_a_host_that_changes_a_synthetic_message_changes_its_copy_only() -> None:
    talk = talking()
    messages = talk.request()
    messages[0]["content"][0]["text"] = "spoilt"
    messages[0]["cache"] = True
    again = talk.request()
    assert label_of(again[0]).startswith("State Flow runtime context")
    assert "cache" not in again[0]


def test_hints_and_invalidations_are_copied_when_they_are_told() -> None:
    talk = Conversation(hints={"/a": "newer"})
    talk.invalidations = [{"path": "/a", "scope": "cwd", "reason": "new"}]
    talk.patch(is_silent=True, cwd={"artifacts": {"/a": {"description": "d"}}})
    talk.run("work")
    talk.request()
    talk.hints["/a"] = "other"
    talk.invalidations[0]["reason"] = "compiler-changed"
    (update,) = updates_in(talk.request())
    assert update["state_updates"]["effective"] == [{"path": ["artifacts", "/a", "hint"], "value": "other"}]
    assert update["artifact_invalidations"][0]["reason"] == "compiler-changed"
    talk.hints["/a"] = "third"
    talk.invalidations[0]["reason"] = "new"
    update = updates_in(talk.request())[1]
    assert update["state_updates"]["effective"] == [{"path": ["artifacts", "/a", "hint"], "value": "third"}]
    assert update["artifact_invalidations"][0]["reason"] == "new"


def test_records_that_do_not_lead_on_are_replaced_by_a_comparison() -> None:
    talk = talking(cwd={"working": {"x": 1, "y": [1, {"z": 1}]}})
    scopes = talk.scopes()
    cwd = scopes["cwd"]
    # Read anew from files that others wrote: another base, equal and unequal values, none of them shared.
    value = {"working": {"x": 1, "y": [1, {"z": 2}]}}
    base = attrs.evolve(cwd.base_boundary, id="files", position=99)
    for is_pruned in (True, False):
        fresh = attrs.evolve(cwd, value=value, base=value, base_boundary=base, tail=(), is_pruned=is_pruned)
        request = attrs.evolve(talk.context(), scopes={**scopes, "cwd": fresh})
        _, messages, rebase = project(talk.carried, request, dump)
        assert rebase is None
        (update,) = updates_in(list(messages))
        assert update["state_updates"]["effective"] == [{"path": ["working", "y", 1, "z"], "value": 2}]
        same = attrs.evolve(fresh, value={"working": {"x": 1, "y": [1, {"z": 1}]}})
        request = attrs.evolve(talk.context(), scopes={**scopes, "cwd": same})
        carried, messages, _ = project(talk.carried, request, dump)
        assert updates_in(list(messages)) == []
        assert carried is not talk.carried  # the next comparison begins here


@pytest.mark.parametrize("position, revision", [(99, 1), (2, 3)], ids=["another base", "another revision"])
def test_a_record_of_another_stream_is_not_taken_for_all_that_changed(position: int, revision: int) -> None:
    talk = talking(cwd={"working": {"x": 1, "y": 1}})
    scopes = talk.scopes()
    cwd = scopes["cwd"]
    base: Json = {"working": {"x": 2, "y": 1}}
    boundary = attrs.evolve(cwd.newest, id="files", position=position)
    record = TailRecord(attrs.evolve(boundary, id="last", position=100), {"working": {"y": 2}})
    value = {"working": {"x": 2, "y": 2}}
    other = attrs.evolve(
        cwd, value=value, base=base, base_boundary=boundary, tail=(record,), revision=cwd.revision + revision
    )
    _, messages, _ = project(talk.carried, attrs.evolve(talk.context(), scopes={**scopes, "cwd": other}), dump)
    (update,) = updates_in(list(messages))
    assert [entry["path"][1] for entry in update["state_updates"]["effective"]] == ["x", "y"]


@holds("C14")
def test_an_empty_object_hides_what_it_hides_and_is_hidden_itself() -> None:
    talk = talking(global_={"working": {"x": 5, "y": 1}})
    scopes = talk.scopes()
    value: Json = {"working": {"x": {}, "rows": [{}, {"e": {}}]}, "unknown": {"a": 1}, "response": ""}
    odd = attrs.evolve(scopes["session"], value=value, base=value, is_pruned=False)
    request = attrs.evolve(talk.context(), scopes={**scopes, "session": odd})
    shown = preview_request(request, dump)
    assert content_of(shown[0])["state"] == {"working": {"y": 1, "rows": [{}, {}]}}


def test_an_unloaded_view_says_nothing_of_a_projection() -> None:
    assert NOTHING_SENT.projection_id is None
    talk = talking()
    assert talk.carried.projection_id == id_of(list(talk.sent[-1].messages))
    assert isinstance(talk.carried, Carried)
    assert compare_requests(talk.sent[-1].messages, talk.request()).departure is None
