"""Many answers that stream at the same time: through the client of models, and through a bare loop over httpx.

The server is a process of its own that knows HTTP as far as this needs it. All answers are under way at once: they are
sent in rounds of one piece each, a chunk of HTTP with one event in it, as servers of models do. Where the server is the
slower one the time until the end says little; so the processor time of the asking process is told beside it.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from ..agent import Agent, AgentEvent
from ..agent.model_stream import Model, ModelRequest
from ..models import ModelClient, open_model_client
from ..models.client import KEPT_CONNECTIONS_MAX
from .children import begin, started
from .figures import Figure, Reach
from .rates import Progress
from .scale import Scale

if TYPE_CHECKING:
    import httpx

_DELTA: Final = " word"
_CHUNK: Final = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_LONGEST: Final = 1.5
_SLOW_MEASURE: Final = 60.0

Ask = Callable[[], Awaitable[int]]


@attrs.frozen
class _Took:
    seconds: float
    processor_s: float


def streams(folder: str, scale: Scale, progress: Progress) -> list[Figure]:
    """The time until all answers are there, and the processor time that they cost."""
    with started("stream", [{"answers": scale.streams, "pieces": scale.pieces}]) as (child,):
        begin(child)
        assert child.stdout is not None
        port = int(child.stdout.readline())
        return trio.run(_measure, f"http://127.0.0.1:{port}/v1", scale, progress)


async def _measure(base_url: str, scale: Scale, progress: Progress) -> list[Figure]:
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS_MAX)
    took: dict[str, list[_Took]] = {"client": [], "agents": [], "bare": [], "lines": []}
    async with open_model_client() as client, httpx.AsyncClient(timeout=None, limits=limits) as http:
        asks: dict[str, Ask] = {
            "client": functools.partial(_through_client, client, base_url),
            "agents": functools.partial(_through_agent, client, base_url),
            "bare": functools.partial(_bare, http, base_url),
            "lines": functools.partial(_lines, http, base_url),
        }
        for round_number in range(-1, scale.rounds):  # the first one makes the connections, and does not count
            for name, ask in asks.items():
                progress(f"round {max(round_number + 1, 1)} of {scale.rounds}, {name}")
                found = await _all(ask, scale)
                if round_number >= 0:
                    took[name].append(found)
    whole = f"{scale.streams} {{}} of {scale.pieces} pieces at once, the peer a bare loop over httpx"
    figures = []
    for ours, name in (("client", "answers"), ("agents", "agents that stream answers")):
        rounds = [took[side] for side in (ours, "bare", "lines")]
        seconds = [[each.seconds for each in side] for side in rounds]
        used = [[each.processor_s for each in side] for side in rounds]
        figures += [
            _figure(whole.format(name), seconds, scale),
            _figure(f"processor time of {name}", used, scale),
        ]
    return figures


def _figure(name: str, took: Sequence[Sequence[float]], scale: Scale) -> Figure:
    ours, bare, lines = (statistics.median(rounds) for rounds in took)
    each = (ours - bare) / (scale.streams * scale.pieces)
    note = f"{each * 1e6:.3g} µs more for each piece; the second peer cuts lines and reads their JSON"
    reach = Reach(f"≤ {_LONGEST:g} x", at_most=_LONGEST)
    return Figure(name, "ms", ours * 1e3, reach, bare * 1e3, lines * 1e3, None, note)


async def _all(ask: Ask, scale: Scale) -> _Took:
    """Ask for all answers at the same time; what it took until the last one was whole."""
    counts: list[int] = []

    async def one() -> None:
        counts.append(await ask())

    before, used = time.perf_counter(), time.process_time()
    with trio.fail_after(_SLOW_MEASURE):
        async with trio.open_nursery() as nursery:
            for _ in range(scale.streams):
                nursery.start_soon(one)
    took = _Took(time.perf_counter() - before, time.process_time() - used)
    assert all(count >= scale.pieces for count in counts), counts
    return took


async def _through_client(client: ModelClient, base_url: str) -> int:
    model = Model("m", "bench", "openai-completions", base_url=base_url)
    request = ModelRequest("", [{"role": "user", "content": "go", "timestamp": 1}], [])
    count = 0
    async with client(model, request) as events:
        async for event in events:
            if event["type"] == "text_delta":
                count += 1
    return count


async def _through_agent(client: ModelClient, base_url: str) -> int:
    count = 0

    def listen(event: AgentEvent, signal: object) -> None:
        nonlocal count
        if event["type"] == "message_update" and event["assistantMessageEvent"]["type"] == "text_delta":
            count += 1

    agent = Agent(model=Model("m", "bench", "openai-completions", base_url=base_url), stream_fn=client)
    agent.subscribe(listen)
    await agent.prompt("go")
    return count


async def _bare(http: httpx.AsyncClient, base_url: str) -> int:
    count = 0
    async with http.stream("POST", f"{base_url}/chat/completions", json={"model": "m", "stream": True}) as response:
        async for _ in response.aiter_raw():
            count += 1
    return count


async def _lines(http: httpx.AsyncClient, base_url: str) -> int:
    count = 0
    async with http.stream("POST", f"{base_url}/chat/completions", json={"model": "m", "stream": True}) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                json.loads(line[6:])
                count += 1
    return count


# -- the other process ------------------------------------------------------------------------------------------------


async def stream(answers: int, pieces: int) -> Any:
    """The job of the server: serve until the benchmark is done with it and ends it."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    sys.stdout.write(f"{listener.socket.getsockname()[1]}\n")
    sys.stdout.flush()
    rounds = _Rounds(answers)
    await trio.serve_listeners(functools.partial(_serve, _answer(pieces), rounds), [listener])


class _Rounds:
    """Lets answers go on together: the next piece of each goes out when all have sent theirs."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._there = 0
        self._next = trio.Event()

    async def wait(self) -> None:
        self._there += 1
        if self._there == self._answers:
            self._there = 0
            self._next.set()
            self._next = trio.Event()
            await trio.lowlevel.checkpoint()
        else:
            await self._next.wait()


def _answer(pieces: int) -> list[bytes]:
    chunks: list[dict[str, Any]] = [
        {**_CHUNK, "choices": [{"index": 0, "delta": {"content": _DELTA}, "finish_reason": None}]}
        for _ in range(pieces)
    ]
    chunks.append({**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    texts = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks] + [b"data: [DONE]\n\n"]
    return [b"%x\r\n%s\r\n" % (len(text), text) for text in texts] + [b"0\r\n\r\n"]


async def _serve(answer: Sequence[bytes], rounds: _Rounds, stream: trio.SocketStream) -> None:
    waiting = b""
    while True:
        while b"\r\n\r\n" not in waiting:
            if not (data := await stream.receive_some()):
                return
            waiting += data
        head, _, waiting = waiting.partition(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(waiting) < int(length.partition(b":")[2]):
            waiting += await stream.receive_some()
        waiting = b""
        await stream.send_all(_HEAD)
        for piece in answer:
            await rounds.wait()
            await stream.send_all(piece)
