"""What a receipt tells of what was there before, and that nobody pays for it who does not ask."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from kit.json_strategies import CALLS, SCOPE_VALUES
from kit.tiny_stores import TinyStore
from strataflow.store import CallError, receipts
from strataflow.store.algebra import pointer_token, same


def test_arrays_and_scalars_that_were_replaced_or_deleted_are_told_by_pointer() -> None:
    store = TinyStore()
    main = store.open()
    old: Any = {"list": [1, {"a": 2}], "n": 1, "gone": True, "tree": {"x": 1, "y": {"z": [2]}}, "kept": 0}
    assert store.patch(main, cwd={"working": old}).replaced == {}
    receipt = store.patch(
        main, cwd={"working": {"list": {"[0]": 9}, "n": "one", "gone": None, "tree": None, "new": 1, "kept": 0}}
    )
    assert receipt.replaced == {
        "/cwd/working/list": [1, {"a": 2}],
        "/cwd/working/n": 1,
        "/cwd/working/gone": True,
        "/cwd/working/tree/x": 1,
        "/cwd/working/tree/y/z": [2],
    }


def test_keys_with_slashes_and_tildes_are_escaped_in_pointers() -> None:
    store = TinyStore()
    main = store.open()
    store.patch(main, global_={"lazy": {"a/b~c": 1}})
    assert store.patch(main, global_={"lazy": {"a/b~c": 2}}).replaced == {"/global/lazy/a~1b~0c": 1}


def test_what_a_cascade_and_an_answer_take_away_is_told_too() -> None:
    store = TinyStore()
    main = store.open()
    store.patch(main, session={"working": {"plan": "x"}, "intents": {"ship": {"at": {"$ref": "session.working.plan"}}}})
    receipt = store.patch(main, session={"intents": {"ship": None}})
    assert receipt.replaced == {"/session/working/plan": "x", "/session/intents/ship/at/$ref": "session.working.plan"}
    for text, before in (("one", {}), ("two", {"/session/response": "one"})):
        answer = store.commit(lambda draft, text=text: draft.stage_response(main, text))  # type: ignore[misc]
        assert answer.replaced == before


def test_what_is_told_is_a_copy_and_each_time_a_new_one() -> None:
    store = TinyStore()
    main = store.open()
    store.patch(main, cwd={"working": {"list": [1, 2]}})
    receipt = store.patch(main, cwd={"working": {"list": [3]}})
    receipt.replaced["/cwd/working/list"].append("mine")
    assert receipt.replaced == {"/cwd/working/list": [1, 2]}


def test_the_tool_protocol_and_the_journal_know_nothing_of_it() -> None:
    store = TinyStore()
    main = store.open()
    store.patch(main, cwd={"working": {"list": [1, 2]}})
    receipt = store.patch(main, cwd={"working": {"list": [3]}})
    assert "replaced" not in receipt.to_json()
    remembered = receipts.receipt_from(receipts.receipt_row(receipt))
    assert remembered == receipt
    assert remembered.replaced == {}
    assert "[1, 2]" not in repr(receipt)


def test_nothing_is_worked_out_until_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    store = TinyStore()
    main = store.open()
    store.patch(main, cwd={"working": {"list": [1, 2]}})
    monkeypatch.setattr(receipts, "_replaced", lambda *_: pytest.fail("worked out"))
    store.patch(main, cwd={"working": {"list": [3]}})


def _leaves(value: Any, pointer: str) -> dict[str, Any]:
    if type(value) is not dict:
        return {pointer: value}
    found = {}
    for key, item in value.items():
        found.update(_leaves(item, pointer + pointer_token(key)))
    return found


@given(SCOPE_VALUES, CALLS)
def test_what_is_told_is_every_leaf_that_is_not_there_any_more(value: Any, call: Any) -> None:
    store = TinyStore()
    main = store.open()
    if value:
        store.patch(main, global_=value, cwd=value, session=value)
    before = {**dict(zip(("global", "cwd", "session"), store.values(main), strict=True))}
    try:
        receipt = store.patch(main, **call)
    except CallError:
        return
    old, new = _leaves(before, ""), _leaves(dict(zip(before, store.values(main), strict=True)), "")
    missing = object()
    expected = {at: item for at, item in old.items() if at and not same(item, new.get(at, missing))}
    assert receipt.replaced.keys() == expected.keys()
    assert same(receipt.replaced, expected)
