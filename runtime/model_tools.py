"""The two tools as a host offers them to a model: declarations, which are active in a mode, how a call is shown (T1 to
T6, T20).

Declared does not mean usable: in passive mode both are declared also where there is no memory yet or where it can not
be read; the call then says why (T4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import attrs

from ..store import SCOPES, Json, Mode, pretty

_AUTHORED_PLANES = ("intents", "contract", "working", "artifacts", "lazy")


@final
@attrs.frozen
class ToolDeclaration:
    """One tool of a model.

    Attributes:
      name: of the tool.
      description: what a model is told of it.
      parameters: JSON Schema of its arguments.
      is_sequential: it must not run beside another tool of the same response (T5).
    """

    name: str
    description: str
    parameters: Json
    is_sequential: bool


_PATCH_GUIDE = (
    "Change memory. Arguments: patches of one or more of global, cwd, session; they are accepted together or not at "
    "all. Objects merge, scalars and arrays replace, null deletes a key, keys like [0] edit elements of an array. "
    "Use ASCII object keys. Never patch response in any scope, not even to clear it: in active mode the answer is "
    "stored by itself. Patch only for material, durable changes; an ordinary answer needs no closing call. Reconcile "
    "what is there instead of appending notes, write to the narrowest scope that fits, remove what is finished. Call "
    "it alone in a response; after its result everything is allowed again."
)
_READ_GUIDE = (
    "Read memory by path without changing anything: path, or paths for several at once. A path begins with effective, "
    "global, cwd, session (each optionally with [N], N changes ago) or a plane, then .key, [n] or [a:b]. Only ASCII "
    "object keys can be addressed: read the parent of another one. projection is value, keys (kinds of the children) "
    "or patch (what the last change did there). Do not read again what is shown already."
)


def _patch_parameters() -> Json:
    planes = {plane: {"type": "object"} for plane in _AUTHORED_PLANES}
    scope = {"type": "object", "properties": planes, "additionalProperties": False, "minProperties": 1}
    return {
        "type": "object",
        "properties": dict.fromkeys(SCOPES, scope),
        "additionalProperties": False,
        "minProperties": 1,
    }


def _read_parameters() -> Json:
    return {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "paths": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "projection": {"enum": ["value", "keys", "patch"]},
        },
        "additionalProperties": False,
    }


MEMORY_TOOLS: Final = (
    ToolDeclaration("patch_state", _PATCH_GUIDE, _patch_parameters(), is_sequential=True),
    ToolDeclaration("read_state", _READ_GUIDE, _read_parameters(), is_sequential=False),
)


def active_tools(names: Sequence[str], mode: Mode) -> Sequence[str]:
    """The names of the tools that a host offers in a mode, given those that it offers now (T2).

    Active and passive add both memory tools at the end, off takes both away, other tools stay as they are. The same
    object if nothing is to be changed, so that a host need not announce anything.
    """
    ours = [tool.name for tool in MEMORY_TOOLS]
    if mode == "off":
        kept = [name for name in names if name not in ours]
        return names if len(kept) == len(names) else kept
    missing = [name for name in ours if name not in names]
    return [*names, *missing] if missing else names


def shown_call(arguments: Mapping[str, Any], *, shows_accepted: bool = True, has_failed: bool = False) -> str | None:
    """The arguments of a ``patch_state`` call for a terminal, shown once, with the call (T20). The row of its result
    shows the acknowledgement alone.

    Args:
      shows_accepted: the setting ``showSuccessfulPatches``; without it the arguments of a call that did not fail are
        hidden, and this is None. Ask again when the result is known.

    Raises:
      TypeError: the arguments can not be written as JSON.
    """
    if not shows_accepted and not has_failed:
        return None
    parts = [f"{pretty(name)}: {_indented(_members(value))}" for name, value in arguments.items()]
    return _braced(parts)


def _members(value: Any) -> str:
    if type(value) is not dict or not value:
        return pretty(value)
    return _braced([pretty({name: item})[4:-2] for name, item in value.items()])


def _braced(parts: list[str]) -> str:
    if not parts:
        return "{}"
    return "{\n" + ",\n\n".join(f"  {part}" for part in parts) + "\n}"


def _indented(text: str) -> str:
    return "\n".join(line if not number or not line else f"  {line}" for number, line in enumerate(text.split("\n")))
