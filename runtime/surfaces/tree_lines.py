"""How an entry of a session tree is shown: one line."""

from __future__ import annotations

from collections.abc import Callable

from .. import OutlineRow


def tree_line(row: OutlineRow, styled: Callable[[str, str], str]) -> str:
    """The line of a row. ``styled``: gives a text the style of this name."""
    mark = "*" if row.is_leaf else "|" if row.is_on_branch else " "
    label = styled(f" [{row.label}]", "yellow") if row.label else ""
    return f"{mark} {'  ' * row.depth}{styled(row.id, 'bold')} {styled(row.kind, 'cyan')}{label} {row.text}".rstrip()
