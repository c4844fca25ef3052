"""Missing deletions: authored deletions whose target was not there (T17).

They are no error, the caller is told. Judged on the value before the call, in the order in which they were authored,
depth first. Named as scope-prefixed JSON Pointers, with the first component that was unavailable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from .history import ScopeName
from .merge import Json, is_index_form
from .values import pointer_token


@attrs.frozen
class MissingDeletion:
    """One of them; ``unavailable_path`` is ``path`` itself or a place above it."""

    path: str
    unavailable_path: str

    def to_json(self) -> Json:
        """As the result of a call shows it."""
        return {"path": self.path, "unavailable_path": self.unavailable_path}


def missing_deletions(scope: ScopeName, before: Json, patch: Json) -> tuple[MissingDeletion, ...]:
    """The missing deletions of one scope's patch."""
    return tuple(_below(before, patch, f"/{scope}"))


def _below(target: Any, patch: Json, pointer: str) -> Iterator[MissingDeletion]:
    if type(target) is list and is_index_form(patch):
        for key, value in patch.items():
            if type(value) is dict:
                # An index out of bounds has refused the patch before anybody asks for its missing deletions.
                yield from _below(target[int(key[1:-1])], value, f"{pointer}/{key[1:-1]}")
    elif type(target) is dict:
        for key, value in patch.items():
            if value is None:
                if key not in target:
                    place = pointer + pointer_token(key)
                    yield MissingDeletion(place, place)
            elif type(value) is dict:
                place = pointer + pointer_token(key)
                if key in target:
                    yield from _below(target[key], value, place)
                else:
                    yield from _unavailable(value, place, place)
    else:
        yield from _unavailable(patch, pointer, pointer)


def _unavailable(patch: Json, pointer: str, unavailable: str) -> Iterator[MissingDeletion]:
    """Every deletion of ``patch``, which is aimed at something that is no object or not there."""
    for key, value in patch.items():
        if value is None:
            yield MissingDeletion(pointer + pointer_token(key), unavailable)
        elif type(value) is dict:
            yield from _unavailable(value, pointer + pointer_token(key), unavailable)
