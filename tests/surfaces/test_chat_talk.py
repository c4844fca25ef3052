"""A chat without a process around it: what happens in moments that no keyboard meets. Virtual time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kit.chats import says
from strataflow.agent import Agent, AgentEvent, Tool, scripted_model
from strataflow.runtime import Session
from strataflow.runtime.resources import Resources
from strataflow.runtime.surfaces.chat_events import Telling
from strataflow.runtime.surfaces.chat_screen import Screen
from strataflow.runtime.surfaces.chat_talk import Chat
from strataflow.runtime.surfaces.line_streams import ByteWriter, LineReader

PIPE_BYTES = 1 << 16


@attrs.define
class Talk:
    """A chat that runs, and both ends of its pipes. ``rest``: what it showed last."""

    chat: Chat
    lines: int
    shown: int
    code: int | None = None
    rest: str = ""

    async def type(self, line: str) -> None:
        os.write(self.lines, line.encode() + b"\n")
        await wait_all_tasks_blocked(0.01)

    def seen(self) -> str:
        return os.read(self.shown, PIPE_BYTES).decode()


@asynccontextmanager
async def talking(agent: Agent, *, is_typed: bool = True) -> AsyncIterator[Talk]:
    """A chat for the body; its input ends with it, and then it has to end too."""
    lines_out, lines_in = os.pipe()
    shown_out, shown_in = os.pipe()
    screen = Screen(ByteWriter(shown_in), ByteWriter(os.dup(shown_in)))
    reader, telling = LineReader(lines_out), Telling(screen)
    agent.subscribe(telling.hear)
    chat = Chat(agent, cast(Session, None), screen, reader, telling, Resources("/"), is_typed)
    talk = Talk(chat, lines_in, shown_out)

    async def run() -> None:
        async with agent:
            talk.code = await chat.run()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await wait_all_tasks_blocked(0.01)
        yield talk
        os.close(lines_in)
    talk.rest = talk.seen()
    screen.close()
    reader.close()
    os.close(shown_out)


async def test_what_is_queued_in_the_moment_in_which_a_run_ends_is_answered() -> None:
    agent = Agent(stream_fn=scripted_model([says("One."), says("Two."), says("Three.")]))
    late = ["by the way", "and another"]

    async def queue_late(event: AgentEvent, signal: Any) -> None:
        if event["type"] == "agent_end" and late:
            await agent.follow_up(late.pop(0))

    agent.subscribe(queue_late)
    async with talking(agent) as talk:
        await talk.type("Hello")
        await talk.chat._idle.wait()
        seen = talk.seen()
    assert seen.index("One.") < seen.index("» by the way") < seen.index("Two.") < seen.index("Three.")
    assert talk.code == 0


async def test_lines_in_one_piece_never_begin_two_runs() -> None:
    agent = Agent(stream_fn=scripted_model([says("One."), says("Two."), says("Three.")]))
    async with talking(agent) as talk:
        await talk.type("a\nb\n/steer c")
        await talk.chat._idle.wait()
    texts = [message["content"] for message in agent.state.messages if message["role"] == "user"]  # type: ignore[index]
    assert [text[0]["text"] if isinstance(text, list) else text for text in texts] == ["a", "c", "b"]
    assert talk.code == 0


async def test_a_tool_that_ignores_the_abort_does_not_keep_the_chat(autojump_clock: MockClock) -> None:
    async def hang(call_id: str, arguments: Any, signal: Any, on_update: Any) -> str:
        await trio.sleep_forever()
        raise AssertionError

    call = {"blocks": [{"type": "toolCall", "id": "c1", "name": "hang", "arguments": {}}]}
    tool = Tool("hang", "Hangs.", {"type": "object"}, hang)
    agent = Agent(stream_fn=scripted_model([call]), tools=[tool])
    async with talking(agent) as talk:
        await talk.type("Hang")
        began = trio.current_time()
    assert trio.current_time() - began < 6
    assert talk.code == 0
    roles = [message["role"] for message in agent.state.messages]  # type: ignore[index]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert talk.rest.endswith(f"{agent.state.error}\n")


async def test_a_screen_that_nobody_reads_ends_the_chat_once_and_is_left_in_peace() -> None:
    agent = Agent(stream_fn=scripted_model([says("One."), says("Two.")]))
    async with talking(agent) as talk:
        assert talk.seen()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, talk.shown)
        os.close(nothing)
        await talk.type("Hello")
    assert talk.code == 1
    assert talk.chat.screen.is_lost
