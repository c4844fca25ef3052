"""The memory that is measured: documents of a given size, and patches of about a hundred bytes for them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_GROUP = 100
_WORDS = "the quick brown fox jumps over the lazy dog while five wizards box in the old mill and nobody minds at all; "


def strings(size_bytes: int) -> Json:
    """A scope of about ``size_bytes`` as JSON: strings of 1,000 characters, a hundred to an object."""
    return _grouped(size_bytes, 1_012, lambda number: (_WORDS * 10)[: 1_000 - len(str(number))] + str(number))


def objects(size_bytes: int) -> Json:
    """A scope of about ``size_bytes`` as JSON: objects of 70 bytes, a hundred to an object."""

    def item(number: int) -> Json:
        return {"id": 1_000_000 + number, "name": f"item {number:07}", "ok": number % 2 == 0, "at": number / 8}

    return _grouped(size_bytes, 70, item)


def _grouped(size_bytes: int, item_bytes: int, item: Any) -> Json:
    groups: dict[str, Json] = {}
    for number in range(max(1, size_bytes // item_bytes)):
        groups.setdefault(f"g{number // _GROUP:04}", {})[f"k{number:06}"] = item(number)
    return {"lazy": groups}


def small_patch(turn: int) -> Json:
    """A patch of 100 bytes that always changes something and keeps the document's size."""
    note = f"{turn:08} what was seen in this step, in one short line of a log"
    return {"working": {"notes": {f"n{turn % 50:02}": note}}}
