"""Arguments of tool calls: mildly converted towards the JSON schema of the tool, then validated against it.

Models write ``5`` for ``"5"`` and the other way round. What has one obvious reading is converted; what has none is
left for the validator to refuse. Values that fit are never touched. The validator is jsonschema; it is imported with
the first call, since most programs never check one.

Conversions, where the value does not fit the type and the type is what the schema asks for:

    number, boolean -> string       5 -> "5", true -> "true"
    string -> integer, number       "5" -> 5, "1.5" -> 1.5; boolean -> 1 or 0
    string -> boolean               "true", "false"; number 1 and 0
    null -> the schema's default, else "", 0, false
    "" , 0, false -> null
    a single value -> array of it
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...store import shown

_SHOWN_ERRORS_MAX = 8
_DEPTH_MAX = 64
# Making one takes longer than using it.
_VALIDATORS_KEPT = 256


def checked(name: str, schema: Mapping[str, Any], arguments: Any) -> Any:
    """The arguments as the tool gets them: a copy where anything was converted.

    Raises ValueError with a text for the model: it begins with ``Validation failed for tool "<name>"``.
    """
    found = converted(schema, arguments)
    errors = list(_validator(json.dumps(schema, default=dict)).iter_errors(found))
    if not errors:
        return found
    complaints = []
    errors.sort(key=lambda error: [str(part) for part in error.absolute_path])
    for error in errors[:_SHOWN_ERRORS_MAX]:
        place = ".".join(str(part) for part in error.absolute_path) or "arguments"
        complaints.append(f"{place}: {error.message}")
    raise refusal(name, complaints, json.dumps(arguments, indent=2, ensure_ascii=False, default=shown))


def refusal(name: str, complaints: Sequence[str], received: str) -> ValueError:
    """What a model is told of arguments that do not fit."""
    lines = [f'Validation failed for tool "{name}":', *(f"  - {complaint}" for complaint in complaints)]
    return ValueError("\n".join([*lines, "", "Received arguments:", received]))


@functools.lru_cache(maxsize=_VALIDATORS_KEPT)
def _validator(schema_text: str) -> Any:
    # Late: they take longer to load than everything else of an agent.
    import jsonschema
    import referencing

    schema = json.loads(schema_text)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    # Without a registry of its own it would fetch what a schema refers to from the network.
    return kind(schema, registry=referencing.Registry())


def converted(schema: Any, value: Any, depth: int = 0) -> Any:
    """``value`` as the schema would have it, as far as its meaning is beyond doubt. Pure."""
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return value
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if kinds and not any(_fits(kind, value) for kind in kinds):
        for kind in kinds:
            found, is_converted = _converted_to(kind, value, schema)
            if is_converted:
                value = found
                break
    if isinstance(value, dict):
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            return {key: converted(properties.get(key), item, depth + 1) for key, item in value.items()}
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [converted(schema["items"], item, depth + 1) for item in value]
    return value


def _fits(kind: Any, value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return is_number and _is_whole(value)
        case "number":
            return is_number
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return True


def _converted_to(kind: Any, value: Any, schema: Mapping[str, Any]) -> tuple[Any, bool]:
    if value is None and kind != "null":
        defaults = {"string": "", "integer": 0, "number": 0, "boolean": False}
        default = schema.get("default", defaults.get(kind))
        return default, default is not None
    match kind:
        case "string" if isinstance(value, (bool, int, float)):
            return json.dumps(value), True
        case "integer" | "number":
            number = _number(value)
            return number, number is not None and (kind == "number" or _is_whole(number))
        case "boolean" if value in ("true", "false") or (value in (0, 1) and not isinstance(value, str)):
            return value in ("true", 1), True
        case "null" if value in ("", 0, False):
            return None, True
        case "array" if not isinstance(value, (dict, list)) or schema.get("items"):
            return [value], True
        case _:
            return value, False


def _is_whole(number: int | float) -> bool:
    return isinstance(number, int) or number.is_integer()


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        return int(text)
    except ValueError:
        try:
            found = float(text)
        except ValueError:
            return None
    return found if math.isfinite(found) else None
