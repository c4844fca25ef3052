"""The model: what three scopes hold after a call, according to what the call asked for.

Nothing here knows how a store works. A call that was accepted changes its scopes by its patches, one after another,
and each scope whose value is another one afterwards has one revision more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from ....store import Json
from ..history import Call, Read
from .paths import NAMES, PLANES, Trio, look, parse
from .values import ABSENT, ANY, Difference, Keys, differences, merged, orphans, pruned, same, with_leaf

Names = tuple[str, str, str]
# The three scopes as they were so many boundaries ago, or None if that can not be said.
Past = Callable[[int], Trio | None]


@attrs.frozen
class Held:
    """A scope at one moment. ``is_raw``: others wrote it, so the next patch prunes all of it.

    ``revision`` None: not known, because nobody asked the files of others for theirs.
    """

    value: Json
    revision: int | None = 0
    is_raw: bool = False


EMPTY: Final = Held({})
World = Mapping[str, Held]


@functools.lru_cache(4096)
def scope_names(cwd: str, session: str) -> Names:
    """The folders of a session's scopes."""
    bare = cwd[1:] if cwd[:1] in ("/", "\\") else cwd
    folder = "--" + bare.replace("/", "-").replace("\\", "-").replace(":", "-") + "--"
    return "", folder, f"{folder}/{session}"


def own_planes(value: Json) -> Json:
    """A scope's value as it counts: its planes, and no answer that is empty."""
    if value.keys() <= set(PLANES) and value.get("response") != "":
        return value
    return {plane: item for plane, item in value.items() if plane in PLANES and item != ""}


def trio_of(world: World, names: Names) -> Trio:
    """The values of three scopes."""
    return (
        world.get(names[0], EMPTY).value,
        world.get(names[1], EMPTY).value,
        world.get(names[2], EMPTY).value,
    )


def steps_of(call: Call) -> list[Read | Json]:
    """What a call does, in order: reads, and patches by scope."""
    return list(call.steps) if call.kind in ("transaction", "read") else [call.patches]


@attrs.frozen
class Taken:
    """What a call does to three scopes, and what it finds there.

    Attributes:
      before, after: the values.
      misread: the leaves that its reads found otherwise, each with the read.
      gone: what went with its intent: index of the scope, and place.
    """

    before: Trio
    after: Trio
    misread: list[tuple[Read, Difference]]
    gone: list[tuple[int, Keys]]

    def changed(self) -> tuple[bool, bool, bool]:
        """Which of the three scopes are others now."""
        old, new = self.before, self.after
        return not same(old[0], new[0]), not same(old[1], new[1]), not same(old[2], new[2])


def take(call: Call, values: Trio, raw: tuple[int, ...] = ()) -> Taken:
    """Run a call on three scopes, of which those with an index in ``raw`` are to be pruned.

    Raises:
      Unfit: no store can have accepted it.
    """
    misread: list[tuple[Read, Difference]] = []
    gone: list[tuple[int, Keys]] = []
    after = values
    for step in steps_of(call):
        if isinstance(step, Read):
            misread += [(step, difference) for difference in misread_in(step, after)]
        else:
            after = patched(after, step, raw, gone)
    return Taken(values, after, misread, gone)


def patched(values: Trio, patches: Json, raw: tuple[int, ...], gone: list[tuple[int, Keys]]) -> Trio:
    """Three scopes after the patches of one step; notes in ``gone`` what went with its intent. Raises Unfit."""
    found: list[Any] = list(values)
    for index, name in enumerate(NAMES):
        patch = patches.get(name)
        if not patch or found[index] is ANY:
            continue
        before = pruned(found[index]) if index in raw else found[index]
        if "response" in patch:
            is_old = patch["response"] == before.get("response", "")
            found[index] = before if is_old else own_planes({**before, "response": patch["response"]})
            continue
        after = merged(before, patch)
        for target in orphans(name, before, after, patch):
            after = with_leaf(after, target, ABSENT)
            gone.append((index, target))
        found[index] = after
    return found[0], found[1], found[2]


def found_by(read: Read) -> Any:
    """What a read says it found."""
    return ABSENT if read.is_absent or read.found is None else read.found


def misread_in(read: Read, values: Trio, past: Past | None = None) -> Iterator[Difference]:
    """The leaves that a read of these values found otherwise than it should have; none if it is not judged.

    A place is one of the whole scope. What is read inside of an array differs at the place of the array.
    """
    path = parse(read.path)
    if path is None:
        return
    found = found_by(read)
    seen: Trio | None = values
    if path.offset:
        # An error there is not judged: how much of the past a store keeps is its own affair.
        seen = past(path.offset) if past is not None and found is not ABSENT else None
    if seen is None:
        return
    right = look(path, seen, read.projection)
    if found is right:
        return
    if path.rest:
        if right is not ANY and not same(found, right):
            yield path.place, found, right
    else:
        yield from differences(found, right, path.place)
