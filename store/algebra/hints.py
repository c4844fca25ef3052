"""The dangling-reference hint: who still mentions a path that is not there (T56 to T64).

A read of a value that does not exist is answered, if the present memory mentions the path, with null and the places
that mention it. The search is bounded, looks at the present only and never shows a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
        if scope in scopes:
            for plane in _PLANES:
                content = scopes[scope].value.get(plane)
                if content is not None and not search.visit_content(content, f"{scope}.{plane}", True):
                    return search.hint()
    return search.hint() if search.matches else None


@attrs.define
class _Search:
    """A depth-first walk that stops by itself. The methods answer whether to go on."""

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

    def visit(self, value: Any, where: str, is_addressable: bool) -> bool:
        """One value below a plane. ``where`` is its place, or that of its nearest addressable ancestor (T62)."""
        if self.nodes == NODES_MAX:
            self.is_cut = True
            return False
        self.nodes += 1
        if type(value) is str:
            # Looking for a fixed text is a hundred times faster than the pattern, which only judges its surroundings.
            is_mention = any(f"${target}" in value for target in self.targets) and self.mention.search(value)
            return not is_mention or self._add(False, where)
        return self.visit_content(value, where, is_addressable)

    def visit_content(self, value: Any, where: str, is_addressable: bool) -> bool:
        """An object or array, whose own node was counted."""
        if type(value) is list:
            return all(
                self.visit(item, f"{where}[{index}]" if is_addressable else where, is_addressable)
                for index, item in enumerate(value)
            )
        if type(value) is not dict:
            return True
        reference = value.get("$ref")
        if type(reference) is str and reference in self.targets and not self._add(True, where):
            return False
        return all(self._visit_member(key, value[key], where, is_addressable) for key in sorted(value))

    def _visit_member(self, key: str, value: Any, where: str, is_addressable: bool) -> bool:
        if key == "response":
            return True
        if key == "$ref" and type(value) is str:
            self.nodes += 1
            return True
        if is_addressable and _KEY.fullmatch(key):
            return self.visit(value, f"{where}.{key}", True)
        return self.visit(value, where, False)

    def _add(self, is_structured: bool, where: str) -> bool:
        self.matches.append((not is_structured, where))
        self.is_cut = len(self.matches) == MATCHES_MAX
        return not self.is_cut

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
