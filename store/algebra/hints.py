"""The dangling-reference hint: who still mentions a path that is not there (T56 to T64).

A read of a value that does not exist is answered, if the present memory mentions the path, with null and the places
that mention it. The search is bounded, looks at the present only and never shows a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from .history import SCOPES, ScopeName, ScopeState
from .merge import Json
from .paths import KEY_GRAMMAR, ReadPath

MATCHES_MAX = 3
NODES_MAX = 10_000

_PLANES = ("artifacts", "contract", "working", "intents", "lazy")
_KEY = re.compile(KEY_GRAMMAR)
_PATH_CHARS = r"[A-Za-z0-9_$.\[\]:-]"


def dangling_hint(scopes: Mapping[ScopeName, ScopeState], path: ReadPath) -> Json | None:
    """The hint for a path whose value does not exist, or None if nobody mentions it."""
    search = _Search.of(path)
    for scope in SCOPES:
        for plane in _PLANES if scope in scopes else ():
            content = scopes[scope].value.get(plane)
            if content is not None and not search.visit_plane(content, f"{scope}.{plane}"):
                return search.hint()
    return search.hint()


# A value, its place (or that of its nearest addressable ancestor, T62), and whether the place is its own.
_Node = tuple[Any, str, bool]


@attrs.define
class _Search:
    """A depth-first walk that stops by itself."""

    targets: frozenset[str]
    mention: re.Pattern[str]
    nodes: int = 0
    is_cut: bool = False
    # (is not structured, where): sorts as T62 wants
    matches: list[tuple[bool, str]] = attrs.field(factory=list)

    @classmethod
    def of(cls, path: ReadPath) -> _Search:
        targets = {path.text, f"effective.{path.text}"} if path.is_bare else {path.text}
        names = "|".join(re.escape(target) for target in sorted(targets))
        return cls(frozenset(targets), re.compile(rf"(?<!{_PATH_CHARS})\$(?:{names})(?!{_PATH_CHARS})"))

    def visit_plane(self, content: Any, where: str) -> bool:
        """Search one plane; answers whether to go on. The plane itself is no node, every value below it is one."""
        self._match((content, where, True))
        waiting = [_children((content, where, True))]
        while waiting and not self.is_cut:
            node = next(waiting[-1], None)
            if node is None:
                waiting.pop()
            elif self.nodes == NODES_MAX:
                self.is_cut = True
            else:
                self.nodes += 1
                self._match(node)
                waiting.append(_children(node))
        return not self.is_cut

    def _match(self, node: _Node) -> None:
        value, where, _ = node
        if type(value) is dict:
            reference = value.get("$ref")
            is_match = type(reference) is str and reference in self.targets
        elif type(value) is str:
            # Looking for a fixed text is a hundred times faster than the pattern, which only judges its surroundings.
            is_match = any(f"${target}" in value for target in self.targets) and bool(self.mention.search(value))
        else:
            is_match = False
        if is_match:
            self.matches.append((type(value) is str, where))
            self.is_cut = len(self.matches) == MATCHES_MAX

    def hint(self) -> Json | None:
        """What was found so far, None if nothing."""
        if not self.matches:
            return None
        message = (
            "No value here in the selected state. These current values mention the path; they are not a verified "
            "new place. Use them if they are relevant."
        )
        if self.is_cut:
            message += " The search stopped early; more owners may exist."
        paths = list(dict.fromkeys(where for _, where in sorted(self.matches)))
        return {"type": "dangling-reference", "message": message, "paths": paths}


def _children(node: _Node) -> Iterator[_Node]:
    value, where, is_own = node
    if type(value) is list:
        for index, item in enumerate(value):
            yield item, f"{where}[{index}]" if is_own else where, is_own
    elif type(value) is dict:
        for key in sorted(value):
            if key == "response":
                continue
            item = value[key]
            if key == "$ref" and type(item) is str:
                item = None  # a node like any other, but its text was judged with its object
            if is_own and _KEY.fullmatch(key):
                yield item, f"{where}.{key}", True
            else:
                yield item, where, False
