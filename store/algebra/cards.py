"""Artifact cards: what an entry of ``artifacts`` must look like, and which of its members belong to the runtime.

A card describes a source file. Its author owns the description, kind, tags, compilation and any further member; how
and when it was compiled is evidence, kept beside the scope. Old files may still hold such members inside a card: they
stay stored, but no reader sees them and nobody can author them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .errors import CallError, shown
from .evidence import is_hash
from .merge import Json

RUNTIME_MEMBERS = frozenset(
    {
        "hash",
        "compiler",
        "compiled_at",
        "sourceHash",
        "sourceFingerprint",
        "compilerRevision",
        "compiledAt",
        "source_hash_verified",
        "hint",
    }
)


def card_problem(path: str, card: Any) -> str | None:
    """Why ``card`` cannot stand at ``path`` (A2 to A7), or None."""
    if not path.strip():
        return "its path is blank"
    if type(card) is not dict:
        return "it is not an object"
    if not _is_text(card.get("description")):
        return "description must be a string that is not blank"
    if "kind" in card and not _is_text(card["kind"]):
        return "kind must be a string that is not blank"
    if "tags" in card and not _are_tags(card["tags"]):
        return "tags must be an array of unique, trimmed strings that are not empty"
    if "compilation" in card and type(card["compilation"]) is not dict:
        return "compilation must be an object"
    return _legacy_problem(card)


def _legacy_problem(card: Json) -> str | None:
    if "hash" in card and not is_hash(card["hash"]):
        return "hash must be sha256: and 64 lowercase hexadecimal digits"
    if "compiler" in card and not _is_text(card["compiler"]):
        return "compiler must be a string that is not blank"
    if "compiled_at" in card and type(card["compiled_at"]) is not str:
        return "compiled_at must be a string"
    return None


def _is_text(value: Any) -> bool:
    return type(value) is str and bool(value.strip())


def _are_tags(value: Any) -> bool:
    if type(value) is not list or any(type(tag) is not str or not tag or tag != tag.strip() for tag in value):
        return False
    return len(set(value)) == len(value)


def check_cards(scope: str, artifacts: Json, paths: Iterable[str]) -> None:
    """Refuse the first of ``paths`` whose card in ``artifacts`` is not valid.

    Raises:
      CallError: E_ARTIFACT; ``data`` has scope, path and reason.
    """
    for path in paths:
        if path in artifacts:
            problem = card_problem(path, artifacts[path])
            if problem is not None:
                raise CallError(
                    "E_ARTIFACT",
                    f"{scope}.artifacts[{shown(path)}] is not a valid card: {problem}",
                    scope=scope,
                    path=path,
                    reason=problem,
                )


def authored_runtime_member(patch: Json) -> tuple[str, str] | None:
    """Path and name of the first runtime-owned member that a scope's patch authors (A9), if any."""
    for path, card in patch.get("artifacts", {}).items():
        if type(card) is dict:
            for member in card:
                if member in RUNTIME_MEMBERS:
                    return path, member
    return None


def readable_card(card: Any) -> Any:
    """A card without its runtime-owned members; itself if it has none."""
    if type(card) is dict and not RUNTIME_MEMBERS.isdisjoint(card):
        return {member: value for member, value in card.items() if member not in RUNTIME_MEMBERS}
    return card


def readable_cards(artifacts: Any) -> Any:
    """An ``artifacts`` plane (or a patch of one) with readable cards; itself if nothing had to go."""
    if type(artifacts) is not dict:
        return artifacts
    if all(type(card) is not dict or RUNTIME_MEMBERS.isdisjoint(card) for card in artifacts.values()):
        return artifacts
    return {path: readable_card(card) for path, card in artifacts.items()}
