"""A scope that a reload could not read, while others go on writing.

Goal: its trouble is named by its cause, for as long as that lasts. Method: everything is loaded anew, as after a life
that broke, and one scope's files can not be read at that moment; then rows of another process are followed.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from kit.stores import OpenedStore
from strataflow.store import StoreError, load_for_writing, wanted_scopes


def test_rows_of_others_do_not_hide_why_a_scope_could_not_be_read(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    other = OpenedStore.open(root, "other")
    store = OpenedStore.open(root, "own", session_id="second")
    other.patch(global_={"working": {"n": 1}})
    store.follow()
    other.patch(global_={"working": {"n": 2}})

    loaded = load_for_writing(store.ground, store.journal, store.memory.wanted(), store.stamp, after=None)
    cause = StoreError("E_DISK", "checkpoint.json: input/output error")
    broken = attrs.evolve(loaded.scopes[""], error=cause)
    assert store.memory.install(attrs.evolve(loaded, scopes={**loaded.scopes, "": broken}), whole=True)
    other.patch(global_={"working": {"n": 3}}, cwd={"working": {"n": 3}})
    store.follow()

    assert store.read("cwd.working.n") == 3
    for _ in range(2):
        with pytest.raises(StoreError, match="input/output error") as caught:
            store.read("global.working.n")
        assert caught.value.code == "E_DISK"
        other.patch(global_={"working": {"m": 4}})
        store.follow()
    store.session("second")
    assert store.read("global.working.n") == 3
    other.abandon()
    store.abandon()


def test_a_session_that_could_not_be_read_survives_that_others_write_it(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    other = OpenedStore.open(root, "other")
    other.set_mode("active")
    other.patch(session={"working": {"n": 1}})
    store = OpenedStore.open(root, "own", session_id="second")

    ground, own = store.ground, other.default
    loaded = load_for_writing(ground, store.journal, wanted_scopes(own), store.stamp, after=store.memory.head)
    scope = own.scope("session")
    broken = attrs.evolve(loaded.scopes[scope], error=StoreError("E_DISK", "meta.json: input/output error"))
    assert store.memory.install(attrs.evolve(loaded, scopes={**loaded.scopes, scope: broken}))
    store.memory.accept(own, {})
    other.patch(session={"working": {"n": 2}})
    store.follow()

    with pytest.raises(StoreError, match="input/output error"):
        store.read("session.working.n", own)
    assert store.read("global", own) == {}
    assert store.session("main") == own
    assert store.read("session.working.n", own) == 2
    assert store.patch(own, session={"working": {"n": 3}}).changed
    other.abandon()
    store.abandon()
