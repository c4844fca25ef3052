"""What a failed answer says: that its input was too long for the model, or that asking again may help. Pure.

Providers, proxies and networks have no common code for either; what is common are their sentences. A new one is a line
in a table. Sources: host 3.2.5 and 5.8.5, and the texts of the servers named below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from .messages import counted

_TOO_LONG: Final = re.compile(
    "|".join(
        (
            r"(?:prompt|input) (?:is )?too long",  # Anthropic, Bedrock, Ollama
            r"request_too_large",  # Anthropic, by bytes
            r"exceeds? the context window",  # OpenAI
            r"context window of this model",
            r"exceeds? (?:the )?context limit",  # Anthropic, input and output limit together
            r"context[ _]length[ _]exceeded",
            r"max(?:imum)? context (?:length|size)",  # OpenAI, OpenRouter, vLLM
            r"longer than the model's context length",
            r"greater than the context length",  # LM Studio
            r"exceeds? the available context size",  # llama.cpp
            r"input token count.*exceeds? the maximum",  # Gemini
            r"maximum prompt length",  # xAI
            r"reduce the length of the (?:messages|prompt|input)",  # Groq
            r"exceeds? the limit of \d",  # Copilot
            r"context window exceeds? limit",  # MiniMax
            r"exceeded model token limit",  # Kimi
            r"model_context_window_exceeded",
            r"token limit exceeded",
            r"too many (?:input )?tokens",
            r"^4(?:00|13):? (?:status code )?\(no body\)$",  # Mistral, Cerebras say nothing at all
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
# Speak of tokens too, but of how many there were in a minute: shorter input would not help.
_THROTTLED: Final = re.compile(
    r"rate.?limit|too many requests|throttl|tokens per (?:min|day|hour)|\bTPM\b|\b429\b|service unavailable|quota"
    r"|overloaded|try again (?:later|in)|wait before trying",
    re.IGNORECASE,
)
# An answer of nothing that its limit cut off had no room, when the input filled this much of the window.
_FULL: Final = 0.99
_PASSING: Final = re.compile(
    r"overloaded|rate.?limit|too many requests|\b(?:408|429|50[0-4]|52\d)\b|service.?unavailable|bad gateway"
    r"|(?:server|internal).?error|gateway time|network|connection|connect error|socket|fetch failed|time(?:d )?.?out"
    r"|no answer within|cut off|no sound|terminated|ended without|stream (?:ended|was cut)|temporarily|try again"
    r"|retry delay|upstream",
    re.IGNORECASE,
)
# A full account is told as 429 too, and asking again does not fill it.
_HOPELESS: Final = re.compile(
    r"insufficient_quota|billing|invalid_request|authentication|permission|not_found", re.IGNORECASE
)


def says_overflow(text: str) -> bool:
    """Whether an error's text says that the input was too long. What speaks of a rate never does."""
    return _TOO_LONG.search(text) is not None and _THROTTLED.search(text) is None


def says_hopeless(text: str) -> bool:
    """Whether the kind of an error, or its text, says that the same call will always fail."""
    return _HOPELESS.search(text) is not None


def is_context_overflow(message: Mapping[str, Any], context_window: int) -> bool:
    """Whether an answer shows that its input did not fit into ``context_window`` tokens (0: unknown).

    That is so if it failed with an error that says it; if it stopped although its input is larger than the window
    (servers that cut the input silently); or if its limit cut it off before its first token while the input filled the
    window. Whether the answer is one of the model now in use is for the caller to know.
    """
    if message.get("stopReason") == "error":
        return says_overflow(str(message.get("errorMessage") or ""))
    usage = message.get("usage") or {}
    used = counted(usage, "input") + counted(usage, "cacheRead")
    if context_window <= 0:
        return False
    if message.get("stopReason") == "stop":
        return used > context_window
    return message.get("stopReason") == "length" and not counted(usage, "output") and used >= _FULL * context_window


def is_retryable(message: Mapping[str, Any]) -> bool:
    """Whether an answer failed for a cause that may pass: overload, rate limit, a failing server, network, time.

    Never when the input was too long: the same call would fail in the same way (host 5.8.5).
    """
    text = str(message.get("errorMessage") or "")
    if message.get("stopReason") != "error" or says_overflow(text) or says_hopeless(text):
        return False
    return _PASSING.search(text) is not None
