"""The smallest set of calls that can not all be true: grown from a suspicion until it is impossible, then shrunk.

Growing follows the explanations: whichever outsiders an explanation needs become part of the set, and must now be where
their answers say. It ends when there is no explanation left. Then calls are left out, many at once at first, as long as
what is left is still impossible. Leaving a call out never makes a set impossible that was possible before, so a set
from which no single call can be left out has no smaller one inside.
"""

from __future__ import annotations

from typing import Final

import attrs

from .clues import Suspicion
from .focus import EVERYTHING, Focus
from .possible import Possibilities

# Rounds of growing, and calls in a set, at most: what needs more is told with the calls of the suspicion.
ROUNDS_MAX: Final = 60
CALLS_MAX: Final = 400


@attrs.frozen
class Smallest:
    """Calls by number. ``is_proven``: they can not all be true; else they are only those that the doubt began with."""

    calls: tuple[int, ...]
    is_proven: bool


def smallest(possibilities: Possibilities, suspicion: Suspicion) -> Smallest | None:
    """The set of a suspicion; None if calls of which nobody knows anything may explain it all the same."""
    fates, focus = possibilities.facts.fates, suspicion.focus
    order = list(suspicion.core)
    are_all_in = False
    for _ in range(ROUNDS_MAX):
        used = possibilities.explained(order, focus)
        if used is None:
            return Smallest(_held_against_all(possibilities, suspicion, shrunk(possibilities, order, focus)), True)
        new = [number for number in sorted(used) if number not in order and fates[number] != "open"]
        if not new and not are_all_in:
            # Nobody outside is needed, so the set does not know yet what should be there: all who wrote there do.
            are_all_in = True
            writers = possibilities.writers_at(focus)
            new = [number for number in writers if number not in order and fates[number] != "open"]
        if not new or len(order) + len(new) > CALLS_MAX:
            break
        order += new
    is_open = any(fates[number] == "open" for number in possibilities.writers_at(focus))
    return None if is_open else Smallest(tuple(sorted(suspicion.core)), False)


def _held_against_all(possibilities: Possibilities, suspicion: Suspicion, found: list[int]) -> tuple[int, ...]:
    """Whatever else the history says may make the set smaller still, if it is about the same call."""
    if len(found) > 1 and possibilities.explained((), EVERYTHING) is not None:
        smaller = shrunk(possibilities, found, EVERYTHING)
        if not suspicion.core or suspicion.core[0] in smaller or suspicion.core[0] not in found:
            found = smaller
    return tuple(sorted(found))


def shrunk(possibilities: Possibilities, order: list[int], focus: Focus) -> list[int]:
    """A set from which nothing can be left out. What came last into the set goes first."""
    kept = list(order)
    size = max(1, len(kept) // 2)
    while True:
        is_smaller = False
        for end in range(len(kept), 0, -size):
            trial = kept[: max(0, end - size)] + kept[end:]
            if len(trial) < len(kept) and possibilities.explained(trial, focus) is None:
                kept, is_smaller = trial, True
        if size == 1 and not is_smaller:
            return kept
        size = max(1, size // 2)
