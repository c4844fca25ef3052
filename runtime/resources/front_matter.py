"""Front matter: the fields that a Markdown file may carry before its text.

The fields are YAML 1.2 (core schema), as other readers of such files take them: ``yes``, ``12:30`` and ``2024-01-01``
are text. PyYAML alone follows YAML 1.1, where they are a bool, a number and a date, and keeps the last of two equal
keys; here equal keys are an error and keys are always text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import attrs
import yaml

_MARK = "---"


class FrontMatterError(ValueError):
    """The fields are no YAML. The text is the parser's, with line and column; correct the file."""


@attrs.frozen
class FrontMatter:
    """A Markdown file in its parts. ``fields`` is empty where there are none, ``body`` is the text without them."""

    fields: dict[str, Any]
    body: str


def read_front_matter(text: str) -> FrontMatter:
    """Take fields and body apart.

    Fields begin with ``---`` as the first three characters and end at the next line that begins with ``---``; without
    such an end all is body. Line ends become LF. A body behind fields is stripped. Fields that are no mapping count
    as none.

    Raises:
      FrontMatterError: what stands between the marks is no YAML.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    end = text.find("\n" + _MARK, len(_MARK)) if text.startswith(_MARK) else -1
    if end < 0:
        return FrontMatter({}, text)
    # One character belongs to the mark: its line end.
    fields = _load(text[len(_MARK) + 1 : end])
    return FrontMatter(fields if isinstance(fields, dict) else {}, text[end + 1 + len(_MARK) :].strip())


def _load(text: str) -> Any:
    try:
        loader = _CoreLoader(text)
        loader.name = "front matter"
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise FrontMatterError(str(error)) from error
    except (RecursionError, ValueError) as error:  # nested too deep; a number of more digits than Python reads
        raise FrontMatterError(f"front matter cannot be read: {error}") from error


# PyYAML has no types. A subclass of its own, so that nobody else's YAML is read differently.
_CoreLoader: Any = type("_CoreLoader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})


def _mapping(loader: Any, node: Any) -> Iterator[dict[str, Any]]:
    # A generator, as PyYAML wants it: the mapping is known before its values, which may name it.
    mapping: dict[str, Any] = {}
    yield mapping
    if not isinstance(node, yaml.MappingNode):
        raise _refusal(node, "this is no mapping", node)
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refusal(node, "a key must be text", key)
        if key.value in mapping:
            raise _refusal(node, f"the key {key.value!r} stands here twice", key)
        mapping[key.value] = loader.construct_object(value)


def _refusal(mapping: Any, problem: str, at: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError("while reading a mapping", mapping.start_mark, problem, at.start_mark)


def _integer(loader: Any, node: Any) -> int:
    text: str = loader.construct_scalar(node)
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


# Pattern, and the characters a value of the kind can begin with. What matches none is text.
_CORE_SCHEMA = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
for _kind, (_pattern, _first) in _CORE_SCHEMA.items():
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_pattern})$"), list(_first))
_CoreLoader.add_constructor("tag:yaml.org,2002:int", _integer)
_CoreLoader.add_constructor("tag:yaml.org,2002:map", _mapping)
