"""Where models are asked and with which key; and that nobody ever sees one."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from typing import Any

import pytest
import trio

from kit.model_server import model_server, refuses
from kit.model_wires import WIRE_NAMES, WireName, model_of
from strataflow.runtime.agent.model_stream import ModelRequest, StreamOptions
from strataflow.runtime.models import ModelError, get_model, open_model_client
from strataflow.runtime.models.access import Access, access_of, redacted
from strataflow.runtime.models.errors import CallFailed

BOTH = pytest.mark.parametrize("wire", WIRE_NAMES)
CANARY = "sk-canary-0123456789"
OPENAI = get_model("openai", "gpt-4o")
CLAUDE = get_model("anthropic", "claude-sonnet-4-5")
LOCAL = model_of("openai-completions", "http://localhost:1/v1", provider="my-server")


def access(
    model: Any, key: str | None = None, url: str | None = None, path: str = "/chat/completions", **env: str
) -> Any:
    return access_of(model, key, url, env, path)


def test_arguments_go_before_the_model_and_the_model_before_the_environment() -> None:
    env = {"OPENAI_API_KEY": "k1", "OPENAI_BASE_URL": "http://env/v1"}
    assert access(OPENAI, **env) == Access("http://env/v1/chat/completions", "k1")
    assert access(OPENAI, "k2", "http://arg/v1/", **env) == Access("http://arg/v1/chat/completions", "k2")
    assert access(OPENAI, OPENAI_API_KEY=" k1\n").url == "https://api.openai.com/v1/chat/completions"
    own = {"MY_SERVER_API_KEY": "k3", "MY_SERVER_BASE_URL": "http://env"}
    assert access(LOCAL, **own) == Access("http://localhost:1/v1/chat/completions", "k3")


@pytest.mark.parametrize("url", ["https://h", "https://h/", "https://h/v1", "https://h/v1/"])
def test_an_address_may_be_given_with_its_version_or_without(url: str) -> None:
    assert access(CLAUDE, "k", url, "/v1/messages").url == "https://h/v1/messages"


def test_a_key_is_needed_at_a_provider_and_not_at_a_server_of_ones_own() -> None:
    with pytest.raises(CallFailed, match="set ANTHROPIC_API_KEY"):
        access(CLAUDE, path="/v1/messages")
    assert access(LOCAL).key is None
    with pytest.raises(CallFailed, match="set MY_SERVER_BASE_URL"):
        access(model_of("openai-completions", provider="my-server"))


@pytest.mark.parametrize("key", [f"{CANARY}\nx: y", f"{CANARY}é", f"{CANARY} {CANARY}", f"{CANARY}\x00"])
def test_a_key_that_is_none_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(CallFailed) as caught:
        access(OPENAI, key)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("url", [f"https://u:{CANARY}@h", "ftp://h", "https://h?q=1", "https://h/ x", "h/v1", ""])
async def test_an_address_that_can_not_be_used_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ModelError) as caught:
        async with open_model_client(base_url=url):
            raise AssertionError("it was taken")
    assert caught.value.code == "E_MODEL_ADDRESS"
    assert CANARY not in str(caught.value)


async def test_headers_that_can_not_be_sent_are_refused_without_being_shown() -> None:
    with pytest.raises(ModelError) as caught:
        async with open_model_client(headers={"x-token": f"{CANARY}\r\nx: y"}):
            raise AssertionError("it was taken")
    assert CANARY not in str(caught.value)


def test_longer_secrets_are_taken_out_of_a_text_first() -> None:
    assert redacted("a abcd abcdef", ["abcd", "abcdef", None, "", "a"]) == "a [redacted] [redacted]"


@BOTH
async def test_a_key_goes_into_the_request_and_nowhere_else(wire: WireName, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[Any] = []
    # The server repeats what it got, as servers do when a key is wrong.
    echo = [refuses(status, "authentication_error", f"bad key {CANARY} or {CANARY}-2") for status in (500, 401)]
    async with model_server(*echo) as server:
        headers = {"x-gateway-token": f"{CANARY}-2"}
        async with open_model_client(api_key=CANARY, headers=headers, on_retry=seen.append) as client:
            options = StreamOptions(max_retry_delay_s=0)
            request = ModelRequest("", [{"role": "user", "content": "Hi", "timestamp": 1}], [])
            with trio.fail_after(30):
                async with client(model_of(wire, server.base_url(wire)), request, options) as events:
                    seen += [client, events, options, [event async for event in events]]
    sent = server.exchanges[0].headers
    assert CANARY in sent["authorization" if wire == "openai-completions" else "x-api-key"]
    assert sent["x-gateway-token"] == f"{CANARY}-2"
    texts = [repr(thing) for thing in seen] + [caplog.text]
    assert "[redacted]" in str(seen[-1])
    assert [text for text in texts if CANARY in text] == []


def test_the_http_library_is_loaded_only_when_a_client_is_opened() -> None:
    code = "import strataflow, sys; strataflow.get_model('openai', 'gpt-4o'); sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_without_the_http_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ModelError, match=r"strataflow\[models\]") as caught:
        async with open_model_client():
            raise AssertionError("it was opened")
    assert caught.value.code == "E_MODEL_EXTRA"
