"""The client of models: shared connections, and what holds for all calls over them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, final

import attrs

from ..agent.model_stream import Model, ModelRequest, StreamEvent, StreamOptions
from .access import ADDRESS_RULE, access_of, is_address
from .errors import CallFailed, ModelError
from .failures import RETRIES_DEFAULT
from .http_call import Call, Means, ModelPatience, ModelRetry
from .wires import wire_of

# Connections that wait to be used again. The HTTP library looks through all of them at each call.
KEPT_CONNECTIONS_MAX: Final = 20


@final
@attrs.define(eq=False)
class ModelClient:
    """Asks models, many at the same time, over shared connections. Made by ``open_model_client``.

    It is a ``StreamFunction``: ``async with client(model, request, options) as events`` and, in its block,
    ``async for event in events``.
    """

    _means: Means

    def __call__(
        self, model: Model, request: ModelRequest, options: StreamOptions | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Ask ``model``. The request is sent when the first event is asked for.

        Iterating gives the events of the answer; the last is ``done`` or ``error``. A call that fails is an ``error``
        event. If an iteration is cancelled no event is lost; the message so far is the ``partial`` of the last one.
        Leaving the block closes the connection if the answer has not ended.
        """
        return Call(self._means, model, request, options or StreamOptions())

    def check(self, model: Model) -> None:
        """Say whether ``model`` can be asked from here, before anything depends on it. Nothing is sent.

        Raises:
          ModelError: E_MODEL_ACCESS: no key or address for it, or one that can not be used; or nobody here speaks its
            wire format.
        """
        means = self._means
        try:
            access_of(model, means.api_key, means.base_url, means.environment, wire_of(model).path)
        except CallFailed as failure:
            raise ModelError("E_MODEL_ACCESS", failure.text, provider=model.provider) from None


@asynccontextmanager
async def open_model_client(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str] | None = None,
    patience: ModelPatience | None = None,
    retries: int = RETRIES_DEFAULT,
    on_retry: Callable[[ModelRetry], None] | None = None,
) -> AsyncIterator[ModelClient]:
    """A client for models of both wire formats; its connections are closed with the block.

    Args:
      api_key: for every call that gives none; else the environment is asked, ``OPENAI_API_KEY`` for provider
        ``openai``.
      base_url: asked instead of the address of the model, ``OPENAI_BASE_URL`` or the provider's own.
      headers: sent with every request besides the usual ones.
      patience: how long calls wait; None for the defaults.
      retries: how often a call is made again at most, when nothing of its answer has been told.
      on_retry: told of each time, before the pause. It must not block.

    Raises:
      ModelError: E_MODEL_EXTRA without httpx; E_MODEL_ADDRESS for a ``base_url`` or headers that can not be used.
    """
    try:
        import httpx
    except ImportError:
        text = "asking models needs httpx: pip install httpx, or strataflow[models]"
        raise ModelError("E_MODEL_EXTRA", text, extra="models") from None
    if base_url is not None and not is_address(base_url):
        raise ModelError("E_MODEL_ADDRESS", f"base_url can not be used: {ADDRESS_RULE}")
    for name, value in (headers or {}).items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise ModelError("E_MODEL_ADDRESS", f"header {name[:96]!r} can not be sent: its characters are not allowed")
    patience = patience or ModelPatience()
    timeout = httpx.Timeout(patience.silence_s, connect=patience.connect_s, pool=None)
    # As many connections as there are calls: who limits calls does that where they are made.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS_MAX)
    async with httpx.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False) as http:
        told = on_retry or (lambda retry: None)
        yield ModelClient(Means(http, api_key, base_url, dict(headers or {}), patience, retries, on_retry=told))


_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9-]+")
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
