"""Every recorded run of the original agent, played again against ours in virtual time.

The order of events is exact, and so is that of the model's and the hooks' calls between them. The order of calls of
tools that run at the same time is not, so those are compared as they are, without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kit.agent_replay import Replay, load, scenarios, seen
from kit.holds import holds

# Where ours is another on purpose: what the original did there is called a flaw, or belongs to a release we do not
# follow (host 5.2.7, 5.3.3-5.3.5, 5.5.5).
OURS_73 = {"59b-reset-during-run"}
OURS_58 = {"21b-after-tool-call-throws", "46-slow-listeners", "59b-reset-during-run"}
_BESIDE_EVENTS = ("stream", "transformContext", "convertToLlm", "getApiKey")
_LOW_LEVEL = "60-low-level-should-stop"


def in_order(trace: list[Mapping[str, Any]], *, with_streaming: bool = True) -> list[Any]:
    found = []
    for record in trace:
        if record.get("call") in _BESIDE_EVENTS or ("event" in record and "listener" not in record):
            found.append(_comparable(record, with_streaming))
    return found


def _comparable(record: Mapping[str, Any], with_streaming: bool) -> Any:
    found = _with_our_texts(dict(record))
    # When a run stops counting as one is a matter of the release; so is the default transport (host 8).
    if not with_streaming and "state" in found:
        found["state"] = seen(found["state"], {"streaming"})
    if "options" in found:
        found["options"] = seen(found["options"], {"transport"})
    return found


def _with_our_texts(value: Any) -> Any:
    """Texts of validators are ours; how they begin is not."""
    if isinstance(value, dict):
        return {key: _with_our_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_our_texts(item) for item in value]
    if isinstance(value, str) and value.startswith("Validation failed for tool"):
        return value.split("\n")[0]
    return value


def of_tools(trace: list[Mapping[str, Any]]) -> list[str]:
    return sorted(str(sorted(record.items())) for record in trace if "call" in record and "id" in record)


@pytest.mark.parametrize("name", sorted(set(scenarios("agent")) - OURS_73 - {_LOW_LEVEL}))
@holds("AC-156-160", "AC-162", "AC-163", "AC-166-168", "AC-170-172", "AC-174-176", "AC-178", "AC-179")
@holds("AC-180-184", "AC-186-193", "AC-195", "AC-197-199", "host 5.2.1-5.2.3", "host 5.2.8")
@holds("host 5.3.1-5.3.4", "host 5.4.1-5.4.3", "host 5.5.1-5.5.7", "host 5.5.9", "host 5.5.11", "host 5.5.12")
@holds("host 5.1.2", "host 5.1.3", "host 5.6.1-5.6.5", "host 5.6.7", "host 5.6.9", "host 5.7.1-5.7.4", "host 5.7.7")
@holds("host 5.8.1", "host 5.8.2")
async def test_a_run_tells_what_the_original_told(name: str, autojump_clock: Any) -> None:
    recorded = load("agent", name)
    replay = Replay(recorded["script"])
    await replay.play()
    assert in_order(replay.trace) == in_order(recorded["trace"])
    assert of_tools(replay.trace) == of_tools(recorded["trace"])
    _check_ends(replay, recorded)


@pytest.mark.parametrize("name", sorted(set(scenarios("agent-0.58")) - OURS_58))
@holds("AC-164", "host 5.6.6", "host 9.3")
async def test_with_the_skip_policy_a_run_tells_what_the_older_original_told(name: str, autojump_clock: Any) -> None:
    recorded = load("agent-0.58", name)
    replay = Replay(recorded["script"], {"steering_policy": "skip"})
    await replay.play()
    assert in_order(replay.trace, with_streaming=False) == in_order(recorded["trace"], with_streaming=False)
    assert of_tools(replay.trace) == of_tools(recorded["trace"])
    _check_ends(replay, recorded)


def _check_ends(replay: Replay, recorded: Mapping[str, Any]) -> None:
    messages = [_with_our_texts(seen(message, {"timestamp"})) for message in replay.agent.state.messages]  # type: ignore[arg-type]
    assert messages == [_with_our_texts(seen(message, {"timestamp"})) for message in recorded["finalMessages"]]
    final = dict(recorded["finalState"])
    assert replay.agent.has_queued_messages == final.pop("hasQueuedMessages")
    assert replay._state() == final
    for ours, theirs in zip(replay.results, recorded["stepResults"], strict=True):
        if isinstance(theirs["result"], dict):
            theirs = {**theirs, "result": {**theirs["result"], "signal": bool(theirs["result"]["signal"])}}
        assert ours == theirs
    tried = [record["tried"] for record in replay.trace if "tried" in record]
    known = [record["result"] for record in recorded["trace"] if "tried" in record]
    assert len(tried) == len(known)
    for our_text, their_text in zip(tried, known, strict=True):
        assert our_text.split(".")[0] == their_text.split(".")[0]


@holds("AC-188", "host 5.2.7")
async def test_a_reset_during_a_run_is_refused_and_changes_nothing(autojump_clock: Any) -> None:
    recorded = load("agent", "59b-reset-during-run")
    replay = Replay(recorded["script"])
    await replay.play()
    assert {"refused": "E_AGENT_RUNNING"} in replay.trace
    told = [record["event"] for record in replay.trace if "event" in record]
    assert told == [record["event"] for record in recorded["trace"] if "event" in record]
    assert len(replay.agent.state.messages) == 2


@holds("host 5.4.1")
async def test_a_stop_hook_ends_the_run_before_any_queue_is_polled(autojump_clock: Any) -> None:
    recorded = load("agent", _LOW_LEVEL)
    asked = []

    async def stop(answer: Any, results: Any) -> bool:
        asked.append((answer["stopReason"], len(results)))
        await replay.agent.steer("not now")
        return True

    replay = Replay(recorded["script"], {"should_stop_after_turn": stop})
    await replay.play()
    told = [record["event"] for record in replay.trace if "event" in record]
    assert told == [record["event"] for record in recorded["trace"] if "event" in record]
    assert [seen(message) for message in replay.agent.state.messages] == recorded["result"]  # type: ignore[arg-type]
    assert asked == [("toolUse", 1)]
    assert replay.agent.queued("steering") != []


@holds("AC-197")
async def test_each_listener_ends_before_the_next_one_begins(autojump_clock: Any) -> None:
    recorded = load("agent", "46-slow-listeners")
    replay = Replay(recorded["script"])
    await replay.play()
    phases = [record for record in replay.trace if "listener" in record]
    assert phases == [record for record in recorded["trace"] if "listener" in record]
