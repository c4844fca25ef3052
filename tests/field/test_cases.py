"""The list of cases from the field in ``README.md`` names tests that exist, and every test here is in the list."""

from __future__ import annotations

import ast
import re
from functools import cache

from kit.source_tree import ROOT, python_files, read

_PAGE = "tests/field/README.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@cache
def names_in(path: str) -> set[str]:
    """The names of all test functions of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name for node in ast.walk(ast.parse(read(path))) if isinstance(node, kinds)}
    return {name for name in found if name.startswith("test_")}


def named() -> list[tuple[str, str]]:
    """Every test that the page names, with its file."""
    return _NAMED.findall(read(_PAGE))


def test_every_test_that_a_case_names_exists() -> None:
    assert len(named()) > 40
    missing = [f"{path}::{name}" for path, name in named() if not (ROOT / path).exists() or name not in names_in(path)]
    assert missing == []


def test_every_case_names_a_test() -> None:
    cases = [
        line for line in read(_PAGE).splitlines() if line.startswith("|") and not line.startswith(("| case", "| -"))
    ]
    assert len(cases) > 25
    assert [line for line in cases if not _NAMED.search(line)] == []


def test_every_test_of_this_folder_belongs_to_a_case() -> None:
    listed = set(named())
    files = [path for path in python_files("tests/field") if not path.endswith("test_cases.py")]
    assert len(files) >= 5
    assert [(path, name) for path in files for name in sorted(names_in(path)) if (path, name) not in listed] == []
