"""A model server for tests, in the test's own loop, on a real socket. It speaks whichever wire format it is asked in,
and plays what the test has put into its queue, request by request."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import h11
import trio

from kit.model_wires import Block, WireName, error_body, stream_of

PATHS: Mapping[str, WireName] = {
    "/v1/chat/completions": "openai-completions",
    "/v1/messages": "anthropic-messages",
}
SSE = (("content-type", "text/event-stream; charset=utf-8"), ("transfer-encoding", "chunked"))
PATIENCE_S = 30.0


@attrs.define(eq=False)
class Exchange:
    """One request as it came, and the means to answer it."""

    path: str
    headers: dict[str, str]
    body: Any
    wire: WireName
    _stream: trio.SocketStream
    _http: h11.Connection
    left: trio.Event = attrs.field(factory=trio.Event)  # the client is gone before its answer was whole

    async def head(self, status: int = 200, headers: tuple[tuple[str, str], ...] = SSE) -> None:
        await self._send(h11.Response(status_code=status, headers=list(headers)))

    async def piece(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def cut(self) -> None:
        """Be gone in the middle of the answer."""
        await self._stream.aclose()

    async def wait_left(self) -> None:
        """Wait for the client to be gone."""
        try:
            while await self._stream.receive_some():
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.left.set()

    async def _send(self, event: h11.Event) -> None:
        if data := self._http.send(event):
            await self._stream.send_all(data)


Play = Callable[[Exchange], Awaitable[None]]


@attrs.define(eq=False)
class ModelServer:
    """Where it is, what it will play, and what it has seen."""

    address: str
    plays: deque[Play] = attrs.field(factory=deque)
    exchanges: list[Exchange] = attrs.field(factory=list)
    connections: int = 0
    _arrived: trio.Event = attrs.field(factory=trio.Event)

    def base_url(self, wire: WireName) -> str:
        """The address as each provider's people give it."""
        return f"{self.address}/v1" if wire == "openai-completions" else self.address

    async def wait_asked(self, count: int = 1) -> Exchange:
        """Wait until so many requests have come: the last of them."""
        with trio.fail_after(PATIENCE_S):
            while len(self.exchanges) < count:
                await self._arrived.wait()
        return self.exchanges[count - 1]

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection."""
        self.connections += 1
        http = h11.Connection(h11.SERVER)
        try:
            while (request := await _next(stream, http)) is not None:
                head, data = request
                path = head.target.decode()
                headers = {name.decode(): value.decode() for name, value in head.headers}
                exchange = Exchange(path, headers, json.loads(data), PATHS[path], stream, http)
                self.exchanges.append(exchange)
                self._arrived.set()
                self._arrived = trio.Event()
                await self.plays.popleft()(exchange)
                if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                    return
                http.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)


async def _next(stream: trio.SocketStream, http: h11.Connection) -> tuple[h11.Request, bytes] | None:
    head, data = None, b""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            data += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            return head, data
        else:
            return None


@asynccontextmanager
async def model_server(*plays: Play) -> AsyncIterator[ModelServer]:
    """A server for the body."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        host, port = listener.socket.getsockname()
        server = ModelServer(f"http://{host}:{port}", deque(plays))
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


# -- plays ------------------------------------------------------------------------------------------------------------


def answers(*blocks: Block, stop: str = "") -> Play:
    """Answer with these blocks, whole."""

    async def play(exchange: Exchange) -> None:
        await exchange.head()
        for piece in stream_of(exchange.wire, blocks, stop):
            await exchange.piece(piece)
        await exchange.end()

    return play


def sends(data: Callable[[WireName], list[bytes]], *, then: str = "end") -> Play:
    """Send these pieces of a stream, then ``end`` it, ``cut`` the connection, or ``wait`` for the client to leave."""

    async def play(exchange: Exchange) -> None:
        await exchange.head()
        for piece in data(exchange.wire):
            await exchange.piece(piece)
        await {"end": exchange.end, "cut": exchange.cut, "wait": exchange.wait_left}[then]()

    return play


def refuses(status: int, kind: str, message: str, **headers: str) -> Play:
    """Answer with an error in the wire's form."""

    async def play(exchange: Exchange) -> None:
        body = json.dumps(error_body(exchange.wire, kind, message)).encode()
        more = [(name.replace("_", "-"), value) for name, value in headers.items()]
        length = ("content-length", str(len(body)))
        await exchange.head(status, (("content-type", "application/json"), length, *more))
        await exchange.piece(body)
        await exchange.end()

    return play


async def is_silent(exchange: Exchange) -> None:
    """Take the request and say nothing until the client leaves."""
    await exchange.wait_left()


async def hangs_up(exchange: Exchange) -> None:
    """Take the request and be gone."""
    await exchange.cut()
