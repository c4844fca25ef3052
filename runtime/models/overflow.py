"""Whether an answer failed because its input was too long for the model (host 3.2.5). Pure.

Providers have no common code for it; what is common are their sentences. A new one is a line in the table.
"""

from __future__ import annotations

import re
from typing import Final

from ..agent.messages import AssistantMessage

_TOO_LONG: Final = re.compile(
    "|".join(
        (
            r"prompt is too long",  # Anthropic
            r"input is too long",  # Bedrock
            r"request_too_large",  # Anthropic, by bytes
            r"exceeds? the context window",  # OpenAI
            r"exceeds? (?:the )?context limit",  # Anthropic, input and output limit together
            r"context[ _]length[ _]exceeded",
            r"maximum context length",  # OpenAI, OpenRouter, vLLM
            r"longer than the model's context length",
            r"greater than the context length",  # LM Studio
            r"exceeds? the available context size",  # llama.cpp
            r"input token count.*exceeds? the maximum",  # Gemini
            r"maximum prompt length is \d",  # xAI
            r"reduce the length of the (?:messages|prompt|input)",  # Groq
            r"prompt token count of \d+ exceeds? the limit",  # Copilot
            r"context window exceeds? limit",  # MiniMax
            r"exceeded model token limit",  # Kimi
            r"model_context_window_exceeded",
            r"token limit exceeded",
            r"too many (?:input )?tokens",
            r"^4(?:00|13): \(no body\)$",  # Mistral, Cerebras say nothing at all
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
# Speak of tokens too, but of how many there were in a minute: shorter input would not help.
_THROTTLED: Final = re.compile(
    r"rate.?limit|too many requests|throttl|tokens per (?:min|day|hour)|\b429\b|service unavailable|quota",
    re.IGNORECASE,
)
# An answer of nothing that its limit cut off had no room, when the input filled this much of the window.
_FULL: Final = 0.99


def says_overflow(text: str) -> bool:
    """Whether an error's text says that the input was too long. What speaks of a rate never does."""
    return _TOO_LONG.search(text) is not None and _THROTTLED.search(text) is None


def is_context_overflow(message: AssistantMessage, context_window: int) -> bool:
    """Whether ``message`` shows that its input did not fit into ``context_window`` tokens (0: unknown).

    That is so if it failed with an error that says it; if it stopped although its input is larger than the window
    (servers that cut the input silently); or if its limit cut it off before its first token while the input filled the
    window. Whether the answer is one of the model now in use is for the caller to know.
    """
    if message["stopReason"] == "error":
        return says_overflow(message.get("errorMessage", ""))
    usage = message["usage"]
    used = usage["input"] + usage["cacheRead"]
    if context_window <= 0:
        return False
    if message["stopReason"] == "stop":
        return used > context_window
    return message["stopReason"] == "length" and usage["output"] == 0 and used >= _FULL * context_window
