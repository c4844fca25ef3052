"""Small modules and small functions: what one can hold in the head, one reviews."""

from __future__ import annotations

import ast

from kit.source_tree import package_modules, python_files, read

MODULE_LINES = 300
MODULE_LINES_MAX = 500
FUNCTION_LINES = 70
# Modules between the two limits, each with its reason. It is empty, and an entry is a visible change.
LARGE_MODULES: dict[str, str] = {}


def _length(path: str) -> int:
    return len(read(path).splitlines())


def _long_functions(path: str, source: str) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 >= FUNCTION_LINES
    ]


def test_modules_of_the_package_stay_below_three_hundred_lines() -> None:
    large = {path: _length(path) for path in package_modules() if _length(path) >= MODULE_LINES}
    assert large.keys() == LARGE_MODULES.keys(), large


def test_no_python_file_at_all_passes_the_hard_cap() -> None:
    paths = [*package_modules(), *python_files("tests"), *python_files("benchmarks"), *python_files(".ci")]
    assert {path: _length(path) for path in paths if _length(path) > MODULE_LINES_MAX} == {}


def test_functions_stay_below_seventy_lines() -> None:
    paths = [*package_modules(), *python_files("tests"), *python_files("benchmarks"), *python_files(".ci")]
    assert [text for path in paths for text in _long_functions(path, read(path))] == []


def test_a_planted_long_function_is_found() -> None:
    assert _long_functions("x.py", "def f():\n" + "    g()\n" * (FUNCTION_LINES - 1)) != []
    assert _long_functions("x.py", "def f():\n" + "    g()\n" * (FUNCTION_LINES - 2)) == []
