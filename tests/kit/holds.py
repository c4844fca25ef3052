"""Which statements of the specification a test holds.

``@holds("P19", "store 3.1.6", "case store 65")`` puts a test into ``docs/acceptance.md`` beside these statements.
Statements are ``P1`` to ``P25``, ``O…``, ``T…``, ``A…``, ``J…``, ``Ours-…``, ``store <number>``, ``host <number>``;
acceptance cases are ``case store <n>``, ``case agent <n>`` and, of the host, ``AC-<nnn>``. Ranges are ``"T56-T64"``,
``"case store 3-5"`` or ``"store 1.4.1-1.4.5"``.
"""

from __future__ import annotations

import pytest


def holds(*statements: str) -> pytest.MarkDecorator:
    """The marker. It is read from the source text, so the statements must be plain strings."""
    return pytest.mark.holds(*statements)
