"""The six planes of a scope, and what a scope that was read from somewhere must look like.

Five planes are authored as objects. ``response`` is a string, written only when an answer is accepted. Anything else
at the top of a scope is foreign: it is ignored when read and never written again.
"""

from __future__ import annotations

from typing import Any

from .cards import card_problem
from .errors import CallError, StoreError, shown
from .history import ScopeName
from .merge import Json
from .values import detach_checked, pointer_token

# Always shown in this order.
PLANES = ("intents", "contract", "working", "artifacts", "response", "lazy")
# What a patch may name, in the order in which a refusal lists them.
AUTHORABLE = ("intents", "contract", "working", "artifacts", "lazy")

_KNOWN = frozenset(PLANES)


def known_planes(value: Json) -> Json:
    """``value`` without foreign top-level fields; itself if it has none."""
    if value.keys() <= _KNOWN:
        return value
    return {plane: content for plane, content in value.items() if plane in _KNOWN}


def check_materialised(value: Json, scope: ScopeName) -> None:
    """Check a scope's whole value, rebuilt from a base and records of unknown origin (store 1.4.7).

    The wording names the scope; the caller adds the file. A ``response`` below the session is old but legal.

    Raises:
      StoreError: E_CORRUPT; ``data`` has scope, pointer and reason.
    """
    value = known_planes(value)
    for plane, content in value.items():
        expected: type[Any] = str if plane == "response" else dict
        if type(content) is not expected:
            wanted = "a string" if expected is str else "an object"
            _corrupt(scope, pointer_token(plane), f"{wanted} is expected")
    try:
        detach_checked(value, allow_null=False)
    except CallError as error:
        _corrupt(scope, error.data["pointer"], error.data["reason"])
    for path, card in value.get("artifacts", {}).items():
        problem = card_problem(path, card)
        if problem is not None:
            _corrupt(scope, "/artifacts" + pointer_token(path), problem)


def _corrupt(scope: ScopeName, pointer: str, reason: str) -> None:
    raise StoreError(
        "E_CORRUPT",
        f"{scope} memory is damaged at {shown(pointer)}: {reason}; repair or restore its files",
        scope=scope,
        pointer=pointer,
        reason=reason,
    )
