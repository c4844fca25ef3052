"""Where the text of each entry is: in the file, or in memory as long as there is no file. Read when it is asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import final

import attrs

from ..algebra import StoreError
from ..disk_paths import named
from .files import READ_BYTES, SessionFile
from .lines import Entry, parse_line

_GAP_BYTES_MAX = 4096  # reading so much in vain costs less than another call


def _numbers() -> array[int]:
    return array("q")


@final
@attrs.define(eq=False)
class Texts:
    """The lines of a session's entries by place (see ``Tree``)."""

    file: SessionFile | None
    _starts: array[int] = attrs.field(factory=_numbers)
    _sizes: array[int] = attrs.field(factory=_numbers)
    _held: dict[int, bytes] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self._starts)

    def add_in_file(self, start: int, size: int) -> None:
        """The next entry is in the file."""
        self._starts.append(start)
        self._sizes.append(size)

    def add_held(self, line: bytes) -> None:
        """The next entry is only here."""
        self._held[len(self)] = line
        self.add_in_file(-1, len(line))

    def lines(self, places: Iterable[int]) -> Iterator[bytes]:
        """The lines at these places, in that order; neighbours in the file are read together."""
        group: list[int] = []
        for place in places:
            if group and not self._joins(group, place):
                yield from self._read(group)
                group = []
            group.append(place)
        if group:
            yield from self._read(group)

    def _joins(self, group: Sequence[int], place: int) -> bool:
        first, last, start = self._starts[group[0]], group[-1], self._starts[place]
        if first < 0 or start < 0:
            return False
        gap = start - self._starts[last] - self._sizes[last]
        return 0 <= gap <= _GAP_BYTES_MAX and start + self._sizes[place] - first <= READ_BYTES

    def _read(self, group: Sequence[int]) -> Iterator[bytes]:
        base = self._starts[group[0]]
        if base < 0:
            yield self._held[group[0]]
            return
        assert self.file is not None
        size = self._starts[group[-1]] + self._sizes[group[-1]] - base
        block = self.file.seams.parts.read_part(self.file.path, base, size) or b""
        for place in group:
            start = self._starts[place] - base
            yield block[start : start + self._sizes[place]]

    def entries(self, places: Sequence[int], ids: Sequence[str]) -> Iterator[Entry]:
        """The entries at these places.

        Args:
          ids: of all places.

        Raises:
          StoreError: E_CHANGED if the file does not hold there any more what it held; E_DISK.
        """
        for place, line in zip(places, self.lines(places), strict=True):
            found = parse_line(line)
            if found is None or found.get("id") != ids[place]:
                path = self.file.path if self.file is not None else ""
                text = f"the session file {named(path)} was changed in place by another program; open it again"
                raise StoreError("E_CHANGED", text, path=path)
            yield found
