"""The list of test names is the specification that people read, so names are sentences."""

from __future__ import annotations

import ast

from kit.source_tree import python_files, read

WORDS_MIN = 4


def _short_names(path: str, source: str) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if len(list(filter(None, node.name.split("_")))) - 1 < WORDS_MIN
    ]


def _test_files() -> list[str]:
    return [path for path in python_files("tests") if path.rpartition("/")[2].startswith("test_")]


def test_every_test_name_is_a_sentence_of_four_words_or_more() -> None:
    assert [name for path in _test_files() for name in _short_names(path, read(path))] == []


def test_no_two_tests_of_one_file_share_a_name() -> None:
    # The second would replace the first without a word.
    for path in _test_files():
        for scope in ast.walk(ast.parse(read(path))):
            if isinstance(scope, ast.Module | ast.ClassDef):
                names = [n.name for n in scope.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
                assert len(names) == len(set(names)), (path, sorted(n for n in names if names.count(n) > 1))


def test_tests_of_faults_open_with_goal_and_method() -> None:
    for path in python_files("tests/faults"):
        if path.rpartition("/")[2].startswith("test_"):
            docstring = (ast.get_docstring(ast.parse(read(path))) or "").lower()
            assert "goal" in docstring, f"{path}: the docstring says the goal"
            assert "method" in docstring, f"{path}: the docstring says the method"


def test_a_planted_short_name_is_found() -> None:
    assert _short_names("x.py", "def test_patch_is_atomic(): pass") != []
    assert _short_names("x.py", "class T:\n    async def test_x(self): pass") != []
    assert _short_names("x.py", "def test_a_patch_is_atomic(): pass") == []
