"""Whole sessions of the original application, played again: what is told, what is written, what the model would see.

The recordings have no script: prompts and answers are taken from the written file. Ids and times are the recorder's;
everything else of the file is compared line by line. What memory writes of its own is left out.
Time is that of a MockClock.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.agents import tool
from kit.holds import holds
from kit.simulated_runtimes import run_seeded
from kit.wired_agents import SCRIPTED, Wired, is_ours, lines_of, type_of, wired
from strataflow.agent import (
    AgentError,
    ConversationRules,
    Model,
    ModelRequest,
    RetrySettings,
    StreamOptions,
    scripted_model,
)
from strataflow.compaction import CompactionError, CompactionSettings
from strataflow.resources import Resources, parse_skill, parse_template
from strataflow.runtime.simulation.seams import SimulatedMachine

FOLDER = Path(__file__).parent / "pi" / "e2e"
KEEP = ConversationRules(compaction=CompactionSettings(keep_recent_tokens=50))


class Recorded:
    """One recording."""

    def __init__(self, name: str) -> None:
        self.expected: dict[str, Any] = json.loads((FOLDER / f"{name}.expected.json").read_text())
        self.lines = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().split("\n") if line]
        messages = [line["message"] for line in self.lines if line["type"] == "message"]
        self.prompts = ["".join(b["text"] for b in m["content"]) for m in messages if m["role"] == "user"]
        self.turns = [_turn(message) for message in messages if message["role"] == "assistant"]


def _turn(message: Mapping[str, Any]) -> dict[str, Any]:
    found = {"blocks": message["content"], "stopReason": message["stopReason"], "usage": message["usage"]}
    return found | ({"errorMessage": message["errorMessage"]} if "errorMessage" in message else {})


def summary(text: str) -> dict[str, Any]:
    return {"blocks": [{"type": "text", "text": text}]}


async def tool_turn(recorded: Recorded, machine: SimulatedMachine) -> Wired:
    async def read(signal: Any) -> Any:
        return {"content": [{"type": "text", "text": "alpha\nbeta\n"}]}

    async with wired(machine, recorded.turns, mode="off", tools=[tool("read", read)]) as found:
        await found.agent.prompt(recorded.prompts[0])
    return found


async def abort_turn(recorded: Recorded, machine: SimulatedMachine) -> Wired:
    quick = scripted_model(recorded.turns)

    @asynccontextmanager
    async def slow_at_first(model: Any, request: Any, options: Any) -> AsyncIterator[Any]:
        async with quick(model, request, options) as events:
            yield _stopping(events) if len(quick.requests) == 1 else events

    options: dict[str, Any] = {"mode": "off", "stream_fn": slow_at_first}
    async with wired(machine, **options) as found, trio.open_nursery() as nursery:
        nursery.start_soon(found.agent.prompt, recorded.prompts[0])
        await trio.sleep(1)
        assert found.agent.state.is_streaming is recorded.expected["wasStreaming"]
        with pytest.raises(AgentError, match="Agent is already processing"):
            await found.agent.prompt("not now")
        found.agent.abort()
        await found.agent.wait_for_idle()
        await found.agent.prompt(recorded.prompts[1])
    return found


async def _stopping(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The beginning of an answer, with the usage that the recorder saw; then nothing."""
    async for event in events:
        yield event
        await trio.sleep_forever()


async def auto_retry(recorded: Recorded, machine: SimulatedMachine) -> Wired:
    async with wired(machine, recorded.turns, mode="off") as found:
        began = trio.current_time()
        await found.agent.prompt(recorded.prompts[0])
        assert trio.current_time() - began >= 2 + 4  # host 5.8.5
    return found


async def compact_empty(recorded: Recorded, machine: SimulatedMachine) -> Wired:
    async with wired(machine, mode="off") as found:
        with pytest.raises(CompactionError, match="Nothing to compact"):
            await found.agent.compact()
    return found


async def custom_and_name(recorded: Recorded, machine: SimulatedMachine) -> Wired:
    models = [Model(f"faux-{number}", "faux", "faux", reasoning=True, context_window=128_000) for number in (1, 2)]
    async with wired(machine, recorded.turns, mode="off", model=models[0], thinking_level="medium") as found:
        agent = found.agent
        await agent.prompt(recorded.prompts[0])
        note: Any = {"role": "custom", "customType": "policy", "content": "frozen", "display": False, "timestamp": 1}
        await agent.insert({**note, "details": {"a": 1}})
        await agent.set_session_name("My session")
        agent.set_thinking_level("high")
        agent.set_thinking_level("high")
        agent.set_model(models[1])
        agent.attach({**note, "customType": "aside", "content": "next turn note", "display": True})
        await agent.prompt(recorded.prompts[1])
    return found


async def manual_compaction(recorded: Recorded, machine: SimulatedMachine) -> Wired:
    history, prefix = (scripted_model([summary(text)]) for text in ("SUMMARY", "PREFIX SUMMARY"))

    def asked_for_summaries(model: Model, request: ModelRequest, options: StreamOptions) -> Any:
        # Both are asked for at the same time, in whatever order; that of the prefix may be shorter.
        is_prefix = options.max_tokens == KEEP.compaction.reserve_tokens // 2
        return (prefix if is_prefix else history)(model, request, options)

    async with wired(machine, recorded.turns, mode="off", rules=KEEP) as found:
        for prompt in recorded.prompts[:2]:
            await found.agent.prompt(prompt)
        found.agent.stream_fn = asked_for_summaries
        compaction = await found.agent.compact()
        found.agent.stream_fn = found.model
        expected = recorded.expected["compactResult"]
        assert (compaction.summary, compaction.tokens_before) == (_ours(expected["summary"]), expected["tokensBefore"])
        with pytest.raises(CompactionError, match=recorded.expected["secondCompactError"]):
            await found.agent.compact()
        await found.agent.prompt(recorded.prompts[2])
    return found


async def overflow_recovery(recorded: Recorded, machine: SimulatedMachine) -> Wired:
    turns = [*recorded.turns[:2], summary("OVERFLOW SUMMARY"), recorded.turns[2]]
    async with wired(machine, turns, mode="off", rules=KEEP) as found:
        for prompt in recorded.prompts:
            await found.agent.prompt(prompt)
    return found


async def skill_and_template(recorded: Recorded, machine: SimulatedMachine) -> Wired:
    path = "/project-root/skill-and-template/agent/skills/greet/SKILL.md"
    text = "---\nname: greet\ndescription: Greets\n---\nSay hello to the user.\n"
    skill, _ = parse_skill(path, text)
    template = parse_template("/p/fix.md", "Fix $1 because $2.\n")
    assert skill is not None
    resources = Resources("/project", skills=(skill,), templates=(template,))
    typed = ["/skill:greet Anna", '/fix a.txt "it is broken"', "/skill:unknown q"]
    async with wired(machine, recorded.turns, mode="off", expand=resources.expand) as found:
        for text in typed:
            await found.agent.prompt(text)
    return found


STORIES = {
    "tool-turn": tool_turn,
    "abort-turn": abort_turn,
    "auto-retry": auto_retry,
    "compact-empty": compact_empty,
    "custom-and-name": custom_and_name,
    "manual-compaction": manual_compaction,
    "overflow-recovery": overflow_recovery,
    "skill-and-template": skill_and_template,
}


def test_every_recording_is_played() -> None:
    assert {path.name.removesuffix(".jsonl") for path in FOLDER.glob("*.jsonl")} == STORIES.keys()


@pytest.mark.parametrize("name", sorted(STORIES))
@holds("AC-121", "AC-123", "AC-147", "AC-204", "AC-206", "AC-207", "host 2.7.1", "host 2.7.2", "host 2.7.4")
@holds("host 3.2.8", "host 3.3.2", "host 5.8.5")
def test_a_session_tells_and_writes_what_the_original_did(name: str) -> None:
    recorded, machine = Recorded(name), SimulatedMachine()

    async def play() -> tuple[Wired, list[dict[str, Any]], list[str]]:
        found = await STORIES[name](recorded, machine)
        return found, lines_of(machine, found.session), await _context_roles(machine)

    found, lines, roles = run_seeded(1, play)
    expected = recorded.expected
    own = _chained([line for line in lines[1:] if not is_ours(line)])
    assert [type_of(line) for line in own] == expected["entryTypes"]
    if recorded.lines:
        assert [_normal(line) for line in own] == [_normal(line) for line in _chained(recorded.lines[1:])]
    assert [_told(event) for event in found.told if event["type"] != "message_update"] == [
        _told(event) for event in expected["events"]
    ]
    assert [_seen(message) for message in found.agent.state.messages] == [_seen(m) for m in expected["agentMessages"]]
    assert roles == expected["contextRoles"]


async def _context_roles(machine: SimulatedMachine) -> list[str]:
    async with wired(machine, mode="off", process="later") as found:
        assert found.session.tree is not None
        context = await found.session.tree.build_session_context()
        return [message["role"] for message in context.messages]


def _chained(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries with numbers for ids; the parent of each is the one before."""
    numbers = {line["id"]: number for number, line in enumerate(lines)}
    found = []
    for number, line in enumerate(lines):
        more = {"firstKeptEntryId": numbers[line["firstKeptEntryId"]]} if "firstKeptEntryId" in line else {}
        found.append({**line, "id": number, "parentId": number - 1, "timestamp": "", **more})
    return found


def _normal(line: dict[str, Any]) -> Any:
    text = json.dumps(line)
    found = json.loads(text)
    if isinstance(found.get("message"), dict):
        for member in ("timestamp", "api", "provider", "details"):
            found["message"].pop(member, None)
        if found["message"]["role"] == "user":
            found["message"]["content"] = _ours(found["message"]["content"][0]["text"])
    found.pop("usage", None)  # of the summaries, which later releases write too (host 1.4)
    if "summary" in found:
        found["summary"] = _ours(found["summary"])
    return found


def _ours(text: str) -> str:
    """A text of the recording with our wording where the recording has a mark for it."""
    lines = text.split("\n")
    if text.startswith("<skill") and len(lines) > 1:
        lines[1] = "…"
    return "\n".join(lines)


def _told(event: Mapping[str, Any]) -> dict[str, Any]:
    kind = event["type"]
    found: dict[str, Any] = {"type": kind}
    if "message" in event and kind in ("message_start", "message_end", "turn_end"):
        found["message"] = _seen(event["message"], only_role=kind == "message_start")
    if kind == "agent_end":
        found["messages"] = [_seen(message) for message in event["messages"]]
    for name in ("toolCallId", "toolName", "isError", "attempt", "success", "reason", "aborted", "willRetry", "level"):
        if name in event:
            found[name] = event[name]
    return found


def _seen(message: Any, *, only_role: bool = False) -> dict[str, Any]:
    if only_role and message["role"] == "assistant":
        return {"role": "assistant"}  # the recorder saw it later than it was told
    found = {name: message[name] for name in ("role", "stopReason", "isError") if name in message}
    text = message.get("text", message.get("summary", message.get("content")))
    if isinstance(text, list):
        parts = [block["text"] if "text" in block else f"<toolCall {block['name']}>" for block in text]
        text = "|".join(parts) if message["role"] == "assistant" else "".join(parts)
    return found | {"text": _ours(text)[:70]}


def test_other_settings_of_retries_are_obeyed() -> None:
    async def play() -> None:
        failing = [{"stopReason": "error", "errorMessage": "529 overloaded"}] * 4
        rules = ConversationRules(retry=RetrySettings(attempts=1, first_delay_s=7))
        async with wired(SimulatedMachine(), failing, mode="off", model=SCRIPTED, rules=rules) as found:
            await found.agent.prompt("go")
            assert trio.current_time() >= 7
            assert found.told[-1] == {
                "type": "auto_retry_end",
                "success": False,
                "attempt": 1,
                "finalError": "529 overloaded",
            }
            assert found.agent.state.error == "529 overloaded"

    run_seeded(1, play)
