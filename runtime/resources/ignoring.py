"""Ignore files as git writes them, for walks that begin at one folder (host 4.3.4). Pure.

A rule holds below the folder of its file; the last rule that fits decides; ``!`` takes a name in again. Whoever walks
does not enter an ignored folder, so nothing below one is ever asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

import attrs

IGNORE_FILES = (".gitignore", ".ignore", ".fdignore")


@attrs.frozen
class IgnoreRule:
    """One line. ``pattern`` fits paths relative to the walk's first folder."""

    pattern: re.Pattern[str]
    takes_in: bool = False
    is_for_folders: bool = False


def read_ignore_rules(text: str, folder: str) -> Iterable[IgnoreRule]:
    """The rules of an ignore file in ``folder``, which is relative to the walk's first folder ("" for that itself)."""
    for written in text.split("\n"):
        line = re.sub(r"(?<!\\)[ \t\r]+$", "", written)
        if not line or line.startswith("#"):
            continue
        takes_in = line.startswith("!")
        line = line[1:] if takes_in else line
        is_for_folders = line.endswith("/")
        line = line.rstrip("/") if is_for_folders else line
        if line:
            with suppress(re.error):  # a range that ends before it begins fits nothing
                yield IgnoreRule(_compiled(line, folder), takes_in, is_for_folders)


def is_ignored(path: str, is_folder: bool, rules: Sequence[IgnoreRule]) -> bool:
    """Whether the rules leave out ``path``, relative to the walk's first folder."""
    for rule in reversed(rules):
        if (is_folder or not rule.is_for_folders) and rule.pattern.fullmatch(path):
            return not rule.takes_in
    return False


def _compiled(line: str, folder: str) -> re.Pattern[str]:
    is_bound = "/" in line
    line = line.removeprefix("/")
    start = f"{re.escape(folder)}/" if folder else ""
    return re.compile(start + ("" if is_bound else "(?:.*/)?") + _body(line), re.DOTALL)


# In the order in which they are tried at each place.
_TOKENS = re.compile(
    r"""(?P<anywhere>(?:^|(?<=/))\*\*/)     # folders, any number
      | (?P<below>(?<=/)\*\*$)              # all that is below
      | (?P<run>\*+)                        # anything in one name
      | (?P<one>\?)
      | \[(?P<not>[!^]?)(?P<set>\]?[^\]]*)\]
      | \\(?P<escaped>.)
      | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)


def _body(line: str) -> str:
    return "".join(_translated(token) for token in _TOKENS.finditer(line))


def _translated(token: re.Match[str]) -> str:
    match token.lastgroup:
        case "anywhere":
            return "(?:.*/)?"
        case "below":
            return ".+"
        case "run":
            return "[^/]*"
        case "one":
            return "[^/]"
        case "set":
            inner = re.sub(r"([\[\]\\&~|^])", r"\\\1", token["set"])
            return f"(?!/)[{'^' if token['not'] else ''}{inner}]"
        case _:
            return re.escape(token["escaped"] or token["plain"])
