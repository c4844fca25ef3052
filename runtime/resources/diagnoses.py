"""What went wrong with a resource: data for whoever loaded it. Loading itself never fails for one bad file."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen
class ResourceDiagnosis:
    """One file, and what is wrong with it.

    Attributes:
      kind: ``warning``: used all the same, or left out, as ``message`` says. ``unreadable``: something is there and
        could not be read. ``collision``: another resource of this kind has the same name and is used instead.
      message: what is wrong, in words.
      path: the file or folder; of a collision the one that is not used.
      winner: of a collision the file that is used, else None.
    """

    kind: Literal["warning", "unreadable", "collision"]
    message: str
    path: str
    winner: str | None = None
