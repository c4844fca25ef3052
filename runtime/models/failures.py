"""What failed calls say, and which of them may be made again, when. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ...store import parse_stream_piece
from ..agent.failed_answers import says_hopeless, says_overflow
from .errors import CallFailed

# As much of a provider's text as anybody reads; a page of HTML or an echoed prompt must not get into a transcript.
ERROR_TEXT_CHARS_MAX: Final = 1_000
# Longest wait for which a server's Retry-After is followed, and back-off is capped, unless the options say another.
RETRY_DELAY_S_MAX: Final = 60.0
# How often a call is made again when nothing of its answer has been told.
RETRIES_DEFAULT: Final = 2
# Back-off: the first pause, doubled each time, less up to a half by chance so that callers do not come in step.
RETRY_DELAY_S: Final = 0.5
RETRY_DELAY_S_GROWN_MAX: Final = 8.0

# Timeout, conflict, too early, too many requests; every 5xx is added to them, with Anthropic's 529 (overloaded).
_RETRIED_STATUS: Final = frozenset({408, 409, 425, 429})
_RETRIED_KIND: Final = re.compile(r"overloaded|rate.?limit|timeout|api_error|server_error|unavailable|internal", re.I)


def failure_of_status(status: int, headers: Mapping[str, str], body: bytes, now_s: float) -> CallFailed:
    """The failure that an answer with ``status`` stands for. ``now_s``: seconds since 1970, for dates in it."""
    kind, text = _described(body)
    may_retry = (status in _RETRIED_STATUS or status >= 500) and not says_hopeless(kind)
    wanted = {"true": True, "false": False}.get(headers.get("x-should-retry", ""))
    return CallFailed(
        _joined(str(status), kind, text or "(no body)"),
        may_retry=may_retry if wanted is None else wanted,
        retry_after_s=retry_after_s(headers, now_s),
    )


def failure_in_stream(error: Any) -> CallFailed:
    """The failure that an error object within a stream stands for."""
    kind, text = _of_error(error)
    may_retry = _RETRIED_KIND.search(kind) is not None or (kind.isdecimal() and (kind == "429" or int(kind) >= 500))
    return CallFailed(_joined(kind, text or "the provider reports an error"), may_retry=may_retry)


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)[:ERROR_TEXT_CHARS_MAX]


def _described(body: bytes) -> tuple[str, str]:
    """Kind and text of an error's body: JSON of one of the usual shapes, or whatever it is."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value = parse_stream_piece(text)
    except ValueError:
        return "", text
    if type(value) is list and value:
        value = value[0]
    if type(value) is not dict:
        return "", text
    kind, said = _of_error(value.get("error", value))
    return kind, said or text


def _of_error(error: Any) -> tuple[str, str]:
    if type(error) is not dict:
        return "", error if type(error) is str else ""
    texts = (error.get("message"), error.get("detail"), error.get("error"))
    kinds = [str(error[name]) for name in ("type", "code") if type(error.get(name)) in (str, int)]
    return ", ".join(dict.fromkeys(kinds)), next((text for text in texts if type(text) is str and text), "")


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """How long a server asks to wait: ``Retry-After-Ms``, or ``Retry-After`` in seconds or as a date. None if not."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text):
            return float(text) / unit
    moment = _http_date_s(headers.get("retry-after", ""))
    return None if moment is None else max(moment - now_s, 0.0)


def _http_date_s(text: str) -> float | None:
    from datetime import UTC, datetime

    try:
        return datetime.strptime(text.strip(), "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def retry_delay_s(failure: CallFailed, retry: int, max_delay_s: float | None, chance: float) -> float | None:
    """How long to wait before the call is made again for the ``retry``-th time (from 1); None: do not.

    Args:
      max_delay_s: longest wait; None for ``RETRY_DELAY_S_MAX``. A server that asks for more is not asked again: before
        it wants to be, that would be in vain, and whoever waits for the answer should know.
      chance: a number of [0, 1).
    """
    longest = RETRY_DELAY_S_MAX if max_delay_s is None else max_delay_s
    if not failure.may_retry or says_overflow(failure.text):
        return None
    if failure.retry_after_s is not None:
        return failure.retry_after_s if failure.retry_after_s <= longest else None
    grown = min(RETRY_DELAY_S * 2.0 ** (retry - 1), RETRY_DELAY_S_GROWN_MAX)
    return min(grown * (1 - chance / 2), longest)
