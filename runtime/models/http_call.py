"""One call of a model: the one module that does HTTP. What is sent and what it means is decided in pure modules.

The life of a call; ``_step`` makes one move::

    waiting --request sent, answer begins--> reading --done--> ended
       ^ |                                     | |                ^
       | +---------- failed -------------------+ +-- failed, something was told --+
       |               |
       +-- a pause ----+ nothing was told, it may succeed, tries are left;  otherwise ended

Invariants:
  W1  A failed call is an ``error`` event, never an exception: only cancellation and errors of the caller pass.
  W2  Nothing is asked again once an event was given: whoever listens would hear the beginning twice.
  W3  Whoever leaves the call leaves nothing behind: no connection of it stays open, whatever state it was in.
  W4  No text that leaves here holds a key (``access``, K1).
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, final

import attrs
import trio

from ..agent.model_stream import Model, ModelRequest, StreamEvent, StreamOptions
from .access import Access, access_of, redacted
from .answer import Answer
from .encoding import encoded
from .errors import CallFailed
from .failures import RETRIES_DEFAULT, failure_of_status, retry_delay_s
from .wires import Reading, request_body, wire_of

if TYPE_CHECKING:
    import httpx

# A connection that is not there by then will not come.
CONNECT_S: Final = 15.0
# The longest silence, before the first piece and between two. A model that thinks long says nothing meanwhile, unless
# its server sends signs of life; and nobody can tell thinking from a connection that died.
SILENCE_S: Final = 300.0
# What an answer's end may wait for the end of its stream, so that the connection can serve again.
END_S: Final = 1.0
# Of an error's body; more is not read.
ERROR_BYTES_MAX: Final = 64 << 10


@attrs.frozen
class ModelPatience:
    """How long a call waits, in seconds: for a connection, and for the next sign of life of the server."""

    connect_s: float = CONNECT_S
    silence_s: float = SILENCE_S


@attrs.frozen
class ModelRetry:
    """A call is made again: for the how-manieth time, after how many seconds, and why."""

    number: int
    delay_s: float
    reason: str


@attrs.frozen(eq=False)
class Means:
    """What all calls of one client share."""

    http: httpx.AsyncClient = attrs.field(repr=False)
    api_key: str | None = attrs.field(default=None, repr=False)
    base_url: str | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    patience: ModelPatience = attrs.field(factory=ModelPatience)
    retries: int = RETRIES_DEFAULT
    environment: Mapping[str, str] = attrs.field(factory=lambda: os.environ, repr=False)
    on_retry: Callable[[ModelRetry], None] = attrs.field(default=lambda retry: None, repr=False)
    sleep: Callable[[float], Awaitable[None]] = attrs.field(default=trio.sleep, repr=False)


@final
@attrs.define(eq=False)
class Call:
    """One call, as the context manager and the iterator of its answer."""

    _means: Means = attrs.field(repr=False)
    _model: Model
    _request: ModelRequest = attrs.field(repr=False)
    _options: StreamOptions = attrs.field(repr=False)
    _reading: Reading = attrs.field(init=False, repr=False)
    _access: Access | None = attrs.field(default=None, init=False, repr=False)
    _body: bytes = attrs.field(default=b"", init=False, repr=False)
    _response: httpx.Response | None = attrs.field(default=None, init=False, repr=False)
    _pieces: AsyncIterator[bytes] | None = attrs.field(default=None, init=False, repr=False)
    _retry: int = attrs.field(default=0, init=False)
    _is_left: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._reading = self._new_reading()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_left = True
        if kind is None and self._reading.answer.has_ended:
            await self._read_to_end()
        await self._leave()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        """The next event. Cancelled, it takes none."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not (answer := self._reading.answer).events:
            if answer.has_ended or self._is_left:
                await trio.lowlevel.checkpoint()
                raise StopAsyncIteration
            await self._step()
        return answer.events.popleft()

    async def _step(self) -> None:
        """One move: begin, or read on; and if that failed, what comes of it (W1)."""
        try:
            if self._pieces is None:
                await self._begin()
            elif not self._reading.advance():
                await self._read()
        except CallFailed as failure:
            await self._leave()
            text = self._redacted(failure.text)
            delay_s = self._delay_s(failure)
            if delay_s is None:
                self._reading.answer.fail(text)
                return
            self._retry += 1
            self._means.on_retry(ModelRetry(self._retry, delay_s, text))
            self._reading = self._new_reading()
            await self._means.sleep(delay_s)

    def _delay_s(self, failure: CallFailed) -> float | None:
        if self._reading.answer.has_started or self._retry >= self._means.retries:  # W2
            return None
        chance = random.random()
        return retry_delay_s(failure, self._retry + 1, self._options.max_retry_delay_s, chance)

    async def _begin(self) -> None:
        """Send the request; afterwards its answer can be read.

        Raises:
          CallFailed: it could not be sent, or was refused.
        """

        means = self._means
        wire = wire_of(self._model)
        if self._access is None:
            key = self._options.api_key if self._options.api_key is not None else means.api_key
            self._access = access_of(self._model, key, means.base_url, means.environment, wire.path)
            self._body = encoded(request_body(self._model, self._request, self._options))
            await trio.lowlevel.checkpoint()
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # unpacking would cost more than it saves on pieces of some bytes
            **wire.headers(self._access.key),
            **means.headers,
        }
        with _network(self._means.patience):
            request = means.http.build_request("POST", self._access.url, headers=headers, content=self._body)
            self._response = response = await means.http.send(request, stream=True)
        is_packed = response.headers.get("content-encoding", "identity") != "identity"
        self._pieces = aiter(response.aiter_bytes() if is_packed else response.aiter_raw())
        kind = response.headers.get("content-type", "")
        if response.status_code != 200 or kind.startswith(("application/json", "text/html")):
            raise failure_of_status(response.status_code, response.headers, await self._refusal(), time.time())

    async def _refusal(self) -> bytes:
        """The beginning of what the server says instead of an answer, as far as it comes."""
        import httpx

        assert self._pieces is not None
        found = b""
        with contextlib.suppress(StopAsyncIteration, httpx.HTTPError):
            while len(found) < ERROR_BYTES_MAX:
                found += await anext(self._pieces)
        return found[:ERROR_BYTES_MAX]

    async def _read(self) -> None:
        """Take the next piece of the answer's stream.

        Raises:
          CallFailed: none came in time, the connection is gone, or the piece says so.
        """
        import httpx

        assert self._pieces is not None
        try:  # not ``_network``: this runs for every piece of every answer
            piece = await anext(self._pieces, None)
        except httpx.HTTPError as error:
            raise _failure(error, self._means.patience) from None
        if piece is None:
            self._reading.end()
        else:
            self._reading.feed(piece)
            self._reading.advance()

    async def _read_to_end(self) -> None:
        """Let the stream of a whole answer end: only then its connection can serve again."""
        import httpx

        if self._pieces is not None:
            with trio.move_on_after(END_S), contextlib.suppress(httpx.HTTPError):
                async for _ in self._pieces:
                    pass

    async def _leave(self) -> None:
        """Close the connection, if the stream has not ended (W3)."""
        pieces, self._pieces = self._pieces, None
        response, self._response = self._response, None
        if pieces is None or response is None:
            return
        # The stream is a chain of generators, each suspended where it gave its last piece. To close the outermost
        # leaves the others to the garbage collector, which closes them some time; a read that is cancelled goes
        # through all of them. Shielded, since a cancellation of the caller would pass through here and replace what
        # it is raising. It ends at the first wait for the network: its own scope is cancelled already.
        with trio.CancelScope(shield=True) as scope, contextlib.suppress(_http_error()):
            scope.cancel()
            async for _ in pieces:
                pass
            await response.aclose()

    def _redacted(self, text: str) -> str:
        """``text`` without what nobody may see (W4)."""
        means = self._means
        hidden = [value for name, value in means.headers.items() if _SECRET_NAME.search(name)]
        key = None if self._access is None else self._access.key
        return redacted(text, (self._options.api_key, means.api_key, key, *hidden))

    def _new_reading(self) -> Reading:
        return Reading(Answer(self._model, time.time_ns() // 1_000_000))


def _http_error() -> type[Exception]:
    import httpx

    return httpx.HTTPError


@contextlib.contextmanager
def _network(patience: ModelPatience) -> Iterator[None]:
    """Make what the network does to us a failure of the call (W1)."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        raise _failure(error, patience) from None


def _failure(error: httpx.HTTPError, patience: ModelPatience) -> CallFailed:
    """The failure that an error of the HTTP library stands for, in words that show nothing of the request (W4)."""
    import httpx

    if isinstance(error, httpx.LocalProtocolError):
        # Its text shows the value of the header that is not valid.
        return CallFailed("the request can not be sent: a header of it is not valid")
    if isinstance(error, httpx.ConnectTimeout):
        return CallFailed(f"no connection within {patience.connect_s:g} s", may_retry=True)
    if isinstance(error, httpx.TimeoutException):
        return CallFailed(f"no answer within {patience.silence_s:g} s", may_retry=True)
    if isinstance(error, httpx.TransportError):
        said = _TROUBLES.get(type(error).__name__, "the connection failed")
        return CallFailed(f"{said}: {error}" if str(error) else said, may_retry=True)
    return CallFailed(f"the answer can not be read: {type(error).__name__}")


_TROUBLES: Final = {
    "ConnectError": "no connection",
    "ReadError": "the connection was lost",
    "WriteError": "the connection was lost",
    "RemoteProtocolError": "the connection was cut off",
    "ProxyError": "no connection: the proxy refuses",
}
_SECRET_NAME: Final = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
