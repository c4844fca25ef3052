"""Ids of a simulated world: the same seed gives the same ids in the same order."""

from __future__ import annotations

import random
import uuid
from typing import final

import attrs


@final
@attrs.define(eq=False)
class SeededIds:
    """Version 4 UUIDs from a generator of its own, so that nobody else's draws shift them."""

    seed: int
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(f"ids {self.seed}")

    def new_id(self) -> str:
        """The next UUID: 36 characters, lower case."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
