"""What becomes of one file's content in a power cut: everything that a real disk may have done with unsynced blocks.

``inodes`` states the rules. Between two syncs the blocks of a file reach the disk in any order, and its length on its
own; so a file may be found with one and without the other::

    as it was      neither the length nor anything else arrived (also: blocks arrived, the length did not)
    whole          everything arrived
    short          it ends where some append ended, everything up to there arrived
    zeros          the length arrived, no block did
    torn           it ends anywhere it ever ended or at a border of blocks, each block arrived or not

A block that did not arrive reads as zeros, or, in one torn cut of eight, as what some other file once had there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Literal, final

BLOCK_BYTES = 512
CrashMode = Literal["lose", "keep", "torn"]
Range = tuple[int, int]

_WAYS = ("as it was", "whole", "short", "zeros", "torn", "torn", "torn")
_STALE_SHARE = 1 / 8


@final
class Fate:
    """Decides what survives one power cut. Each of the methods is asked once for each thing at risk.

    ``"lose"`` is the least that was promised, ``"keep"`` everything, ``"torn"`` draws for each thing.
    """

    def __init__(self, mode: CrashMode, chance: random.Random) -> None:
        self._mode = mode
        self._chance = chance
        # Drawn once for each cut, so that cuts with nearly all and nearly nothing kept are common.
        self._share = chance.choice((0.1, 0.5, 0.9))
        self._is_stale = mode == "torn" and chance.random() < _STALE_SHARE

    def keeps_name(self) -> bool:
        return self._mode == "keep" or (self._mode == "torn" and self._chance.random() < self._share)

    def content(self, content: bytes, durable_size: int, unsynced: list[Range], doomed: list[Range]) -> bytes:
        """The content of a file after the cut (R1, R2). Ranges are byte offsets, end excluded."""
        if self._mode == "keep":
            return content
        way = "as it was" if self._mode == "lose" else self._chance.choice(_WAYS)
        ends = [durable_size, *(end for _, end in unsynced)]
        if way == "whole":
            size, arrives = len(content), True
        elif way == "short":
            size, arrives = self._chance.choice(ends), True
        elif way == "torn":
            size, arrives = self._chance.choice([*ends, *_borders(durable_size, len(content))]), None
        else:
            size, arrives = (durable_size if way == "as it was" else len(content)), False
        return self._blocks(content[:size], unsynced + doomed, arrives)

    def _blocks(self, content: bytes, at_risk: list[Range], arrives: bool | None) -> bytes:
        """The content with the blocks at risk as they are found. ``arrives`` None: each one draws."""
        found = bytearray(content)
        drawn: dict[int, bool] = {}
        for start, end in _cut(at_risk):
            block = start // BLOCK_BYTES
            if block not in drawn:  # two appends may share a block
                drawn[block] = self._chance.random() < self._share if arrives is None else arrives
            end = min(end, len(found))
            if not drawn[block] and start < end:
                size = end - start
                found[start:end] = self._chance.randbytes(size) if self._is_stale else bytes(size)
        return bytes(found)


def _borders(old: int, new: int) -> Iterable[int]:
    """The ends of blocks between two sizes."""
    return range((old // BLOCK_BYTES + 1) * BLOCK_BYTES, new, BLOCK_BYTES)


def _cut(ranges: list[Range]) -> Iterator[Range]:
    """The ranges, cut at the borders of blocks."""
    for start, end in ranges:
        while start < end:
            border = min(end, (start // BLOCK_BYTES + 1) * BLOCK_BYTES)
            yield start, border
            start = border
