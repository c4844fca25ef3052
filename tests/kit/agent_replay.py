"""Plays a recorded scenario of the original agent against ours, and writes down the same trace.

``script`` says what the model gives, what the tools do, and what is done when; ``trace`` is what happened. To be played
under ``autojump_clock``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from strataflow.agent import (
    AbortSignal,
    Agent,
    AgentError,
    Block,
    Model,
    ModelRequest,
    StreamEvent,
    StreamOptions,
    Tool,
    ToolCallContext,
    ToolResult,
    scripted_model,
)

FOLDER = Path(__file__).parent.parent / "conformance" / "pi"
FAUX = Model(id="faux-1", provider="faux", api="faux")
# What the recorder of the original left out of messages.
_HIDDEN = {"timestamp", "api", "provider", "model", "usage", "responseId"}
_ALL_OF_IT = {"timestamp"}


def scenarios(folder: str) -> list[str]:
    return sorted(path.name.removesuffix(".scenario.json") for path in (FOLDER / folder).glob("*.scenario.json"))


def load(folder: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / folder / f"{name}.scenario.json").read_text())
    return found


def seen(message: Mapping[str, Any], hidden: set[str] = _HIDDEN) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in hidden}


def plain(value: Any) -> Any:
    """A detached copy: what happens later must not change what was written down."""
    return json.loads(json.dumps(value))


@attrs.define(eq=False)
class Replay:
    """One scenario being played."""

    script: Mapping[str, Any]
    options: Mapping[str, Any] = attrs.field(factory=dict)
    trace: list[dict[str, Any]] = attrs.field(factory=list)
    results: list[dict[str, Any]] = attrs.field(factory=list)
    agent: Agent = attrs.field(init=False)
    _nursery: trio.Nursery = attrs.field(init=False)
    _counts: Counter[str] = attrs.field(factory=Counter)
    _calls: int = 0

    def __attrs_post_init__(self) -> None:
        given = self.script.get("agent", {})
        settings: dict[str, Any] = {
            "model": FAUX,
            "system_prompt": given.get("systemPrompt", ""),
            "thinking_level": given.get("thinkingLevel", "off"),
            "tools": [self._tool(tool) for tool in self.script.get("tools", [])],
            "messages": [_whole(message) for message in self.script.get("initialMessages", [])],
            "stream_fn": self._stream,
            "steering_mode": given.get("steeringMode", "one-at-a-time"),
            "follow_up_mode": given.get("followUpMode", "one-at-a-time"),
            "tool_execution": given.get("toolExecution", "parallel"),
            "session_id": given.get("sessionId"),
            "thinking_budgets": given.get("thinkingBudgets"),
        }
        if "maxRetryDelayMs" in given:
            settings["max_retry_delay_s"] = given["maxRetryDelayMs"] / 1000
        if "apiKey" in given:
            settings["get_api_key"] = partial(self._key, given["apiKey"])
        for name, hook in (
            ("beforeToolCall", self._before),
            ("afterToolCall", self._after),
            ("transformContext", self._transform),
            ("convertToLlm", self._convert),
        ):
            if name in given:
                settings[_snake(name)] = partial(hook, given[name])
        self.agent = Agent(**settings | self.options)
        self.agent.subscribe(self._listen)
        for listener in self.script.get("extraListeners", []):
            self.agent.subscribe(partial(self._listen_too, listener))

    async def play(self) -> None:
        async with trio.open_nursery() as self._nursery:
            for step in self.script["steps"]:
                self.trace.append({"step": step["do"]})
                result = await self._step(step)
                self.results.append({"step": step["do"], "result": result})
                self.trace.append({"stepResult": step["do"]})
            self._nursery.cancel_scope.cancel()

    async def _step(self, step: Mapping[str, Any]) -> Any:
        match step["do"]:
            case "prompt" | "agentLoop":
                given = step.get("messages", step.get("message", step.get("text")))
                return await self._tried(partial(self.agent.prompt, given, step.get("images", ())))
            case "continue":
                return await self._tried(self.agent.continue_)
            case "waitForIdle":
                return await self._tried(self.agent.wait_for_idle)
            case "recordState":
                state = self.agent.state
                return self._state() | {
                    "hasQueued": self.agent.has_queued_messages,
                    "systemPrompt": state.system_prompt,
                    "thinkingLevel": state.thinking_level,
                    "tools": [tool.name for tool in state.tools],
                    "signal": self.agent.signal is not None,
                }
        await self._act(step)
        return "ok"

    async def _tried(self, call: Any) -> str:
        try:
            await call()
        except AgentError as error:
            return f"rejected: {error.message}"
        return "resolved"

    async def _act(self, action: Mapping[str, Any]) -> None:
        agent, message = self.agent, action.get("message", action.get("text"))
        self.trace.append({"action": action["do"]})
        match action["do"]:
            case "steer":
                await agent.steer(message)
            case "followUp":
                await agent.follow_up(message)
            case "clearSteeringQueue":
                await agent.clear_steering_queue()
            case "clearFollowUpQueue":
                await agent.clear_follow_up_queue()
            case "abort":
                agent.abort()
            case "scheduleAbort":
                self._nursery.start_soon(self._abort_later, action["ms"])
            case "tryPrompt":
                self.trace.append({"tried": await self._tried(partial(agent.prompt, message))})
            case "tryContinue":
                self.trace.append({"tried": await self._tried(agent.continue_)})
            case "reset":
                try:
                    await agent.reset()
                except AgentError as error:
                    self.trace.append({"refused": error.code})
            case "setModel":
                agent.set_model(attrs.evolve(FAUX, id=action["id"]))
            case "setSystemPrompt":
                agent.set_system_prompt(action["text"])
            case "setThinkingLevel":
                agent.set_thinking_level(action["level"])
            case "appendStateMessage":
                text = {"type": "text", "text": action["text"]}
                agent.append_message({"role": "user", "content": [text], "timestamp": 0})  # type: ignore[typeddict-item]
            case other:
                raise AssertionError(other)

    async def _abort_later(self, delay_ms: int) -> None:
        await trio.sleep(delay_ms / 1000)
        self.trace.append({"action": "abort"})
        self.agent.abort()

    # -- what the agent calls ------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        state = self.agent.state
        shown: Any = state.stream_message
        return {
            "streaming": state.is_streaming,
            "partial": None if shown is None else shown["role"],
            "pending": sorted(state.pending_tool_calls),
            "n": len(state.messages),
            "error": state.error,
        }

    async def _listen(self, event: Any, signal: AbortSignal) -> None:
        kind = event["type"]
        record: dict[str, Any] = {"event": kind, **{key: value for key, value in event.items() if key != "type"}}
        if "message" in record:
            record["message"] = seen(record["message"])
        for name in ("messages", "toolResults"):
            if name in record:
                record[name] = [seen(message) for message in record[name]]
        if "assistantMessageEvent" in record:
            record["assistantMessageEvent"] = seen(record["assistantMessageEvent"], {"partial"})
        record["state"] = self._state()
        self.trace.append(plain(record))
        self._counts[kind] += 1
        for rule in self.script.get("onEvent", []):
            if (rule["type"], rule["nth"]) == (kind, self._counts[kind]):
                for action in rule["actions"]:
                    await self._act(action)

    async def _listen_too(self, listener: Mapping[str, Any], event: Any, signal: AbortSignal) -> None:
        kind = event["type"]
        if kind not in listener["only"]:
            return
        self.trace.append({"listener": listener["name"], "event": kind, "phase": "begin"})
        if listener.get("throwOn") == kind:
            raise RuntimeError(f"listener {listener['name']} failed")
        await trio.sleep(listener.get("delayMs", 0) / 1000)
        self.trace.append({"listener": listener["name"], "event": kind, "phase": "end"})

    def _stream(self, model: Model, request: ModelRequest, options: StreamOptions) -> Any:
        index, self._calls = self._calls, self._calls + 1
        retry_s = options.max_retry_delay_s
        record = {
            "call": "stream",
            "index": index,
            "systemPrompt": request.system_prompt,
            "messages": [seen(message) for message in request.messages],
            "tools": [tool["name"] for tool in request.tools],
            "options": {
                "reasoning": options.reasoning,
                "apiKey": options.api_key,
                "sessionId": options.session_id,
                "thinkingBudgets": options.thinking_budgets,
                "transport": options.transport,
                "maxRetryDelayMs": None if retry_s is None else round(retry_s * 1000),
                "hasSignal": True,
                "signalAborted": trio.current_effective_deadline() == float("-inf"),
            },
            "modelId": model.id,
        }
        self.trace.append(plain(record))
        turn = dict(self.script["turns"][index])
        if "throw" in turn:
            raise ConnectionError(turn["throw"])
        left_out = []
        if turn.pop("noStart", False):
            left_out = ["start", "text_start", "text_delta", "text_end"]
        if turn.pop("endWithoutDone", False):
            left_out = ["done"]
        return _without(left_out, scripted_model([turn])(model, request, options))

    def _tool(self, tool: Mapping[str, Any]) -> Tool:
        renamed = tool.get("prepareArguments")

        def prepare(arguments: Any) -> Any:
            return {renamed["to"] if key == renamed["rename"] else key: value for key, value in arguments.items()}

        schema = tool.get("parameters", {"type": "object", "properties": {}})
        run = partial(self._execute, tool["name"])
        return Tool(tool["name"], "a tool", schema, run, prepare_arguments=prepare if renamed else None)

    async def _execute(self, name: str, call_id: str, arguments: Any, signal: AbortSignal, update: Any) -> ToolResult:
        rule = self.script.get("toolCalls", {}).get(call_id, {})
        record = {"call": "tool", "id": call_id, "name": name, "params": plain(arguments)}
        self.trace.append({**record, "signalAborted": signal.is_set})
        for action in rule.get("onStart", []):
            await self._act(action)
        if rule.get("waitAbort"):
            await signal.wait()
            self.trace.append({"call": "tool_saw_abort", "id": call_id})
        await trio.sleep(rule.get("delayMs", 0) / 1000)
        if "throw" in rule:
            raise RuntimeError(rule["throw"])
        text = rule.get("text", f"{name}:{json.dumps(arguments, separators=(',', ':'))}")
        result: ToolResult = {"content": [{"type": "text", "text": text}], "details": {"id": call_id}}
        if "terminate" in rule:
            result["terminate"] = rule["terminate"]
        return result

    async def _before(self, rules: Mapping[str, Any], context: ToolCallContext) -> Block | None:
        call_id = context.call["id"]
        roles = [message["role"] for message in context.messages]  # type: ignore[index]
        self.trace.append(
            {"call": "beforeToolCall", "id": call_id, "args": plain(context.arguments), "contextRoles": roles}
        )
        rule = rules.get(call_id, {})
        if "throw" in rule:
            raise RuntimeError(rule["throw"])
        found = rule.get("return")
        return Block(found.get("reason")) if found and found["block"] else None

    async def _after(self, rules: Mapping[str, Any], context: ToolCallContext) -> Any:
        call_id = context.call["id"]
        record = {"call": "afterToolCall", "id": call_id, "isError": context.is_error}
        self.trace.append({**record, "result": plain(context.result)})
        rule = rules.get(call_id, {})
        if "throw" in rule:
            raise RuntimeError(rule["throw"])
        return rule.get("return")

    async def _transform(self, rule: Mapping[str, Any], messages: list[Any], signal: AbortSignal) -> list[Any]:
        kept = messages[-rule["keepLast"] :]
        if "prependUser" in rule:
            kept = [{"role": "user", "content": rule["prependUser"], "timestamp": 0}, *kept]
        record = {"call": "transformContext", "in": _roles(messages), "out": _roles(kept)}
        self.trace.append({**record, "hasSignal": isinstance(signal, AbortSignal)})
        return kept

    def _convert(self, rule: Mapping[str, Any], messages: Sequence[Any]) -> list[Any]:
        record: dict[str, Any] = {"call": "convertToLlm", "in": _roles(messages)}
        self.trace.append(record)
        if "throw" in rule:
            record["throws"] = rule["throw"]
            raise RuntimeError(rule["throw"])
        found = []
        for message in messages:
            if message["role"] == rule.get("attachmentRole"):
                text = f"File: {message['path']}\n\n{message['content']}"
                found.append({"role": "user", "content": text, "timestamp": 0})
            elif message["role"] in ("user", "assistant", "toolResult"):
                found.append(message)
        record["out"] = _roles(found)
        return found

    async def _key(self, key: str, provider: str) -> str:
        self.trace.append({"call": "getApiKey", "provider": provider})
        return key


@asynccontextmanager
async def _without(kinds: Sequence[str], call: Any) -> AsyncIterator[AsyncIterator[StreamEvent]]:
    async with call as events:

        async def left() -> AsyncIterator[StreamEvent]:
            async for event in events:
                if event["type"] not in kinds:
                    yield event

        yield left()


def _whole(message: Mapping[str, Any]) -> dict[str, Any]:
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    usage = {**dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0), "cost": cost}
    defaults = {"api": "faux", "provider": "faux", "model": "faux-1", "stopReason": "stop", "usage": usage}
    return {**(defaults if message["role"] == "assistant" else {}), **message, "timestamp": 0}


def _roles(messages: Sequence[Any]) -> list[str]:
    return [message["role"] for message in messages]


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
