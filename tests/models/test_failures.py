"""What failed calls say: too long an input, what may be tried again, and when."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit.holds import holds
from strataflow.runtime.models import is_context_overflow, is_retryable
from strataflow.runtime.models.errors import CallFailed
from strataflow.runtime.models.failures import (
    ERROR_TEXT_CHARS_MAX,
    failure_in_stream,
    failure_of_status,
    retry_after_s,
    retry_delay_s,
)
from strataflow.runtime.models.usage import no_usage

TOO_LONG = [
    "400: invalid_request_error: prompt is too long: 213462 tokens > 200000 maximum",
    "400: input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
    "413: request_too_large: Request exceeds the maximum size",
    "400: invalid_request_error, context_length_exceeded: This model's maximum context length is 128000 tokens.",
    "Your input exceeds the context window of this model.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion.",
    "the request exceeds the available context size (4096 tokens), try increasing it",
    "tokens to keep from the initial prompt is greater than the context length",
    "400: (no body)",
    "413: (no body)",
]
NOT_TOO_LONG = [
    "429: rate_limit_error: Number of request tokens has exceeded your per-minute rate limit; too many tokens",
    "Throttling error: Too many tokens, please wait before trying again.",
    "429: tokens: Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41000",
    "529: overloaded_error: Overloaded",
    "401: authentication_error: invalid x-api-key",
    "500: (no body)",
    "",
]


def failed(text: str) -> Any:
    return {"stopReason": "error", "errorMessage": text, "usage": no_usage()}


def ended(stop: str, **usage: int) -> Any:
    return {"stopReason": stop, "usage": {**no_usage(), **usage}}


@holds("host 3.2.5")
@pytest.mark.parametrize("text", TOO_LONG)
def test_an_error_that_says_that_the_input_was_too_long_is_overflow(text: str) -> None:
    assert is_context_overflow(failed(text), 0)
    assert not is_retryable(failed(text))


@holds("host 3.2.5")
@pytest.mark.parametrize("text", NOT_TOO_LONG)
def test_an_error_that_speaks_of_a_rate_or_something_else_is_no_overflow(text: str) -> None:
    assert not is_context_overflow(failed(text), 1)


@holds("host 3.2.5")
@pytest.mark.parametrize(
    "message, window, is_overflow",
    [
        (ended("stop", input=600, cacheRead=401), 1_000, True),
        (ended("stop", input=600, cacheRead=400), 1_000, False),
        (ended("stop", input=2_000), 0, False),
        (ended("length", input=590, cacheRead=400), 1_000, True),
        (ended("length", input=589, cacheRead=400), 1_000, False),
        (ended("length", input=990, output=1), 1_000, False),
        (ended("toolUse", input=2_000), 1_000, False),
        ({**ended("aborted", input=2_000), "errorMessage": "prompt is too long"}, 1_000, False),
    ],
)
def test_an_answer_without_an_error_is_overflow_by_its_counts(message: Any, window: int, is_overflow: bool) -> None:
    assert is_context_overflow(message, window) is is_overflow


@pytest.mark.parametrize(
    "text",
    [
        "529: overloaded_error: Overloaded",
        "overloaded_error",
        "429: rate_limit_error: slow down",
        "502: <html>bad gateway</html>",
        "no answer within 300 s",
        "no connection: All connection attempts failed",
        "the connection was lost",
        "the answer was cut off: its stream ended without a reason to stop",
    ],
)
def test_what_may_pass_by_itself_may_be_tried_again(text: str) -> None:
    assert is_retryable(failed(text))


@pytest.mark.parametrize(
    "text",
    [
        "401: authentication_error: no",
        "429: insufficient_quota: pay",
        "the model refused to answer",
        "no key for openai",
    ],
)
def test_what_stays_as_it_is_is_not_tried_again(text: str) -> None:
    assert not is_retryable(failed(text))
    assert not is_retryable({**failed("overloaded"), "stopReason": "aborted"})


def status(code: int, kind: str = "x", **headers: str) -> CallFailed:
    body = json.dumps({"error": {"type": kind, "message": "m"}}).encode()
    return failure_of_status(code, {name.replace("_", "-"): value for name, value in headers.items()}, body, 0.0)


@pytest.mark.parametrize(
    "failure, may_retry",
    [
        *[(status(code), True) for code in (408, 409, 425, 429, 500, 502, 503, 504, 529)],
        *[(status(code), False) for code in (200, 301, 400, 401, 403, 404, 413, 422)],
        (status(429, "insufficient_quota"), False),
        (status(500, x_should_retry="false"), False),
        (status(400, x_should_retry="true"), True),
        (failure_in_stream({"type": "overloaded_error", "message": "m"}), True),
        (failure_in_stream({"code": 502, "message": "m"}), True),
        (failure_in_stream({"code": 400, "message": "m"}), False),
        (failure_in_stream("broken"), False),
    ],
)
def test_which_failures_may_pass_is_known_from_status_and_kind(failure: CallFailed, may_retry: bool) -> None:
    assert failure.may_retry is may_retry


@pytest.mark.parametrize(
    "body, text",
    [
        (b'{"error": {"message": "no", "type": "t", "code": "c"}}', "500: t, c: no"),
        (b'{"error": "no"}', "500: no"),
        (b'{"message": "no"}', "500: no"),
        (b'{"detail": "no"}', "500: no"),
        (b'[{"error": {"message": "no", "code": 500}}]', "500: 500: no"),
        (b'{"error": {"message": ""}}', '500: {"error": {"message": ""}}'),
        (b"<html>", "500: <html>"),
        (b"", "500: (no body)"),
        (b"\xff", "500: \ufffd"),
    ],
)
def test_a_body_of_any_shape_becomes_a_text(body: bytes, text: str) -> None:
    assert failure_of_status(500, {}, body, 0.0).text == text


def test_the_text_of_a_failure_is_bounded() -> None:
    assert len(failure_of_status(500, {}, b"x" * 10_000, 0.0).text) == ERROR_TEXT_CHARS_MAX


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_a_wish_to_wait_is_read_in_each_of_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, 100.0) == seconds


def test_pauses_grow_to_a_bound_and_chance_makes_them_shorter() -> None:
    failure = CallFailed("503", may_retry=True)
    assert [retry_delay_s(failure, n, None, 0.0) for n in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert retry_delay_s(failure, 3, None, 1.0) == 1.0
    assert retry_delay_s(failure, 5, 3.0, 0.0) == 3.0


def test_a_wish_beyond_the_longest_wait_means_no_retry_at_all() -> None:
    assert retry_delay_s(CallFailed("429", may_retry=True, retry_after_s=60), 1, None, 0.5) == 60
    assert retry_delay_s(CallFailed("429", may_retry=True, retry_after_s=61), 1, None, 0.5) is None
    assert retry_delay_s(CallFailed("429", may_retry=True, retry_after_s=61), 1, 90.0, 0.5) == 61
    assert retry_delay_s(CallFailed("500: prompt is too long", may_retry=True), 1, None, 0.5) is None
