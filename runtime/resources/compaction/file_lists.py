"""Which files a conversation has read and changed: a summary names them, so that a model need not look again (host
3.6). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from .entries import Entry
from .tokens import blocks_of


@attrs.frozen
class FileOperations:
    """Paths as tools got them."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    edited: frozenset[str] = frozenset()

    def __or__(self, other: FileOperations) -> FileOperations:
        return FileOperations(self.read | other.read, self.written | other.written, self.edited | other.edited)

    @property
    def modified_files(self) -> list[str]:
        """What was written or edited, sorted."""
        return sorted(self.written | self.edited)

    @property
    def read_files(self) -> list[str]:
        """What was only read, sorted."""
        return sorted(self.read - self.written - self.edited)

    def details(self) -> dict[str, list[str]]:
        """As an entry keeps them in its ``details``."""
        return {"readFiles": self.read_files, "modifiedFiles": self.modified_files}

    def text(self) -> str:
        """As they stand behind a summary; empty if there are none."""
        return _listed("read-files", self.read_files) + _listed("modified-files", self.modified_files)


def _listed(tag: str, paths: list[str]) -> str:
    return "\n".join(["\n", f"<{tag}>", *paths, f"</{tag}>"]) if paths else ""


_LISTS = re.compile(r"(\n\n<(read|modified)-files>\n.*?\n</\2-files>)+\Z", re.DOTALL)


def without_lists(summary: str) -> str:
    """A summary's text without the lists behind it."""
    return _LISTS.sub("", summary)


def operations_of_messages(messages: Iterable[Mapping[str, Any]]) -> FileOperations:
    """From the tool calls of answers."""
    paths: dict[str, set[str]] = {"read": set(), "write": set(), "edit": set()}
    for message in messages:
        for block in blocks_of(message) if message.get("role") == "assistant" else ():
            arguments = block.get("arguments")
            path = arguments.get("path") if isinstance(arguments, Mapping) else None
            if block.get("type") == "toolCall" and isinstance(path, str) and block.get("name") in paths:
                paths[block["name"]].add(path)
    return FileOperations(*map(frozenset, paths.values()))


def operations_of_summary(entry: Entry) -> FileOperations:
    """Carried on from an earlier summary of our own; what an extension wrote there is its own business."""
    details = entry.get("details")
    if entry.get("fromHook") or not isinstance(details, Mapping):
        return FileOperations()
    return FileOperations(read=_paths(details.get("readFiles")), edited=_paths(details.get("modifiedFiles")))


def _paths(value: object) -> frozenset[str]:
    return frozenset(path for path in value if isinstance(path, str)) if isinstance(value, list) else frozenset()
