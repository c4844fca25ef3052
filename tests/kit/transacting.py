"""Functions for ``session.transact``, as tests need them."""

from __future__ import annotations

from typing import Any

from strataflow import ReadError, Session, Transaction


def number_of(tx: Transaction, path: str = "cwd.working.n") -> int:
    try:
        return int(tx.read(path).value)
    except ReadError:
        return 0


def increment(tx: Transaction) -> int:
    found = number_of(tx) + 1
    tx.patch(cwd={"working": {"n": found}})
    return found


def interfering(session: Session, times: int) -> Any:
    """A function that meets a conflict so many times, and the list of what it saw."""
    saw: list[int] = []

    async def function(tx: Transaction) -> str:
        saw.append(number_of(tx))
        if len(saw) <= times:
            await session.patch_state(cwd={"working": {"n": 10 * len(saw)}})
        tx.patch(cwd={"working": {"n": saw[-1] + 1}})
        return f"after {len(saw)}"

    return function, saw
