"""Which test holds which statement of the specification: collected from the tests' markers into ``docs/acceptance.md``.

Write it anew with ``make acceptance`` (or ``PYTHONPATH=tests python -m kit.acceptance_map``). The markers are read from
the source text, so nothing is imported or run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from kit.acceptance_scope import LATER, NOT_TAKEN_OVER, REQUIRED
from kit.source_tree import ROOT, python_files, read

DOCUMENT = "docs/acceptance.md"
# Invariants of ARCHITECTURE.md, such as "design M3".
OF_THE_DESIGN = "design "

Holders = Mapping[str, list[tuple[str, str]]]


def expanded(statement: str) -> list[str]:
    """``"T56-T58"`` is T56, T57 and T58; so are ``"case store 3-5"`` and ``"store 1.4.1-1.4.5"`` ranges."""
    head, dash, tail = statement.rpartition("-")
    if not dash or head in ("Ours", "AC") or not tail[-1].isdigit():
        return [statement]
    prefix, first = _split(head)
    last = _split(tail)[1]
    return [f"{prefix}{number}" for number in range(first, last + 1)]


def _split(text: str) -> tuple[str, int]:
    digits = re.search(r"\d+$", text)
    assert digits, text
    return text[: digits.start()], int(digits.group())


def collected() -> Holders:
    """Statement -> the tests that hold it, as file and name, in the order of the files."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in python_files("tests"):
        for name, statement in markers(read(path)):
            for single in expanded(statement):
                entry = (path, name)
                if entry not in found.setdefault(single, []):
                    found[single].append(entry)
    return found


def markers(source: str) -> Iterator[tuple[str, str]]:
    """Test name and statement of every ``@holds(...)`` in a source text, also on the methods of suites."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "holds":
                    for argument in decorator.args:
                        assert isinstance(argument, ast.Constant), (node.name, "statements are plain strings")
                        yield node.name, argument.value


def missing(holders: Holders) -> list[str]:
    """Required statements that no test holds."""
    return [statement for group in REQUIRED.values() for statement in group if statement not in holders]


def unknown(holders: Holders) -> list[str]:
    """Marked statements that the specification does not have."""
    known = {statement for group in REQUIRED.values() for statement in group}
    later = {single for names, _ in LATER for name in names.split(", ") for single in expanded(name)}
    strange = set(holders) - known - later - set(NOT_TAKEN_OVER)
    return sorted(statement for statement in strange if not statement.startswith(OF_THE_DESIGN))


def document(holders: Holders) -> str:
    """The text of ``docs/acceptance.md``."""
    lines = [
        "# What the tests hold",
        "",
        "Each statement of the specification with the tests that hold it. This file is generated from the markers in",
        "the tests: `make acceptance` writes it anew. A test fails while it is stale or a statement is without a test.",
        "",
    ]
    for title, group in REQUIRED.items():
        lines += [f"## {title}", "", "| statement | tests |", "| --- | --- |"]
        lines += [f"| {statement} | {_tests(holders.get(statement, []))} |" for statement in group]
        lines.append("")
    lines += ["## Design", "", "| invariant | tests |", "| --- | --- |"]
    lines += [f"| {name} | {_tests(holders[name])} |" for name in sorted(holders) if name.startswith(OF_THE_DESIGN)]
    lines += ["", "## Replaced or not taken over", "", "| statement | why |", "| --- | --- |"]
    lines += [f"| {statement} | {reason} |" for statement, reason in NOT_TAKEN_OVER.items()]
    lines += ["", "## Later", "", "Of capabilities that are not there yet.", "", "| statements | capability |"]
    lines += ["| --- | --- |", *(f"| {names} | {capability} |" for names, capability in LATER), ""]
    files = sorted({path for entries in holders.values() for path, _ in entries})
    lines += [*(f"[{path.removeprefix('tests/')}]: ../{path}" for path in files), ""]
    return "\n".join(lines)


def _tests(entries: list[tuple[str, str]]) -> str:
    by_file: dict[str, list[str]] = {}
    for path, name in entries:
        by_file.setdefault(path, []).append(name.removeprefix("test_").replace("_", " "))
    parts = [f"[{path.removeprefix('tests/')}]: {'; '.join(names)}" for path, names in by_file.items()]
    return "<br>".join(parts)


def main() -> None:
    """Write the document."""
    (ROOT / DOCUMENT).write_text(document(collected()), encoding="utf-8")


if __name__ == "__main__":
    main()
