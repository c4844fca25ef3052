"""The client against a server on a real socket: whole answers, failures, retries, and leaving in the middle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from kit.model_server import ModelServer, answers, hangs_up, is_silent, model_server, refuses, sends
from kit.model_wires import WIRE_NAMES, Called, Said, WireName, model_of, stream_of
from strataflow.runtime.agent.messages import AssistantMessage
from strataflow.runtime.agent.model_stream import ModelRequest, StreamEvent, StreamOptions
from strataflow.runtime.models import ModelClient, ModelRetry, open_model_client
from strataflow.runtime.models.client import Means

HELLO = Said("text", ("Hel", "lo, ", "wörld"))
BOTH = pytest.mark.parametrize("wire", WIRE_NAMES)


def asking(text: str = "Hi") -> ModelRequest:
    return ModelRequest("Be kind.", [{"role": "user", "content": text, "timestamp": 1}], [])


@asynccontextmanager
async def client_that_does_not_sleep(**more: Any) -> AsyncIterator[tuple[ModelClient, list[float]]]:
    """A client whose pauses take no time, and the seconds they should have taken."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await trio.lowlevel.checkpoint()

    async with open_model_client(**more) as client:
        means = client._means
        yield ModelClient(Means(**{**fields(means), "sleep": sleep, "environment": {}})), slept


def fields(means: Means) -> dict[str, Any]:
    return {name: getattr(means, name) for name in Means.__slots__ if not name.startswith("__")}


async def all_events(
    client: ModelClient, server: ModelServer, wire: WireName, options: StreamOptions | None = None, **model: Any
) -> list[StreamEvent]:
    asked = model_of(wire, server.base_url(wire), **model)
    with trio.fail_after(30):
        async with client(asked, asking(), options or StreamOptions()) as events:
            return [event async for event in events]


def kinds(events: Iterable[StreamEvent]) -> list[str]:
    return [event["type"] for event in events]


def error_of(events: list[StreamEvent]) -> AssistantMessage:
    assert events[-1]["type"] == "error"
    return events[-1]["error"]


@BOTH
async def test_an_answer_comes_as_events_and_ends_with_the_whole_message(wire: WireName) -> None:
    async with model_server(answers(HELLO)) as server, open_model_client() as client:
        events = await all_events(client, server, wire)
    assert kinds(events) == ["start", "text_start", *["text_delta"] * 3, "text_end", "done"]
    message = events[-1]["message"]
    assert message["content"] == [{"type": "text", "text": "Hello, wörld"}]
    assert (message["stopReason"], message["model"], message["responseId"]) == ("stop", "m-1", "resp-1")
    assert message["responseModel"] == "m-1-2026"
    assert {name: message["usage"][name] for name in ("input", "cacheRead", "output", "totalTokens")} == {  # type: ignore[literal-required]
        "input": 10,
        "cacheRead": 4,
        "output": 3,
        "totalTokens": 17,
    }
    assert message["usage"]["cost"]["total"] == pytest.approx((10 * 1 + 4 * 0.5 + 3 * 2) / 1e6)


@BOTH
async def test_tools_and_thoughts_come_with_their_own_events(wire: WireName) -> None:
    blocks = (Said("thinking", ("hm", "m")), Said("text", ("Ok.",)), Called("c1", "add", ('{"a": ', "1}")))
    async with model_server(answers(*blocks)) as server, open_model_client() as client:
        events = await all_events(client, server, wire)
    content = events[-1]["message"]["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "toolCall"]
    assert content[2] == {"type": "toolCall", "id": "c1", "name": "add", "arguments": {"a": 1}}
    assert events[-1]["reason"] == "toolUse"
    ends = [event for event in events if event["type"] == "toolcall_end"]
    assert [event["toolCall"] for event in ends] == [content[2]]


@BOTH
async def test_calls_after_another_share_a_connection(wire: WireName) -> None:
    async with model_server(*[answers(HELLO)] * 3) as server, open_model_client() as client:
        for _ in range(3):
            await all_events(client, server, wire)
        assert len(server.exchanges) == 3
        assert server.connections == 1


@BOTH
async def test_leaving_in_the_middle_closes_the_connection(wire: WireName) -> None:
    started = sends(lambda wire: stream_of(wire, [HELLO])[:3], then="wait")
    async with model_server(started) as server, open_model_client() as client:
        model = model_of(wire, server.base_url(wire))
        async with client(model, asking()) as events:
            assert (await anext(events))["type"] == "start"
        await server.exchanges[0].left.wait()
        with pytest.raises(StopAsyncIteration):
            await anext(events)


@BOTH
async def test_a_cancelled_reader_closes_the_connection_and_keeps_what_came(wire: WireName) -> None:
    # All in one piece: what was told must not be behind what the message so far holds.
    started = sends(lambda wire: [b"".join(stream_of(wire, [HELLO])[:-2])], then="wait")
    seen: list[StreamEvent] = []
    async with model_server(started) as server, open_model_client() as client:
        model = model_of(wire, server.base_url(wire))
        with trio.CancelScope() as scope:
            async with client(model, asking()) as events:
                async for event in events:
                    seen.append(event)
                    if event["type"] == "text_delta":
                        scope.cancel()
        assert scope.cancelled_caught
        await server.exchanges[0].left.wait()
    assert seen[-1]["partial"]["content"] == [{"type": "text", "text": "Hel"}]


@BOTH
async def test_a_call_that_is_cancelled_before_its_first_byte_closes_the_connection(wire: WireName) -> None:
    async with model_server(is_silent) as server, open_model_client() as client, trio.open_nursery() as nursery:
        nursery.start_soon(all_events, client, server, wire)
        exchange = await server.wait_asked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):  # what is looked at comes after the cancellation; the wait has its own end
            await exchange.left.wait()


@BOTH
async def test_an_error_in_the_body_of_a_call_passes_and_closes_the_connection(wire: WireName) -> None:
    started = sends(lambda wire: stream_of(wire, [HELLO])[:3], then="wait")
    async with model_server(started) as server, open_model_client() as client:

        async def fail() -> None:
            async with client(model_of(wire, server.base_url(wire)), asking()) as events:
                await anext(events)
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await fail()
        await server.exchanges[0].left.wait()


@BOTH
async def test_an_error_of_a_cancelled_body_is_not_lost_on_the_way_out(wire: WireName) -> None:
    started = sends(lambda wire: stream_of(wire, [HELLO])[:3], then="wait")

    async def fail(client: ModelClient, server: ModelServer) -> None:
        with trio.CancelScope() as scope:
            async with client(model_of(wire, server.base_url(wire)), asking()) as events:
                await anext(events)
                scope.cancel()
                raise KeyError("mine")

    async with model_server(started) as server, open_model_client() as client:
        with pytest.raises(KeyError, match="mine"):
            await fail(client, server)
        await server.exchanges[0].left.wait()


# -- failures ---------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("then", ["cut", "end"])
async def test_a_stream_that_is_cut_off_is_an_error_with_what_came(wire: WireName, then: str) -> None:
    piece = sends(lambda wire: stream_of(wire, [HELLO])[: 3 if wire == "openai-completions" else 5], then=then)
    async with model_server(piece) as server, client_that_does_not_sleep() as (client, slept):
        events = await all_events(client, server, wire)
    message = error_of(events)
    assert message["content"][0]["text"].startswith("Hel")  # type: ignore[typeddict-item]
    assert "cut off" in message["errorMessage"]
    assert message["stopReason"] == "error"
    assert slept == []  # something was told already


@BOTH
@pytest.mark.parametrize("rubbish", [b"data: {]\n\n", b"data: 7\n\n", b"data: \xff\xfe\n\n"])
async def test_a_malformed_piece_is_an_error_with_what_came(wire: WireName, rubbish: bytes) -> None:
    bad = sends(lambda wire: [*stream_of(wire, [HELLO])[:4], rubbish, *stream_of(wire, [HELLO])[4:]])
    async with model_server(bad) as server, open_model_client() as client:
        message = error_of(await all_events(client, server, wire))
    assert message["content"][0]["text"].startswith("Hel")  # type: ignore[typeddict-item]
    assert "no sound JSON" in message["errorMessage"]


@BOTH
async def test_a_server_that_asks_to_wait_is_asked_again_after_that_time(wire: WireName) -> None:
    told: list[ModelRetry] = []
    busy = refuses(429, "rate_limit_error", "slow down", retry_after="7")
    async with model_server(busy, answers(HELLO)) as server:
        async with client_that_does_not_sleep(on_retry=told.append) as (client, slept):
            events = await all_events(client, server, wire)
    assert kinds(events)[-1] == "done"
    assert slept == [7.0]
    assert [(retry.number, retry.delay_s) for retry in told] == [(1, 7.0)]
    assert told[0].reason == "429: rate_limit_error: slow down"


@BOTH
async def test_a_server_that_asks_for_too_long_a_wait_is_not_asked_again(wire: WireName) -> None:
    busy = refuses(429, "rate_limit_error", "slow down", retry_after="7")
    async with model_server(busy) as server, client_that_does_not_sleep() as (client, slept):
        events = await all_events(client, server, wire, StreamOptions(max_retry_delay_s=6.5))
    assert kinds(events) == ["error"]
    assert "slow down" in error_of(events)["errorMessage"]
    assert slept == []


@BOTH
async def test_an_overloaded_server_is_asked_again_with_growing_pauses(wire: WireName) -> None:
    plays = [refuses(529, "overloaded_error", "Overloaded")] * 3
    async with model_server(*plays) as server, client_that_does_not_sleep() as (client, slept):
        events = await all_events(client, server, wire)
    assert error_of(events)["errorMessage"] == "529: overloaded_error: Overloaded"
    assert len(server.exchanges) == 3
    assert 0.25 <= slept[0] <= 0.5 <= slept[1] <= 1.0


@BOTH
async def test_a_connection_that_is_lost_before_anything_came_is_made_again(wire: WireName) -> None:
    async with model_server(hangs_up, answers(HELLO)) as server, client_that_does_not_sleep() as (client, slept):
        events = await all_events(client, server, wire)
    assert kinds(events)[-1] == "done"
    assert len(slept) == 1


@BOTH
async def test_nobody_listening_is_an_error_and_no_exception(wire: WireName) -> None:
    async with model_server() as server:
        pass
    async with client_that_does_not_sleep(retries=1) as (client, slept):
        events = await all_events(client, server, wire)
    assert kinds(events) == ["error"]
    assert error_of(events)["errorMessage"].startswith("no connection")
    assert len(slept) == 1


@BOTH
@pytest.mark.parametrize("status, kind", [(400, "invalid_request_error"), (401, "authentication_error")])
async def test_a_refused_request_is_not_sent_again(wire: WireName, status: int, kind: str) -> None:
    async with model_server(refuses(status, kind, "no")) as server, client_that_does_not_sleep() as (client, slept):
        events = await all_events(client, server, wire)
    assert error_of(events)["errorMessage"] == f"{status}: {kind}: no"
    assert slept == []


@BOTH
async def test_an_answer_that_is_no_stream_is_an_error(wire: WireName) -> None:
    async with model_server(refuses(200, "server_error", "not today")) as server, open_model_client() as client:
        events = await all_events(client, server, wire, StreamOptions(max_retry_delay_s=0))
    assert "not today" in error_of(events)["errorMessage"]


# -- time -------------------------------------------------------------------------------------------------------------


@BOTH
async def test_a_first_byte_that_does_not_come_is_an_error_after_its_time(
    wire: WireName, mock_clock: trio.testing.MockClock
) -> None:
    found: list[StreamEvent] = []
    async with model_server(is_silent) as server, open_model_client(retries=0) as client:

        async def ask() -> None:
            async with client(model_of(wire, server.base_url(wire)), asking()) as events:
                found.extend([event async for event in events])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            exchange = await server.wait_asked()
            await trio.testing.wait_all_tasks_blocked()  # now the client waits for the answer
            mock_clock.jump(301)
        await exchange.left.wait()
    assert error_of(found)["errorMessage"] == "no answer within 300 s"


@BOTH
async def test_a_stream_that_falls_silent_is_an_error_with_what_came(
    wire: WireName, mock_clock: trio.testing.MockClock
) -> None:
    started = sends(lambda wire: stream_of(wire, [HELLO])[:4], then="wait")
    async with model_server(started) as server, open_model_client() as client:
        model = model_of(wire, server.base_url(wire))
        seen: list[StreamEvent] = []
        told = trio.Event()
        async with client(model, asking()) as events, trio.open_nursery() as nursery:

            async def read() -> None:
                async for event in events:
                    seen.append(event)
                    if event["type"] == "text_delta":
                        told.set()

            nursery.start_soon(read)
            await told.wait()
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(301)
        await server.exchanges[0].left.wait()
    assert "within 300 s" in error_of(seen)["errorMessage"]
    assert error_of(seen)["content"][0]["text"].startswith("Hel")  # type: ignore[typeddict-item]
