"""Lines of ignore files mean here what they mean to git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strataflow.runtime.resources.ignoring import is_ignored, read_ignore_rules

_LINES = (
    "a",
    "/a",
    "a/",
    "a/b",
    "/a/b",
    "**/b",
    "a/**",
    "a/**/c",
    "*.md",
    "a?c",
    "[ab]",
    "[!a]",
    "[a-c]x",
    "[]x]",
    "\\!a",
    "\\#a",
    "# a",
    "",
    "a ",
    "a\\ ",
    "*",
    "*\n!a",
    "*\n!*/\n!a/b",
    "a*b/c",
    "**",
    "a**c",
    "[z-a]",
    "a.c",
    "[^a]",
    "!a\na",
    "a\r",
)
_PATHS = ("a", "b", "a/b", "b/a", "a/b/c", "a/c", "x.md", "b/x.md", "abc", "axc", "bx", "]", "!a", "#a", "a ", "aXb/c")


@pytest.mark.slow
@pytest.mark.parametrize("text", _LINES, ids=ascii)
def test_a_line_leaves_out_what_git_leaves_out(text: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(text)
    asked = "\0".join(_PATHS)
    answer = subprocess.run(
        ["git", "-c", "core.excludesFile=", "check-ignore", "-z", "--stdin", "--no-index"],
        cwd=tmp_path,
        input=asked,
        capture_output=True,
        text=True,
        check=False,
    )
    rules = tuple(read_ignore_rules(text, ""))

    def leaves_out(path: str) -> bool:
        # A walk never enters an ignored folder, so all above is asked first.
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        return any(is_ignored(folder, True, rules) for folder in above) or is_ignored(path, False, rules)

    assert {path for path in _PATHS if leaves_out(path)} == set(answer.stdout.split("\0")) - {""}


def test_rules_of_a_folder_hold_only_below_it() -> None:
    rules = tuple(read_ignore_rules("x\n/y\nz/w", "in.ner"))
    assert [path for path in ("x", "in.ner/x", "in.ner/a/x", "in-ner/x") if is_ignored(path, False, rules)] == [
        "in.ner/x",
        "in.ner/a/x",
    ]
    assert not is_ignored("in.ner/a/y", False, rules)
    assert is_ignored("in.ner/y", False, rules)
    assert is_ignored("in.ner/z/w", False, rules)
