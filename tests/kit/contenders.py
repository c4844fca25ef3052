"""One of several real processes that patch one store at once. Run as a program::

    python tests/kit/contenders.py STORE NAME COUNT

It opens the store, says "ready", waits for a line on its input, patches ``COUNT`` times as fast as it can, three scopes
at a time, from two tasks, and prints a JSON object: how long each call waited, and the rows in the order of sending.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import trio

from strataflow.runtime import open_runtime


async def main(store: str, name: str, count: int) -> None:
    async with open_runtime(store=store, durability="process") as runtime:
        session = await runtime.open_session("/project", name, "active")
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        waits: list[float] = []
        rows: list[int] = []

        async def patch(number: int) -> None:
            change = {"working": {f"{name}-{number}": number}}
            started = trio.current_time()
            receipt = await session.patch_state(global_=change, cwd=change, session=change)
            waits.append(trio.current_time() - started)
            rows.append(receipt.seq)

        for number in range(0, count, 2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(patch, number)
                nursery.start_soon(patch, number + 1)
        answer: dict[str, Any] = {"waits": waits, "rows": rows}
        print(json.dumps(answer), flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
