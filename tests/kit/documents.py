"""Reads the project's documents for ``tests/meta``: links, headings, tables, quantities with units."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import dirname, join, normpath

import attrs

from kit.source_tree import read, repository_files

# Directories whose Markdown belongs to tests, not to readers.
_NOT_DOCUMENTS = ("tests/",)
_FENCE = re.compile(r"^ *(`{3,}|~{3,})[^`\n]*\n.*?^ *\1`*~* *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_UNITS = {"ms": 0.001, "s": 1, "KiB": 1 << 10, "MiB": 1 << 20}
_QUANTITY = re.compile(r"±?\(?(\d[\d,]*)(?:\^(\d+)−1)?\)?(?: (ms|s|KiB|MiB)\b)?")


@attrs.frozen
class Link:
    """A link of a page to a file of this repository, and perhaps to a heading there."""

    page: str
    path: str
    anchor: str


def pages() -> tuple[str, ...]:
    """Every Markdown page for readers."""
    return tuple(path for path in repository_files() if path.endswith(".md") and not path.startswith(_NOT_DOCUMENTS))


def prose(page: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", read(page))


def links(page: str) -> Iterator[Link]:
    """The links inside of the repository."""
    for target in _LINK.findall(prose(page)):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            yield Link(page, normpath(join(dirname(page), path)) if path else page, anchor)


def anchors(page: str) -> set[str]:
    """The names of a page's headings, as links spell them."""
    return {_anchor(title) for _, title in _HEADING.findall(prose(page))}


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def sections(page: str, level: int = 2) -> dict[str, str]:
    """The text below each heading of one level, fenced blocks included, by title without code marks."""
    text, found, title = read(page), {}, ""
    for part in re.split(rf"^({'#' * level} .+)$", text, flags=re.MULTILINE):
        if part.startswith("#" * level + " "):
            title = part[level + 1 :].replace("`", "").strip()
        elif title:
            found[title] = part
    return found


def rows(text: str) -> list[list[str]]:
    """The rows of all tables, as cells; rules between head and body are left out."""
    found = []
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            if not all(set(cell) <= set("-: ") and cell for cell in cells):
                found.append(cells)
    return found


def code_words(text: str) -> list[str]:
    """Everything between single code marks, outside of fenced blocks."""
    return _CODE.findall(_FENCE.sub("", text))


def quantities(text: str) -> set[float]:
    """The numbers of a cell, in seconds or bytes where they have a unit: "30 s", "4 MiB", "2^53−1"."""
    found: set[float] = set()
    for digits, power, unit in _QUANTITY.findall(text):
        number = int(digits.replace(",", ""))
        found.add((number ** int(power) - 1 if power else number) * _UNITS.get(unit, 1))
    return found


def tree_paths(block: str) -> list[str]:
    """The paths of a drawn tree: two spaces a level, a folder ends with a slash, then its description."""
    found: list[str] = []
    stack: list[str] = []
    for line in block.splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        del stack[depth:]
        stack.append(name)
        found.append("".join(stack))
    return found
