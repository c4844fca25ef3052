"""A summarizer that asks a model through any client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from kit.holds import holds
from kit.plain_tree import PlainTree
from kit.talk import answer, entries, user
from strataflow.compaction import CompactionError, CompactionSettings, ModelSummarizer, compact_session
from strataflow.runtime.agent.model_stream import Model, ModelRequest, StreamOptions


@attrs.define
class Client:
    """A client that gives these events; ``waits``: it hangs instead of ending."""

    events: list[dict[str, Any]]
    waits: bool = False
    asked: list[tuple[Model, ModelRequest, StreamOptions]] = attrs.field(factory=list)
    open: int = 0

    @asynccontextmanager
    async def __call__(
        self, model: Model, request: ModelRequest, options: StreamOptions
    ) -> AsyncIterator[AsyncIterator[Any]]:
        self.asked.append((model, request, options))
        self.open += 1
        try:
            yield self._iterated()
        finally:
            self.open -= 1

    async def _iterated(self) -> AsyncIterator[dict[str, Any]]:
        for event in self.events:
            await trio.lowlevel.checkpoint()
            yield event
        if self.waits:
            await trio.sleep_forever()


def _tree() -> PlainTree:
    return PlainTree.of(entries(user("u" * 400), answer("a" * 400), user("v" * 400), answer("b" * 400)))


async def _compact(client: Client, **wishes: Any) -> PlainTree:
    tree = _tree()
    model = wishes.pop("model", Model("m", "f", "faux", reasoning=True))
    summarizer = ModelSummarizer(client, model, **wishes)
    await compact_session(tree, summarizer, settings=CompactionSettings(keep_recent_tokens=150))
    return tree


def _done(*events: dict[str, Any]) -> Client:
    return Client([{"type": "start"}, *events, {"type": "done", "message": answer("SUMMARY")}])


@holds("AC-115", "AC-116")
@pytest.mark.parametrize(
    "level, can_reason, expected", [("high", True, "high"), ("off", True, None), ("high", False, None)]
)
async def test_reasoning_is_asked_for_only_where_level_and_model_have_it(
    level: Any, can_reason: bool, expected: str | None
) -> None:
    client = _done()
    tree = await _compact(client, model=Model("m", "f", "faux", reasoning=can_reason), thinking_level=level)
    ((model, request, options),) = client.asked
    assert (model.id, options.reasoning, options.max_tokens, request.tools) == ("m", expected, 13_107, [])
    assert len(request.messages) == 1
    assert tree.entries[-1]["summary"] == "SUMMARY"
    assert client.open == 0


async def test_the_limit_is_never_above_what_the_model_can_give() -> None:
    client = _done()
    given = StreamOptions(api_key="key", session_id="s")
    await _compact(client, model=Model("m", "f", "faux", max_tokens=4096), options=given)
    options = client.asked[0][2]
    assert (options.max_tokens, options.api_key, options.session_id) == (4096, "key", "s")


@holds("AC-118")
async def test_an_error_of_the_stream_is_the_error_of_the_compaction() -> None:
    client = Client([{"type": "error", "error": answer(stop="error", errorMessage="overloaded")}])
    with pytest.raises(CompactionError, match="Summarization failed: overloaded"):
        await _compact(client)
    with pytest.raises(CompactionError, match="ended without an answer"):
        await _compact(Client([{"type": "start"}]))


async def test_cancelling_closes_the_connection(autojump_clock: trio.testing.MockClock) -> None:
    client = Client([{"type": "start"}], waits=True)
    with trio.move_on_after(5) as scope:
        await _compact(client)
    assert scope.cancelled_caught
    assert (client.open, len(client.asked)) == (0, 1)
