"""Functions of transactions as data, so that one function can be run in different places and its looks compared.

A program is a list of steps. ``("read", path, projection)`` looks; ``("patch", patches)`` changes something; with
``("copy", path, key)`` the change depends on a look. What a program saw is a list: values, codes of errors, None for
each accepted patch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs
from hypothesis import strategies as st

from kit.json_strategies import CALLS
from strataflow.store import Attempt, SessionAddress, StrataflowError

Step = tuple[Any, ...]
Program = list[Step]

SESSIONS = ("main", "other")
_PLANES = st.sampled_from(["working", "contract", "lazy"])
_STEPS = st.sampled_from([".a", ".b", ".c", "[0]", "[1]", "[0:1]"])
_ROOTS = st.sampled_from(["global.", "cwd.", "session.", "", "effective."])
PRESENT_PATHS = st.builds(
    lambda root, plane, steps: f"{root}{plane}{''.join(steps)}", _ROOTS, _PLANES, st.lists(_STEPS, max_size=2)
)
PAST_PATHS = st.builds(
    lambda root, offset, plane: f"{root}[{offset}].{plane}",
    st.sampled_from(["global", "cwd", "session", "effective"]),
    st.integers(0, 3),
    _PLANES,
) | st.sampled_from(["cwd.patches[0]", "global.patches[1]", "session.patches"])
PROJECTIONS = st.sampled_from(["value", "value", "keys"])

STEPS = st.one_of(
    st.tuples(st.just("read"), PRESENT_PATHS, PROJECTIONS),
    st.tuples(st.just("patch"), CALLS),
    st.tuples(st.just("copy"), PRESENT_PATHS, st.sampled_from(["a", "b"])),
)
STEPS_WITH_PAST = STEPS | st.tuples(st.just("read"), PAST_PATHS, st.just("value"))


@attrs.define(eq=False)
class Running:
    """A program in the middle of its run."""

    session: SessionAddress
    program: Program
    attempt: Attempt
    saw: list[Any] = attrs.field(factory=list)
    at: int = 0

    @property
    def is_done(self) -> bool:
        return self.at == len(self.program)

    def step(self) -> None:
        """One step."""
        self.saw.extend(taken(self.attempt, self.program[self.at]))
        self.at += 1

    def to_end(self) -> list[Any]:
        """All that are left; everything it saw."""
        while not self.is_done:
            self.step()
        return self.saw


def taken(attempt: Attempt, step: Step) -> Iterator[Any]:
    """Take one step; what the function sees."""
    if step[0] == "patch":
        yield patched(attempt, step[1])
        return
    found = seen(attempt, step[1], step[2] if step[0] == "read" else "value")
    yield found
    if step[0] == "copy":
        # The order of keys means nothing in JSON, and a function that looks at it is at fault itself.
        yield patched(attempt, {"session": {"working": {step[2]: json.dumps(found, sort_keys=True)}}})


def seen(attempt: Attempt, path: str, projection: Any) -> Any:
    """A look: the value, or the code of its error."""
    try:
        found = attempt.read(path, projection)
    except StrataflowError as error:
        return error.code
    return (found.value, found.keys, found.meta, found.patch, found.transition_id)


def patched(attempt: Attempt, patches: Any) -> str | None:
    """A patch: None, or the code of its refusal."""
    try:
        attempt.patch(patches)
    except StrataflowError as error:
        return error.code
    return None
