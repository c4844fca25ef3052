"""A request as bytes. Pure."""

from __future__ import annotations

import json
from typing import Any

from ...store import compact
from .answer import repaired
from .errors import CallFailed


def encoded(body: Any) -> bytes:
    """``body`` as JSON. Halves of surrogate pairs are replaced: no server takes them, and one must not end a session.

    Raises:
      CallFailed: it has something that JSON has not.
    """
    try:
        return compact(body).encode()
    except TypeError:  # a half of a pair, an integer beyond 64 bits, or something that is no JSON
        pass
    try:
        return repaired(json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))).encode()
    except (TypeError, ValueError, RecursionError):
        raise CallFailed("the request can not be written as JSON") from None
