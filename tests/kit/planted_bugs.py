"""Deliberate defects of the store and its actors, each with a plan of faults under which the simulator finds it.

``python -m kit.planted_bugs`` writes the table of docs/explanation/planted-bugs.md anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs

from kit.planting import Edit, planted
from kit.source_tree import ROOT
from strataflow.simulation import FaultPlan, Report, simulate

PAGE = ROOT / "docs" / "explanation" / "planted-bugs.md"
BEGIN, END = "<!-- written by kit.planted_bugs -->\n", "<!-- to here -->\n"
DEFAULT_SIZE = (2, 3, 20)


@attrs.frozen
class Bug:
    """A defect.

    Attributes:
      name: what is wrong, in words.
      breaks: the promise that it breaks.
      edits: other code in the place of the product's.
      plan, size, start: the faults, the size (processes, writers, steps) and the first seed of its worlds.
      within: in so many worlds it must be found.
      rules: by which of them.
      default: with the default plan and ``DEFAULT_SIZE``: in how many worlds, from seed 0, it was found, of how many.
    """

    name: str
    breaks: str
    edits: tuple[Edit, ...]
    plan: str
    size: tuple[int, int, int]
    start: int
    within: int
    rules: frozenset[str]
    default: tuple[int, int]

    def world(self, seed: int, *, is_planted: bool) -> Report:
        """One world with this defect, or without it."""
        processes, writers, steps = self.size
        plan = FaultPlan.parse(self.plan)
        with planted(self.edits if is_planted else ()):
            return simulate(seed=seed, processes=processes, writers=writers, steps=steps, faults=plan)

    def seeds(self) -> Iterable[int]:
        """The seeds of its worlds."""
        return range(self.start, self.start + self.within)


def rows(bugs: Iterable[Bug]) -> str:
    """The table."""
    lines = [
        "| defect | promise it breaks | where | rule that finds it | found within | default plan |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for bug in bugs:
        where = ", ".join(dict.fromkeys(f"`{edit.where}`" for edit in bug.edits))
        rules = ", ".join(f"`{rule}`" for rule in sorted(bug.rules))
        size = "/".join(map(str, bug.size))
        found, of = bug.default
        lines.append(
            f"| {bug.name} | {bug.breaks} | {where} | {rules} "
            f"| {bug.within} seeds from {bug.start} on, `{bug.plan}`, {size} | {found} of {of} |"
        )
    return "\n".join(lines) + "\n"


def page_with(table: str) -> str:
    """The page with this table in it."""
    text = Path(PAGE).read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table}{END}{after}"


if __name__ == "__main__":
    from kit.planted_bugs_list import BUGS

    PAGE.write_text(page_with(rows(BUGS)))
