"""Random JSON for property tests: few keys, so that patches meet what is there; no booleans beside 0 and 1.

Python's own ``==``, which the slow model uses, takes ``True`` for ``1``; both kinds are drawn where ``same`` judges.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

KEYS = st.sampled_from(["a", "b", "c", "[0]", "[1]", "é", ""])
SCALARS = st.sampled_from(["", "x", "y", 2, -3, 2.5, True, False])
NULLS = st.none()


def containers(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[str] = KEYS) -> st.SearchStrategy[Any]:
    """Values over ``leaves``: arrays and objects, a few levels deep. Arrays never hold null."""
    return st.recursive(
        leaves,
        lambda below: st.one_of(
            st.dictionaries(keys, below, max_size=4), st.lists(below.filter(has_no_null), max_size=3)
        ),
        max_leaves=12,
    )


def has_no_null(value: Any) -> bool:
    """Whether a value can stand inside an array."""
    if isinstance(value, dict):
        return all(has_no_null(item) for item in value.values())
    if isinstance(value, list):
        return all(has_no_null(item) for item in value)
    return value is not None


VALUES = containers(SCALARS)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
PATCHES = st.dictionaries(KEYS, containers(st.one_of(SCALARS, NULLS)), max_size=5)
PLANES = st.sampled_from(["working", "contract", "lazy"])
SCOPE_VALUES = st.dictionaries(PLANES, OBJECTS, max_size=3)
SCOPE_PATCHES = st.dictionaries(PLANES, PATCHES, min_size=1, max_size=2)
CALLS = st.dictionaries(st.sampled_from(["global", "cwd", "session"]), SCOPE_PATCHES, min_size=1, max_size=3)
