"""Goal: whatever happens, a prompt continues the one before or says why not, and tells the memory exactly.

Method: random conversations of patches, foreign writes, requests, runs, answers, changes of mode, reloads and stale
cards. After each request a reader who knows nothing but the messages must hold the projected state, and each request
must extend the last one by bytes unless the projection named a reason that fits what had happened.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.conversations import Conversation, dump
from kit.holds import holds
from kit.prompt_reader import PromptReader
from kit.prompt_steps import FOREIGN, PATCHES, projected_state
from strataflow.store.algebra import CallError, same
from strataflow.store.projection import assert_prefix_stable, preview_request

Json = dict[str, Any]

HINTS = st.dictionaries(st.sampled_from(["/p", "/q", "/r"]), st.sampled_from(["old", "older"]), max_size=2)
INVALIDATIONS = st.lists(st.sampled_from([{"path": "/p", "scope": "cwd", "reason": "new"}]), max_size=1)
PHASES = st.sampled_from([None, "step", "new-bootstrap"])

STEPS = st.one_of(
    st.tuples(st.just("patch"), PATCHES),
    st.tuples(st.just("patch"), PATCHES),
    st.tuples(st.just("foreign"), FOREIGN),
    st.tuples(st.just("request"), st.none()),
    st.tuples(st.just("request"), st.none()),
    st.tuples(st.just("say"), st.sampled_from(["user", "assistant", "custom"])),
    st.tuples(st.just("run"), st.sampled_from(["", "do", "again"])),
    st.tuples(st.just("answer"), st.sampled_from(["", "done", "other"])),
    st.tuples(st.just("switch"), st.sampled_from(["active", "passive", "off"])),
    st.tuples(st.just("reload"), st.none()),
    st.tuples(st.just("hints"), HINTS),
    st.tuples(st.just("invalidations"), INVALIDATIONS),
    st.tuples(st.just("phase"), PHASES),
    st.tuples(st.just("compaction"), st.integers(0, 2)),
)
# Which reasons for a new projection each step can give to the next request.
REASONS: dict[str, set[str]] = {
    "run": {"run"},
    "answer": {"answer", "native"},
    "switch": {"mode"},
    "reload": {"session"},
    "compaction": {"native"},
}


def true_state(talk: Conversation) -> Json:
    """The projected state with its hints, by the slow model."""
    state = projected_state(talk.scopes(), talk.mode)
    for path, text in talk.hints.items():
        if path in state.get("artifacts", {}):
            state["artifacts"][path]["hint"] = text
    return state


def act(talk: Conversation, kind: str, value: Any) -> None:
    if kind in ("patch", "foreign"):
        if kind == "patch" and talk.handoff is not None and not talk.handoff.is_unfinished:
            talk.say("user", "a model acts when it is asked; what comes before the first question is hidden")
        scopes = {{"global": "global_"}.get(name, name): patch for name, patch in value.items()}
        try:
            talk.patch(**scopes) if kind == "patch" else talk.foreign(**scopes)
        except CallError:
            return
    elif kind == "say":
        talk.say(value, "said")
    elif kind in ("hints", "invalidations", "phase"):
        setattr(talk, kind, value)
    elif kind == "compaction":
        # The host drops old messages and tells nobody, also such that no request has shown yet; results go with calls.
        del talk.native[:value]
        while talk.native and talk.native[0]["role"] == "toolResult":
            del talk.native[0]
    else:
        getattr(talk, kind)(*([] if value is None else [value]))


def check_request(talk: Conversation, happened: set[str]) -> None:
    is_first = not talk.sent
    before = talk.carried
    request = talk.context()
    shown = preview_request(request, dump)
    assert talk.carried is before
    messages = talk.request()
    if talk.mode == "off":
        assert messages == talk.native
        assert shown == talk.native
        return
    reader = PromptReader.of(messages)
    assert same(reader.state, true_state(talk)), (reader.state, true_state(talk))
    assert same(PromptReader.of(list(shown)).state, reader.state)
    runtime = talk.mode == "active"
    assert reader.invalidations == (talk.invalidations if runtime else [])
    assert reader.phase == ({"phase": talk.phase} if runtime and talk.phase else None)
    if talk.rebase is None:
        assert not is_first
    else:
        legal = {"session"} if is_first else set().union(*(REASONS.get(kind, set()) for kind in happened))
        assert talk.rebase in legal, (talk.rebase, happened)
    again = talk.request()
    assert talk.rebase is None
    assert again == messages


@holds("C10", "C11", "C17", "C18", "C19", "T24", "T30", "case agent 105", "case agent 110")
@settings(max_examples=250, deadline=None, print_blob=True)
@given(st.lists(STEPS, max_size=14))
def test_a_reader_of_the_prompt_alone_holds_the_projected_state(steps: list[tuple[str, Any]]) -> None:
    talk = Conversation()
    happened: set[str] = set()
    for kind, value in steps:
        if kind == "request":
            check_request(talk, happened)
            happened = set()
        else:
            if (kind, value) == ("say", "user") and talk.anchor is None:
                kind, value = "run", "said"  # a first user message begins a run, a later one steers it
            happened.add(kind)
            act(talk, kind, value)
    check_request(talk, happened)
    reports = assert_prefix_stable(list(talk.sent))
    for report in reports:
        assert report.rebase is not None or report.shared_bytes >= report.previous_bytes - 1
