"""The handles for asyncio have the names and arguments of the trio ones, or a stated reason why not."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import strataflow
from strataflow import aio
from strataflow.runtime.aio.backups import Backups as AioBackups
from strataflow.runtime.aio.work import RunContext, TransactionContext
from strataflow.runtime.run import RunContext as TrioRunContext
from strataflow.runtime.transactions import TransactionContext as TrioTransactionContext

_FOR_THE_RUNTIME = "not for authors: the library's own modules call it, on the trio loop"
MISSING = {
    ("Runtime", "prompts"): _FOR_THE_RUNTIME,
    ("Runtime", "desk"): _FOR_THE_RUNTIME,
    ("Runtime", "hub"): _FOR_THE_RUNTIME,
    ("Runtime", "check"): _FOR_THE_RUNTIME,
    ("Runtime", "fork_session"): _FOR_THE_RUNTIME,
    ("Runtime", "close_session"): _FOR_THE_RUNTIME,
    ("Runtime", "log_for"): _FOR_THE_RUNTIME,
}
# A wait without a checkpoint of its own can not be told from a call here.
AWAITED_ON_BOTH_SIDES = {("Transaction", "retry")}
HANDLES = ("Runtime", "Session", "Run", "Transaction", "Watch")


def public_members(handle: type) -> dict[str, Any]:
    names = {name for name in dir(handle) if not name.startswith("_")} | {"__aenter__", "__aexit__", "__anext__"}
    fields = {field.name for field in getattr(handle, "__attrs_attrs__", ()) if not field.name.startswith("_")}
    return {name: getattr(handle, name, None) for name in names | fields if hasattr(handle, name) or name in fields}


@pytest.mark.parametrize("name", HANDLES)
def test_every_public_member_of_a_trio_handle_is_on_the_asyncio_side(name: str) -> None:
    ours, theirs = public_members(getattr(aio, name)), public_members(getattr(strataflow, name))
    reasons = {member for handle, member in MISSING if handle == name}
    assert set(theirs) - set(ours) == reasons
    assert set(ours) - set(theirs) == set()


def shape(call: Any) -> list[tuple[str, Any, Any]]:
    return [(found.name, found.kind, found.default) for found in inspect.signature(call).parameters.values()]


@pytest.mark.parametrize("name", HANDLES)
def test_the_calls_of_both_sides_take_the_same_arguments(name: str) -> None:
    theirs = public_members(getattr(strataflow, name))
    for member, call in public_members(getattr(aio, name)).items():
        if not inspect.isfunction(call):
            continue
        assert shape(call) == shape(theirs[member]), f"{name}.{member}"
        if (name, member) not in AWAITED_ON_BOTH_SIDES:
            waits = inspect.iscoroutinefunction(call)
            assert waits == inspect.iscoroutinefunction(theirs[member]), f"{name}.{member}"


def test_backups_of_both_sides_take_the_same_arguments() -> None:
    ours, theirs = public_members(AioBackups), public_members(strataflow.Backups)
    assert ours.keys() == theirs.keys()
    for member in ("now", "wait_pushed", "status"):
        assert shape(ours[member]) == shape(theirs[member])


def test_opening_and_the_contexts_of_both_sides_take_the_same_arguments() -> None:
    assert shape(aio.open_runtime) == shape(strataflow.open_runtime)
    assert set(public_members(RunContext)) <= set(public_members(TrioRunContext))
    assert set(public_members(TransactionContext)) == set(public_members(TrioTransactionContext))
