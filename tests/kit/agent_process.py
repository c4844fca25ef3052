"""A program with an agent on a session file, to be killed: ``python -m kit.agent_process SESSION_FILE ROUND``.

It prints a line for each message whose queueing has been acknowledged, and goes on until it is killed.
"""

from __future__ import annotations

import sys
from typing import Any

import trio

from kit.agents import agent_of, calls, says, tool
from kit.session_files import PlainSession


async def live(path: str, round_number: str) -> None:
    session = PlainSession(path)
    turns: list[Any] = [calls("a", "a"), says("one"), says("two")] * 2_000
    agent = agent_of(*turns, tools=[tool("a")], recorder=session, messages=session.messages())
    async with agent, trio.open_nursery() as nursery:

        async def queue() -> None:
            for number in range(10_000):
                text = f"{round_number}.{number}"
                await (agent.steer(text) if number % 3 else agent.follow_up(text))
                print(text, flush=True)

        nursery.start_soon(queue)
        while True:
            await agent.prompt("go on")


if __name__ == "__main__":
    trio.run(live, *sys.argv[1:])
