"""Runs and sessions in the hands of somebody who gives them anything: refused with a code, in every mode alike."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import opened, refused, session_of
from strataflow.runtime import Mode, StrataflowError

MESSAGE: dict[str, Any] = {"role": "user", "content": "hi", "timestamp": 1}
ANYTHING: list[Any] = [
    None, 5, "x", b"x", [], {}, [None], ["x"], [[]], [{}], [{1: 2}], ({"role": "user"},), iter([]), {1},
    *([{**MESSAGE, "content": content}] for content in (None, 5, b"x", {}, [None], ["x"], [{"type": []}], "\ud800")),
    *([{**MESSAGE, "timestamp": moment}] for moment in (None, True, "x", [], float("nan"), 10**400)),
    [{"role": [], "content": [{"type": "text", "text": 5}]}],
    [{"role": "assistant", "content": [{"type": "toolCall"}]}],
    [{"role": "assistant", "content": [{"type": "toolCall", "id": [], "name": "patch_state", "arguments": 5}]}],
    [{"role": "toolResult", "toolCallId": [], "toolName": [], "content": 5, "details": object()}],
    [{"role": "custom", "customType": [], "content": None}],
]  # fmt: skip


@pytest.mark.parametrize("mode", ["active", "passive", "off"])
async def test_whatever_a_run_is_given_is_used_or_refused_with_a_code(tmp_path: Path, mode: Mode) -> None:
    async with opened(tmp_path / "s") as runtime:
        session = await runtime.open_session(CWD, "main", mode)

        async def attempt(call: Any) -> None:
            with suppress(StrataflowError):
                found = call()
                if hasattr(found, "__await__"):
                    await found

        for given in ANYTHING:
            async with session.run("go", anchor=given) as run:
                for each in (run, session):
                    await attempt(lambda each=each, given=given: each.project(given))
                await attempt(session.prefix_report)
                await attempt(lambda run=run, given=given: run.preflight(given))
                await attempt(lambda run=run, given=given: run.settle(given))
                for message in given if type(given) is list else ():
                    await attempt(lambda run=run, message=message: run.settle(message))
            for call in (session.fork, session.set_mode, runtime.open_session):
                await attempt(lambda call=call, given=given: call(given))
            await attempt(session.run(given).__aenter__)
            for name in ("begin_run", "context", "preflight", "fork"):
                member = {"begin_run": "prompt", "context": "messages", "preflight": "calls", "fork": "session"}[name]
                await attempt(lambda name=name, given=given: session.call(name, given))
                await attempt(lambda name=name, m=member, given=given: session.call(name, {m: given}))
            await session.set_mode(mode)


@pytest.mark.parametrize("mode", ["active", "passive", "off"])
async def test_an_answer_that_is_no_text_is_refused_in_every_mode(tmp_path: Path, mode: Mode) -> None:
    async with session_of(tmp_path / "s", mode=mode) as session, session.run("go") as run:
        for answer in (None, 5, b"x", ["x"], "\ud800"):
            with refused("E_JSON"):
                await run.finish(answer)  # type: ignore[arg-type]
        await run.finish("text")  # the run went on


async def test_a_run_whose_beginning_is_cancelled_leaves_the_present_one_alone(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session, session.run("first") as run:
        with trio.CancelScope() as scope:
            scope.cancel()
            async with session.run("second"):
                pytest.fail("its beginning is a checkpoint")
        await run.project([])
        assert await run.finish("answer of the first") is not None
        assert session._cell.context.run is None


@holds("L3", "L28")
async def test_a_fresh_read_in_off_mode_asks_nobody(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s", mode="off") as session:
        before = session._store.statistics()
        for read in (session.read_state, session.read_json):
            with refused("E_OFF"):
                await read("effective", fresh=True)
        assert session._store.statistics() == before
