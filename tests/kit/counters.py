"""One of several real processes that count in one place of one store. Run as a program::

    python tests/kit/counters.py STORE NAME COUNT [DURABILITY]

It opens the store, says "ready", waits for a line on its input, increments ``global.working.count`` ``COUNT`` times by
``transact``, and prints a JSON object: how many attempts each increment took, and the counts it left.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import trio

from strataflow.runtime import Durability, ReadError, open_runtime


async def main(store: str, name: str, count: int, durability: Durability) -> None:
    async with open_runtime(store=store, durability=durability) as runtime:
        session = await runtime.open_session("/project", name, "active")
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        attempts: list[int] = []
        counts: list[int] = []
        for _ in range(count):
            taken = 0

            def increment(tx: Any) -> int:
                nonlocal taken
                taken += 1
                try:
                    found = tx.read("global.working.count").value + 1
                except ReadError:
                    found = 1
                tx.patch(global_={"working": {"count": found}})
                return int(found)

            counts.append(await session.transact(increment))
            attempts.append(taken)
        answer: dict[str, Any] = {"attempts": attempts, "counts": counts}
        print(json.dumps(answer), flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "process")
