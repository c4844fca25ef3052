"""Skills: whose card a Skill's is, whether it is current, and what a model is told when it is not (A26 to A29).

A file is a Skill because the host says so, in its inventory of commands; names and places of files prove nothing. Who
brought it says in which scope its card belongs: what a user has everywhere is global, what a project has is that of the
directory, what somebody gave for once is the session's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, final

import attrs

from ..algebra import SKILL_KIND, SKILL_REVISION, CallError, Fingerprint, Json, ScopeName, shown, target
from .sources import resolved

Provenance = Literal["user", "project", "temporary"]
OWNERS: Final[Mapping[str, ScopeName]] = {"user": "global", "project": "cwd", "temporary": "session"}


@final
@attrs.frozen
class RegisteredSkill:
    """A Skill of a host's inventory.

    Attributes:
      path: of the file that a model reads, absolute or seen from the session's directory.
      provenance: who brought it.
      name: as the host calls it.
    """

    path: str
    provenance: Provenance
    name: str = ""


@final
@attrs.frozen
class Digest:
    """What hashing the bytes at a path gave.

    Attributes:
      source_hash: ``sha256:`` and 64 hexadecimal digits; None if it could not be worked out.
      fingerprint: of the file whose bytes those were.
      problem: why there is no hash, in words.
    """

    source_hash: str | None
    fingerprint: Fingerprint | None = None
    problem: str = ""


def skills_from(inventory: Iterable[RegisteredSkill | Mapping[str, Any]], cwd: str) -> dict[str, ScopeName]:
    """The scope of each Skill's card, by path. A path that belongs to several owners is ambiguous, and left out (A26).

    Args:
      inventory: Skills, or the entries of a host's list of commands: ``{path, provenance}``, with ``source`` if the
        list has other things too; only those of source ``skill`` count.

    Raises:
      CallError: E_SHAPE for an entry of another shape.
    """
    owners: dict[str, set[ScopeName]] = {}
    for entry in inventory:
        skill = entry if isinstance(entry, RegisteredSkill) else _skill(entry)
        if skill is None:
            continue
        if type(skill.path) is not str or not skill.path.strip() or skill.provenance not in OWNERS:
            raise CallError(
                "E_SHAPE", f"a Skill has a path, and a provenance of {', '.join(OWNERS)}; this is {shown(entry)}"
            )
        owners.setdefault(resolved(cwd, skill.path), set()).add(OWNERS[skill.provenance])
    return {path: next(iter(found)) for path, found in owners.items() if len(found) == 1}


def _skill(entry: Any) -> RegisteredSkill | None:
    if not isinstance(entry, Mapping):
        raise CallError("E_SHAPE", f"an inventory holds Skills or objects, not {shown(entry)}")
    if entry.get("source", SKILL_KIND) != SKILL_KIND:
        return None
    path, provenance, name = entry.get("path", ""), entry.get("provenance"), entry.get("name", "")
    if type(provenance) is not str:
        raise CallError("E_SHAPE", f"the Skill at {shown(path)} needs a provenance: {', '.join(OWNERS)}")
    return RegisteredSkill(path, provenance, name)  # type: ignore[arg-type]  # checked by the caller


def is_current_skill(card: Any, entry: Json | None, source_hash: str | None) -> bool:
    """Whether a stored card speaks for bytes with this hash (A28)."""
    return (
        source_hash is not None
        and type(card) is dict
        and card.get("kind") == SKILL_KIND
        and bool(card.get("compilation"))
        and entry is not None
        and entry.get("compilerRevision") == SKILL_REVISION
        and entry.get("sourceHash") == source_hash
    )


def skill_note(path: str, scope: ScopeName, problem: str) -> str:
    """What a model is told with the result of reading a Skill that has no current card (A29)."""
    text = (
        f"This is a Skill without a current card. To keep what it says, patch {target(scope, path)} with its whole "
        f'card: a description, kind "{SKILL_KIND}" and a compilation that is not empty. '
        "Patches about anything else need not include it."
    )
    return f"{text} It can not be compiled now ({problem}); read it again first." if problem else text
