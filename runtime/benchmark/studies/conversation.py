"""One conversation of the lifecycle, with memory or without: its runs, and how it is taken up again.

::

    without memory   user, read, answer                2 inferences; each sees the whole conversation
    with memory      user, read, patch_state, answer   3 inferences; each sees the messages of its own run
"""

from __future__ import annotations

import os
import time
from typing import final

import attrs

from ...opening import open_runtime
from ...session import Session
from .host import ScriptedHost, ScriptedModel, json_bytes, patch_texts
from .phases import Json
from .workload import CWD, filler, lifecycle_text

_SESSION = "lifecycle"


@attrs.frozen
class RunRecord:
    """One user run. ``first_ms`` of its ``took_ms`` passed until the first request was there."""

    number: int
    took_ms: float
    first_ms: float
    model: ScriptedModel
    barriers: int
    read_bytes: int
    keeps_read: bool
    prompt_bytes: int
    specification_bytes: int

    @property
    def first_context_bytes(self) -> int:
        """Of its first request."""
        return self.model.inferences[0].context_bytes

    def to_json(self) -> Json:
        """As reports name it."""
        return {
            "userRun": self.number,
            "inferences": [inference.to_json() for inference in self.model.inferences],
            "patchStateBarriers": self.barriers,
            "nativeUserBytes": self.prompt_bytes,
            "specificationBytes": self.specification_bytes,
        }


@final
@attrs.frozen
class Conversation:
    """A conversation in a folder: a file of native messages, and a store if it has memory."""

    folder: str
    has_memory: bool
    state_bytes: int
    transcript_bytes: int

    @property
    def native_file(self) -> str:
        """Where its messages are."""
        return os.path.join(self.folder, "conversation.jsonl")

    @property
    def store(self) -> str:
        """Where its memory is."""
        return os.path.join(self.folder, "store")

    def _host(self) -> ScriptedHost:
        host = ScriptedHost.resumed(self.native_file) if os.path.exists(self.native_file) else ScriptedHost()
        host.path = self.native_file
        return host

    def _source_of(self, number: int) -> str:
        path = os.path.join(self.folder, "source.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(lifecycle_text(number, self.transcript_bytes))
        return path

    async def go_on(self, first: int, last: int) -> tuple[float, list[RunRecord], Json]:
        """Open it, run from one number to another, and close it: how long opening took (ms), the runs, the memory.

        What the memory holds at the end is told as ``count``, ``payload``, ``response`` and ``step``.
        """
        before = time.perf_counter()
        host = self._host()
        if not self.has_memory:
            opened_ms = (time.perf_counter() - before) * 1e3
            return opened_ms, [await self._run(host, None, number) for number in range(first, last + 1)], {}
        async with open_runtime(store=self.store) as runtime:
            session = await runtime.open_session(CWD, _SESSION, "active" if first == 1 else None)
            opened_ms = (time.perf_counter() - before) * 1e3
            runs = [await self._run(host, session, number) for number in range(first, last + 1)]
            working = (await session.read_state("session.working")).value
            response = (await session.read_state("session.response")).value
            return opened_ms, runs, {**working, "response": response, "step": (await session.status())["step"]}

    async def _run(self, host: ScriptedHost, session: Session | None, number: int) -> RunRecord:
        """One user run, timed without what counting bytes takes."""
        source = self._source_of(number)
        prompt, model = f"Run {number:06}: read and count.", ScriptedModel()
        play = _Play(host, model, source, number, time.perf_counter())
        if session is None:
            await play.without_memory(prompt)
        else:
            payload = filler(self.state_bytes) if number == 1 else None
            await play.with_memory(session, prompt, payload)
        took_s = time.perf_counter() - play.began_s - model.counting_s
        return RunRecord(
            number,
            took_s * 1e3,
            play.first_ms,
            model,
            play.barriers,
            play.read_bytes,
            play.keeps_read,
            json_bytes(prompt),
            json_bytes(prompt) if self.has_memory else 0,
        )


@attrs.define(eq=False)
class _Play:
    host: ScriptedHost
    model: ScriptedModel
    source: str
    number: int
    began_s: float
    first_ms: float = 0.0
    barriers: int = 0
    read_bytes: int = 0
    keeps_read: bool = True
    _text: str | None = None

    async def without_memory(self, prompt: str) -> None:
        self.host.user(prompt)
        self._ask(list(self.host.messages))
        self._read()
        self._ask(list(self.host.messages))
        self.host.answer(f"Counted {self.number}.")

    async def with_memory(self, session: Session, prompt: str, payload: str | None) -> None:
        host = self.host
        host.user(prompt)
        async with session.run(prompt) as run:
            self._ask(await run.project(list(host.messages)))
            self._read()
            self._ask(await run.project(list(host.messages)))
            patch: Json = {"working": {"count": self.number, **({} if payload is None else {"payload": payload})}}
            call = host.call("patch_state", {"session": patch})
            self.barriers += not any(verdict.block for verdict in run.preflight(host.messages[-1]))
            receipt = await session.patch_state(session=patch, call_id=call["id"])
            host.result(call, patch_texts(receipt.text, receipt.state_updates))
            self._ask(await run.project(list(host.messages)))
            host.answer(f"Counted {self.number}.")
            await run.settle(host.messages[-1])

    def _ask(self, request: list[Json]) -> None:
        if not self.model.inferences:
            self.first_ms = (time.perf_counter() - self.began_s) * 1e3
        self.model.receive(request)
        if self._text is not None:
            results = [message["content"][0]["text"] for message in request if message["role"] == "toolResult"]
            self.keeps_read = self.keeps_read and self._text in results

    def _read(self) -> None:
        call = self.host.call("read", {"path": os.path.basename(self.source)})
        with open(self.source, encoding="utf-8") as file:
            self._text = file.read()
        self.read_bytes = len(self._text.encode())
        self.host.result(call, [self._text])


async def resume(folder: str, has_memory: bool, state_bytes: int, transcript_bytes: int, number: int) -> Json:
    """Take a conversation up again and make one more run: times, first context, and whether all went on as it should.

    Also the job of a new process.
    """
    conversation = Conversation(folder, has_memory, state_bytes, transcript_bytes)
    opened_ms, runs, memory = await conversation.go_on(number, number)
    expected = {
        "count": number,
        "payload": filler(state_bytes),
        "response": f"Counted {number}.",
        "step": 2 * number,
    }
    return {
        "openMs": round(opened_ms, 3),
        "firstRequestMs": round(runs[0].first_ms, 3),
        "runMs": round(runs[0].took_ms, 3),
        "firstContextBytes": runs[0].first_context_bytes,
        "inferences": [inference.to_json() for inference in runs[0].model.inferences],
        "goesOn": runs[0].keeps_read and (not has_memory or memory == expected),
    }
