"""A host's conversation around a real session: what an agent's loop does, without a model."""

from __future__ import annotations

import json
from typing import Any

import attrs

from strataflow.runtime import Receipt, Run, Session
from strataflow.store import compact
from strataflow.store.projection import PROJECTION_LABEL, receipt_text

Message = dict[str, Any]


@attrs.define(eq=False)
class AgentLoop:
    """The native messages of one session, and the last request made of them."""

    session: Session
    native: list[Message] = attrs.field(factory=list)
    now: int = 1000
    calls: int = 0
    request: list[Message] = attrs.field(factory=list)

    def say(self, role: str, text: str = "", **more: Any) -> Message:
        """One more native message."""
        self.now += 1
        message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": self.now, **more}
        self.native.append(message)
        return message

    async def ask(self, run: Run | None = None) -> list[Message]:
        """The next request to the model."""
        self.request = await (run or self.session).project(list(self.native))
        return self.request

    async def patch(self, **scopes: Any) -> Receipt:
        """A patch as the model's tool call, with its result in the messages."""
        self.calls += 1
        call_id = f"c{self.calls}"
        arguments = {name.rstrip("_"): patch for name, patch in scopes.items()}
        call = {"type": "toolCall", "id": call_id, "name": "patch_state", "arguments": arguments}
        self.say("assistant", content=[call], stopReason="toolUse")
        receipt = await self.session.patch_state(**scopes, call_id=call_id)
        texts = [receipt.text]
        if receipt.state_updates is not None:
            texts.append(receipt_text(receipt.state_updates, compact))
        blocks = [{"type": "text", "text": text} for text in texts]
        self.say("toolResult", content=blocks, toolCallId=call_id, toolName="patch_state", isError=False)
        return receipt

    async def turn(self, prompt: str, answer: str = "Done.") -> list[Message]:
        """A whole run: prompt, one request, answer. Gives the request."""
        self.say("user", prompt)
        async with self.session.run(prompt) as run:
            request = await self.ask(run)
            self.say("assistant", answer, stopReason="stop")
            await run.finish(answer)
        return request


def head_of(request: list[Message]) -> Any:
    """The JSON of a request's head."""
    return json.loads(request[0]["content"][0]["text"].split("\n", 1)[1])


def id_of(request: list[Message]) -> str:
    """The id of a request's projection."""
    text: str = request[0]["content"][1]["text"]
    return text.removeprefix(PROJECTION_LABEL)


def has_head(request: list[Message]) -> bool:
    """Whether a request begins with a head."""
    content = request[0]["content"] if request else None
    return type(content) is list and any(PROJECTION_LABEL in str(block.get("text")) for block in content)


def updates_in(request: list[Message]) -> list[Any]:
    """The updates of a request, oldest first."""
    texts = [message["content"][0].get("text", "") for message in request if type(message["content"]) is list]
    return [json.loads(text.split("\n", 1)[1]) for text in texts if text.startswith("State Flow context update")]


def texts_of(request: list[Message]) -> list[str]:
    """The first text of each message behind the head."""
    return [message["content"][0].get("text", "") for message in request[1:]]
