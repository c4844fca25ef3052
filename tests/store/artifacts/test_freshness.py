"""Whether a card still speaks for its source: decisions, hints and the list of what must be compiled anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.holds import holds
from strataflow.store import SCOPES, Json, ScopeName, ScopeState
from strataflow.store.algebra import Boundary, empty_scope
from strataflow.store.algebra.evidence import is_evidence, source_evidence, stored_fingerprint
from strataflow.store.artifacts import (
    MISSING,
    Fingerprint,
    Seen,
    Unavailable,
    decide,
    is_canonical,
    judge,
    list_cards,
    registered_paths,
    resolved,
)

A, B, C = "/src/a", "/src/b", "/src/c"
SEEN = Fingerprint(10, 100)
CARD = {"description": "d"}
PROOF = source_evidence(SEEN)
EMPTY = empty_scope(Boundary("absent", None, 0))


def scopes(**cards: Mapping[str, tuple[Any, Any]]) -> dict[ScopeName, ScopeState]:
    """Scopes from path -> (card, evidence); evidence "none" for none at all."""
    found: dict[ScopeName, ScopeState] = {}
    for name in SCOPES:
        own = cards.get(name, {})
        evidence = {path: entry for path, (_, entry) in own.items() if entry != "none"}
        value = {"artifacts": {path: card for path, (card, _) in own.items()}}
        found[name] = attrs.evolve(EMPTY, value=value, evidence=evidence)
    return found


@holds("A12", "case agent 150")
@pytest.mark.parametrize(
    "card, entry, options, decision",
    [
        (None, None, {}, "new"),
        (CARD, None, {}, "invalid-metadata"),
        ({"description": ""}, PROOF, {}, "invalid-metadata"),
        (CARD, {"compilerRevision": "artifact-v1"}, {}, "invalid-metadata"),
        (CARD, {"sourceHash": "sha256:" + "0" * 64}, {}, "invalid-metadata"),
        (CARD, source_evidence(Fingerprint(11, 100)), {}, "source-changed"),
        (CARD, source_evidence(Fingerprint(10, 99)), {"refresh": True}, "source-changed"),
        (CARD, {**PROOF, "sourceHash": "sha256:" + "0" * 64}, {"source_hash": "sha256:" + "1" * 64}, "source-changed"),
        ({**CARD, "hash": "sha256:" + "0" * 64}, PROOF, {"source_hash": "sha256:" + "1" * 64}, "source-changed"),
        (
            CARD,
            {**PROOF, "sourceHash": "sha256:" + "0" * 64},
            {"source_hash": "sha256:" + "1" * 64, "fingerprint_only": True},
            "current",
        ),
        (CARD, {**PROOF, "compilerRevision": "artifact-v0"}, {"refresh": True}, "compiler-changed"),
        (CARD, {"sourceFingerprint": PROOF["sourceFingerprint"]}, {}, "compiler-changed"),
        (CARD, PROOF, {"refresh": True}, "explicit-refresh"),
        (CARD, PROOF, {}, "current"),
    ],
)
def test_the_decision_about_a_seen_source_is_the_first_that_applies(
    card: Any, entry: Any, options: Json, decision: str
) -> None:
    assert decide(A, card, entry, SEEN, **options) == decision


@holds("A8", "case agent 150")
@given(st.integers(0, 2**53 - 1), st.integers(-(10**19), 10**19))
def test_every_fingerprint_survives_being_stored_also_from_before_1970(size: int, mtime_ns: int) -> None:
    fingerprint = Fingerprint(size, mtime_ns)
    entry = source_evidence(fingerprint)
    assert is_evidence(entry)
    assert stored_fingerprint(entry) == fingerprint
    assert decide(A, CARD, entry, fingerprint) == "current"
    assert decide(A, CARD, entry, Fingerprint(size, mtime_ns + 1)) == "source-changed"


def test_a_stored_time_of_thousands_of_digits_is_no_fingerprint() -> None:
    entry = {"sourceFingerprint": {"size": 1, "mtimeNs": "9" * 5000}, "compilerRevision": "artifact-v1"}
    assert is_evidence(entry)
    assert decide(A, CARD, entry, SEEN) == "invalid-metadata"


@holds("A13", "A14")
def test_a_source_that_grew_is_listed_and_its_card_gets_a_hint() -> None:
    found = judge(scopes(cwd={A: (CARD, PROOF), B: (CARD, PROOF)}), {A: Fingerprint(11, 100), B: SEEN})
    assert found.shown == ({"path": A, "scope": "cwd", "reason": "source-changed"},)
    assert list(found.hints) == [A]
    assert "newer" in found.hints[A]


@holds("A14")
def test_the_list_is_sorted_by_path_and_only_changed_sources_have_hints() -> None:
    cards = dict.fromkeys((C, A, B), (CARD, "none"))
    found = judge(scopes(session=cards), dict.fromkeys((A, B, C), SEEN))
    assert [item.path for item in found.invalidations] == [A, B, C]
    assert {item.reason for item in found.invalidations} == {"invalid-metadata"}
    assert found.hints == {}


@holds("A14")
@pytest.mark.parametrize("seen", [MISSING, Unavailable("a link"), None])
def test_missing_unavailable_and_unseen_sources_are_not_listed(seen: Seen | None) -> None:
    looks = {} if seen is None else {A: seen}
    found = judge(scopes(cwd={A: (CARD, "none")}), looks)
    assert (found.invalidations, found.hints) == ((), {})


@holds("A14")
def test_skills_are_not_listed_by_their_card_or_by_what_a_host_says() -> None:
    cards = {A: ({**CARD, "kind": "skill"}, "none"), B: (CARD, "none"), C: (CARD, "none")}
    found = judge(scopes(cwd=cards), dict.fromkeys((A, B, C), SEEN), skills={B})
    assert [item.path for item in found.invalidations] == [C]


@holds("A13", "A14")
def test_of_several_stale_owners_the_narrowest_is_listed_and_all_are_hinted_at() -> None:
    stale = {A: (CARD, source_evidence(Fingerprint(1, 1)))}
    found = judge(scopes(**{"global": stale, "session": stale, "cwd": stale}), {A: SEEN})
    assert [(item.path, item.scope) for item in found.invalidations] == [(A, "session")]
    lines = found.hints[A].split("\n")
    assert len(lines) == 3
    assert lines == sorted(set(lines))


@holds("A14")
def test_a_current_narrow_card_does_not_hide_that_a_broader_one_is_stale() -> None:
    stale, current = {A: (CARD, source_evidence(Fingerprint(1, 1)))}, {A: (CARD, PROOF)}
    found = judge(scopes(**{"global": stale, "session": current}), {A: SEEN})
    assert [(item.path, item.scope) for item in found.invalidations] == [(A, "global")]
    assert "global" in found.hints[A]


@holds("A12")
def test_malformed_evidence_counts_as_none_at_all() -> None:
    found = judge(scopes(cwd={A: (CARD, None)}), {A: SEEN})
    assert [item.reason for item in found.invalidations] == ["invalid-metadata"]


@holds("A11")
def test_registered_paths_of_all_scopes_are_deduplicated_and_sorted() -> None:
    cards = dict.fromkeys((B, A), (CARD, PROOF))
    assert registered_paths(scopes(**{"global": cards, "session": {C: (CARD, PROOF), A: (CARD, PROOF)}})) == [A, B, C]


@holds("A11")
@pytest.mark.parametrize("path", ["", "a", "./a", "/a/", "/a//b", "/a/./b", "/a/../b", "//a", "/a\0b", "~/a"])
def test_a_path_that_is_not_absolute_and_canonical_can_not_be_inspected(path: str) -> None:
    assert not is_canonical(path)


def test_a_path_that_others_spelled_leads_to_its_registered_spelling() -> None:
    assert resolved("/srv", "src/a") == "/srv/src/a"
    assert resolved("/srv", "/src/./x/../a") == A
    assert resolved("/srv", "//src/a") == A
    assert is_canonical(resolved("/srv", ".."))


def test_the_listing_says_of_every_owner_how_its_card_is() -> None:
    known = scopes(
        **{
            "global": {A: (CARD, PROOF), C: ({**CARD, "kind": "skill", "compilation": {"x": 1}}, "none")},
            "cwd": {A: (CARD, "none"), B: ({**CARD, "tags": ["t"]}, PROOF), "/d": (CARD, PROOF), "/e": (CARD, PROOF)},
        }
    )
    listed = list_cards(known, {A: SEEN, B: MISSING, C: SEEN, "/d": Unavailable("a link")})
    assert [(card.path, card.scope, card.freshness, card.reason) for card in listed] == [
        ("/d", "cwd", "unavailable", "a link"),
        ("/e", "cwd", "unknown", None),
        (A, "global", "current", None),
        (A, "cwd", "invalid-metadata", None),
        (B, "cwd", "missing", None),
        (C, "global", "skill", None),
    ]
    assert [card.path for card in list_cards(known, {}, ["t"])] == [B]
