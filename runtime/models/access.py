"""Where a model is asked and with which key: from arguments, the model, the environment, in this order. Pure.

Invariant K1: a key stands in the headers of a request and nowhere else. It is never part of a text, and what others say
(a server that repeats it in an error) goes through ``redacted``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from ..agent.model_stream import Model
from .errors import CallFailed

# The addresses that are asked when nobody says another, by provider; also the providers that do not work without a key.
ADDRESSES: Final[Mapping[str, str]] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#@]*)?")
_KEY: Final = re.compile(r"[!-~]+")
# Shorter ones are no secrets, and taking them out of a text would leave holes in its words.
_SECRET_CHARS_MIN: Final = 4
REDACTED: Final = "[redacted]"


@attrs.frozen
class Access:
    """Where, and with what."""

    url: str
    key: str | None = attrs.field(default=None, repr=False)


def access_of(
    model: Model, api_key: str | None, base_url: str | None, environment: Mapping[str, str], path: str
) -> Access:
    """The access to ``model``, whose wire asks at ``path``.

    Raises:
      CallFailed: no address, one that can not be used, no key where one is needed, or one that is none.
    """
    prefix = re.sub(r"[^A-Z0-9]", "_", model.provider.upper())
    default = ADDRESSES.get(model.provider, "")
    address = base_url or model.base_url or environment.get(f"{prefix}_BASE_URL", "").strip() or default
    if not address:
        raise CallFailed(f"no address for {model.provider}: give the model a base_url, or set {prefix}_BASE_URL")
    if not is_address(address):
        raise CallFailed(f"the address for {model.provider} can not be used: {ADDRESS_RULE}")
    key = api_key if api_key is not None else environment.get(f"{prefix}_API_KEY")
    key = key.strip() if key is not None else None  # files often end with a newline
    if not key:
        if address == default:
            raise CallFailed(f"no key for {model.provider}: give api_key, or set {prefix}_API_KEY")
        return Access(_joined(address, path))
    if not _KEY.fullmatch(key):
        # Here, and not in the HTTP library, whose error would show it (K1).
        raise CallFailed(f"the key for {model.provider} is none: it has characters that no header takes")
    return Access(_joined(address, path), key)


ADDRESS_RULE: Final = "http:// or https://, a host, perhaps a path; no user, no query. A key is given as api_key"


def is_address(address: str) -> bool:
    """Whether ``address`` can be asked: see ``ADDRESS_RULE``. One with a password in it would end up in logs."""
    return _ADDRESS.fullmatch(address) is not None


def _joined(address: str, path: str) -> str:
    """People give Anthropic's address with and without its version."""
    address = address.rstrip("/")
    version = path.split("/")[1]
    return address + (path.removeprefix(f"/{version}") if address.endswith(f"/{version}") else path)


def redacted(text: str, secrets: Iterable[str | None]) -> str:
    """``text`` without any of ``secrets`` (K1), longer ones first."""
    for secret in sorted({secret for secret in secrets if secret and len(secret) >= _SECRET_CHARS_MIN}, key=len)[::-1]:
        text = text.replace(secret, REDACTED)
    return text
