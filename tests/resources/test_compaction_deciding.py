"""When a session is compacted by itself, and when a request was too long."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from kit.talk import NO_USAGE, USAGE, answer, entries, user
from strataflow import is_context_overflow
from strataflow.compaction import CompactionSettings, ModelInUse, compaction_reason

_MODEL = ModelInUse("f", "m", 100_000)
_COMPACTED = {"type": "compaction", "summary": "S", "firstKeptEntryId": "e01", "timestamp": "2025-01-01T00:00:00.500Z"}
_COMPACTED_MS = 1_735_689_600_500
_TOO_LONG = {"stop": "error", "errorMessage": "prompt is too long: 213462 tokens > 200000 maximum", "usage": NO_USAGE}


def _used(tokens: int) -> dict[str, Any]:
    return {**NO_USAGE, "input": tokens, "totalTokens": tokens}


def _reason(message: dict[str, Any], *before: dict[str, Any], **wishes: Any) -> str | None:
    given: dict[str, Any] = {
        "path": [],
        "context": [*before, message],
        "model": _MODEL,
        "settings": CompactionSettings(),
        "has_recovered": False,
    }
    return compaction_reason(message, **{**given, **wishes})


@holds("AC-098", "AC-122")
@pytest.mark.parametrize("tokens, expected", [(83_616, None), (83_617, "threshold")])
def test_a_context_over_the_threshold_is_compacted(tokens: int, expected: str | None) -> None:
    assert _reason(answer("a", usage=_used(tokens))) == expected
    assert _reason(answer("a", usage=_used(tokens)), settings=CompactionSettings(is_enabled=False)) is None


def test_a_window_that_nobody_knows_is_never_full() -> None:
    assert _reason(answer("a", usage=_used(9_999_999)), model=ModelInUse("f", "m", 0)) is None


@pytest.mark.parametrize("is_before_prompt, expected", [(False, None), (True, "threshold")])
def test_an_aborted_answer_counts_only_before_a_prompt(is_before_prompt: bool, expected: str | None) -> None:
    aborted = answer("a", stop="aborted", usage=NO_USAGE)
    full = answer("full", usage=_used(90_000))
    assert _reason(aborted, full, is_before_prompt=is_before_prompt) == expected


@holds("AC-124")
@pytest.mark.parametrize("time, expected", [(_COMPACTED_MS, None), (_COMPACTED_MS + 1, "threshold")])
def test_an_answer_from_before_the_latest_compaction_starts_nothing(time: int, expected: str | None) -> None:
    path = entries(user("u"), _COMPACTED, user("v"))
    assert _reason(answer("a", usage=_used(90_000), time=time), path=path) == expected
    assert _reason(answer(**_TOO_LONG, time=time), path=path) == (expected and "overflow")


@holds("AC-123")
def test_an_overflow_is_answered_once_and_then_given_up() -> None:
    assert _reason(answer(**_TOO_LONG)) == "overflow"
    assert _reason(answer(**_TOO_LONG), has_recovered=True) == "stuck"


def test_an_overflow_of_another_model_says_nothing_of_this_one() -> None:
    assert _reason(answer(**_TOO_LONG), model=ModelInUse("f", "larger", 1_000_000)) is None
    assert _reason(answer(**_TOO_LONG), model=ModelInUse("other", "m", 1_000_000)) is None


def test_a_failed_answer_is_judged_by_the_count_before_it() -> None:
    failed = answer(stop="error", errorMessage="overloaded", usage=NO_USAGE, time=_COMPACTED_MS + 9)
    counted = answer("a", usage=_used(83_000), time=_COMPACTED_MS + 5)
    assert _reason(failed, counted, user("u" * 4000)) == "threshold"
    assert _reason(failed, counted, user("u" * 40)) is None
    assert _reason(failed, user("u" * 999_999)) is None
    path = entries(user("u"), _COMPACTED)
    old = answer("a", usage=_used(90_000), time=_COMPACTED_MS)
    assert _reason(failed, counted, user("u" * 4000), path=path) == "threshold"
    assert _reason(failed, old, user("u"), path=path) is None


def test_a_server_that_never_counts_is_estimated() -> None:
    assert _reason(answer("a", usage=NO_USAGE), user("u" * 4 * 83_700)) == "threshold"
    assert _reason(answer("a", usage=NO_USAGE), user("u" * 4 * 83_000)) is None


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
        "413 request_too_large",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        '{"error":{"code":"context_length_exceeded"}}',
        "Your input exceeds the context window of this model",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
        "Please reduce the length of the messages or completion",
        "the request exceeds the available context size, try increasing it",
        "Input is too long for requested model.",
        "tokens to keep from the initial prompt is greater than the context length",
        "400 status code (no body)",
        "413 (no body)",
        "prompt too long; exceeded max context length by 4 tokens",
    ],
)
def test_what_providers_say_of_an_input_too_long_is_recognised(text: str) -> None:
    assert is_context_overflow(answer(stop="error", errorMessage=text), 100_000)
    assert not is_context_overflow(answer(text), 100_000)


@pytest.mark.parametrize(
    "text",
    [
        "Throttling error: Too many tokens, please wait before trying again.",
        "429 rate limit exceeded: too many tokens",
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 36000",
        "Too many requests, token limit exceeded, try again in 20s",
        "overloaded",
        "Service unavailable: too many tokens in flight",
        "connection reset",
        "",
    ],
)
def test_throttling_and_other_trouble_is_no_overflow(text: str) -> None:
    assert not is_context_overflow(answer(stop="error", errorMessage=text), 100_000)


@pytest.mark.parametrize(
    "stop, usage, window, expected",
    [
        ("stop", {"input": 90_001, "cacheRead": 10_000}, 100_000, True),
        ("stop", {"input": 90_000, "cacheRead": 10_000}, 100_000, False),
        ("stop", {"input": 90_001, "cacheRead": 10_000}, 0, False),
        ("length", {"input": 99_000, "output": 0}, 100_000, True),
        ("length", {"input": 98_999, "output": 0}, 100_000, False),
        ("length", {"input": 99_000, "output": 1}, 100_000, False),
        ("length", {"input": 99_000, "output": 0}, 0, False),
        ("toolUse", {"input": 100_001}, 100_000, False),
        ("error", {"input": 100_001}, 100_000, False),
    ],
)
def test_an_input_that_was_cut_silently_is_recognised_by_its_count(
    stop: str, usage: dict[str, int], window: int, expected: bool
) -> None:
    assert is_context_overflow(answer("a", stop=stop, usage={**USAGE, "output": 5, **usage}), window) is expected
