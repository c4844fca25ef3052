"""How much a model may think: budgets in tokens for one wire, names of efforts for the other (host 5.7.6). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from ..agent.model_stream import Model, StreamOptions, ThinkingLevel

THINKING_BUDGETS: Final[Mapping[str, int]] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
# The least that Anthropic takes as a budget, and what is left for the answer where thinking would take all.
THINKING_TOKENS_MIN: Final = 1024
# Output limit where the wire demands one and nobody gave one: enough for long files, and far from the window.
OUTPUT_TOKENS_DEFAULT: Final = 32_000

_LEVELS: Final = get_args(ThinkingLevel)
_EFFORTS: Final = ("low", "medium", "high")


def asked_level(model: Model, options: StreamOptions) -> ThinkingLevel | None:
    """The level to ask for; None where none is wanted or the model does not reason."""
    return options.reasoning if model.reasoning and options.reasoning not in (None, "off") else None


def output_limit(model: Model, options: StreamOptions) -> tuple[int, int | None]:
    """Tokens of the whole output, and of them those for thinking (None: it does not think).

    The limit is raised by the budget, up to what the model can give; if that leaves no room for an answer the budget is
    made smaller. A budget that then is too small to be asked for means no thinking.
    """
    most = model.max_tokens
    limit = options.max_tokens or min(most or OUTPUT_TOKENS_DEFAULT, OUTPUT_TOKENS_DEFAULT)
    level = asked_level(model, options)
    if level is None:
        return (min(limit, most) if most else limit), None
    budgets = {**THINKING_BUDGETS, **(options.thinking_budgets or {})}
    budget = budgets.get(level, budgets["high"])
    limit = min(limit + budget, most) if most else limit + budget
    if limit <= budget:
        budget = limit - THINKING_TOKENS_MIN
    return limit, budget if budget >= THINKING_TOKENS_MIN else None


def effort(model: Model, level: ThinkingLevel) -> str:
    """The model's name for ``level``: itself if it knows it, else the next lower one, else its lowest."""
    known = sorted(model.efforts or _EFFORTS, key=_rank)
    below = [name for name in known if _rank(name) <= _rank(level)]
    return below[-1] if below else known[0]


def _rank(name: str) -> int:
    return _LEVELS.index(name) if name in _LEVELS else len(_LEVELS)
