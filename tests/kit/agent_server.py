"""An agent server as its users write one: Starlette under uvicorn, one memory, a session for each user.

Its model is scripted by the request. A request whose client leaves is cancelled. Besides, it tells tests how many
requests are under way and how many were withdrawn, and answers only once there are as many as they asked for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from strataflow import StrataflowError, aio

STORE_VARIABLE = "AGENT_SERVER_STORE"
CWD = "/srv/agents"


class Counts:
    """How many requests are under way, and how many were withdrawn."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._numbers = {"at_work": 0, "withdrawn": 0}

    async def add(self, name: str, number: int) -> None:
        self._numbers[name] += number
        async with self._changed:
            self._changed.notify_all()

    async def reach(self, name: str, number: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._numbers[name] >= number)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
    async with aio.open_runtime(store=os.environ[STORE_VARIABLE], durability="process") as runtime:
        yield {"runtime": runtime, "counts": Counts()}


async def session_of(request: Request) -> aio.Session:
    runtime: aio.Runtime = request.state.runtime
    return await runtime.open_session(CWD, request.path_params["user"], "active")


async def patch(request: Request) -> Response:
    given = await request.json()
    session = await session_of(request)
    return await while_connected(request, session.patch_state(session=given["patch"], request_id=given["request_id"]))


async def turn(request: Request) -> Response:
    given = await request.json()
    return await while_connected(request, agent_turn(await session_of(request), given))


async def agent_turn(session: aio.Session, given: Any) -> Any:
    """One run of the agent; its model does what the request says."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": given["prompt"], "timestamp": 1}]
    async with session.run(given["prompt"]) as run:
        for number, arguments in enumerate(given["patches"]):
            await run.project(messages)
            call = {"type": "toolCall", "id": f"c{number}", "name": "patch_state", "arguments": arguments}
            messages.append({"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": 2})
            assert not any(verdict.block for verdict in run.preflight(messages[-1]))
            result = await session.call("patch_state", arguments, call_id=call["id"])
            messages.append({"role": "toolResult", "toolCallId": call["id"], "content": str(result), "timestamp": 3})
        await run.project(messages)
        return await run.finish(given["answer"])


async def memory(request: Request) -> Response:
    session = await session_of(request)
    found = await session.read_state(paths=["global", "cwd", "session"])
    return JSONResponse(found.value)


async def outcome(request: Request) -> Response:
    found = await request.state.runtime.outcome(request.path_params["request_id"])
    return JSONResponse(found.to_json())


async def until(request: Request) -> Response:
    await request.state.counts.reach(request.path_params["name"], int(request.path_params["number"]))
    return JSONResponse({})


async def while_connected(request: Request, work: Coroutine[Any, Any, Any]) -> Response:
    """Answer with what ``work`` gives. If the client leaves, it is cancelled, and has ended before this returns."""
    counts: Counts = request.state.counts
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(disconnected(request))
    await counts.add("at_work", 1)
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
        if not task.done():
            task.cancel()
        await asyncio.wait({task, left})
        await counts.add("at_work", -1)
    if task.cancelled():
        await counts.add("withdrawn", 1)
        return Response(status_code=499)
    error = task.exception()
    if isinstance(error, StrataflowError):
        return JSONResponse({"code": error.code, "text": str(error)}, status_code=409)
    return JSONResponse((await task).to_json())


async def disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/patch/{user}", patch, methods=["POST"]),
        Route("/turn/{user}", turn, methods=["POST"]),
        Route("/memory/{user}", memory),
        Route("/outcome/{request_id}", outcome),
        Route("/until/{name}/{number:int}", until),
    ],
)
