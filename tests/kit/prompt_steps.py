"""Random patches that meet everything a receipt has to tell: indexes, nulls, references, cards; and the true state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from kit.naive_model import naive_overlay, naive_prune
from strataflow.store.algebra import PLANES, SCOPES, ScopeName, ScopeState

Json = dict[str, Any]

KEYS = st.sampled_from(["a", "b", "[0]", "[1]"])
SCALARS = st.sampled_from(["x", "y", 1, 2, True])
REFS = st.sampled_from(["session.working.a", "cwd.working.a.b", "cwd.lazy.b", "global.working.b", "$working.a", "x"])


# An array holds no null: it would be refused.
ITEMS = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.dictionaries(KEYS, below, max_size=3), st.lists(below, max_size=3)),
    max_leaves=4,
)
PATCH_VALUES = st.recursive(
    st.one_of(SCALARS, st.none()),
    lambda below: st.one_of(st.dictionaries(KEYS, below, max_size=3), st.lists(ITEMS, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, PATCH_VALUES, max_size=3)
CARDS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"description": st.sampled_from(["one", "two"])},
        optional={"kind": st.sampled_from(["m", None]), "compilation": OBJECTS, "tags": st.just(["t"])},
    ),
    st.fixed_dictionaries({}, optional={"kind": st.sampled_from(["m", None]), "note": PATCH_VALUES}),
)
INTENTS = st.dictionaries(st.sampled_from(["i", "j"]), st.one_of(st.none(), st.builds(lambda ref: {"$ref": ref}, REFS)))
SCOPE_PATCHES = st.fixed_dictionaries(
    {},
    optional={
        "working": OBJECTS,
        "contract": OBJECTS,
        "intents": INTENTS,
        "lazy": OBJECTS,
        "artifacts": st.dictionaries(st.sampled_from(["/p", "/q"]), CARDS, max_size=2),
    },
).filter(bool)
PATCHES = st.dictionaries(st.sampled_from(SCOPES), SCOPE_PATCHES, min_size=1, max_size=3)
FOREIGN = st.dictionaries(st.sampled_from(["global", "cwd"]), SCOPE_PATCHES, min_size=1, max_size=2)


def projected_state(scopes: Mapping[ScopeName, ScopeState], mode: str) -> Json:
    """The projected state, by the slow model."""
    laid: Json = {}
    for scope in SCOPES:
        laid = naive_overlay(laid, {k: v for k, v in scopes[scope].value.items() if k != "response"})
    answer = next((text for s in reversed(SCOPES) if (text := scopes[s].value.get("response"))), None)
    if answer and mode == "active":
        laid["response"] = answer
    state: Json = naive_prune({plane: laid[plane] for plane in PLANES if plane in laid and plane != "lazy"})
    return state
