"""The text that acknowledges a ``patch_state`` call (T14, T17)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .history import ScopeName
from .missing import MissingDeletion


def acknowledgement(
    scopes: Sequence[ScopeName], changed: bool, missing_deletions: Iterable[MissingDeletion] = ()
) -> str:
    """The text of a result. It begins with a newline; each missing deletion has a paragraph of its own.

    Args:
      scopes: the supplied scopes in the order global, cwd, session.
    """
    named = f"{'+'.join(scopes)} {'scope' if len(scopes) == 1 else 'scopes'}"
    text = f"\nPatch accepted in {named}." if changed else f"\nAlready current in {named}; nothing to change."
    for hint in missing_deletions:
        text += f"\n\nNothing to delete at {hint.path}: {hint.unavailable_path} is unavailable."
    return text
