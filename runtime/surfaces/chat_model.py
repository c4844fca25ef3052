"""Who answers in a chat: a model that is asked over the network, or a script that is played."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs

from .. import Model, ModelError, StreamFunction, get_model, open_model_client
from ..agent import ScriptedModel, scripted_model
from .exits import UsageError

ENVIRONMENT: Final = "STRATAFLOW_MODEL"
_SCRIPTED: Final = "scripted"
# What a model that nobody knows is asked in; servers of one's own mostly speak the first.
_WIRES: Final = {"anthropic": "anthropic-messages"}
_WIRE: Final = "openai-completions"


@attrs.frozen
class Choice:
    """A model, and the script that it plays, if it plays one."""

    model: Model
    script: ScriptedModel | None = None


def chosen_model(named: str, base_url: str | None) -> Choice:
    """What ``--model`` names.

    Raises:
      UsageError: it names nothing, or a script that can not be read.
      AgentError: E_AGENT_SCRIPT for a file that is no script.
      ModelError: E_MODEL if it is not known, and no ``base_url`` says where to ask for it all the same.
    """
    provider, _, model_id = named.partition(":")
    if not provider or not model_id:
        raise UsageError(f"--model {named[:96]!r} is not PROVIDER:ID, such as openai:gpt-4o, or scripted:FILE")
    if provider != _SCRIPTED:
        return Choice(_known_or_any(provider, model_id, base_url))
    try:
        with open(model_id, encoding="utf-8") as file:
            text = file.read()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the script {model_id}: {getattr(error, 'strerror', None) or error}") from error
    return Choice(Model(id=_SCRIPTED, provider=_SCRIPTED, api=_SCRIPTED), scripted_model(text))


def _known_or_any(provider: str, model_id: str, base_url: str | None) -> Model:
    try:
        return get_model(provider, model_id)
    except ModelError:
        if base_url is None:
            raise
        return Model(id=model_id, provider=provider, api=_WIRES.get(provider, _WIRE), base_url=base_url)


@asynccontextmanager
async def open_stream(choice: Choice, base_url: str | None) -> AsyncIterator[StreamFunction]:
    """How the model is asked. Nothing is sent yet.

    Raises:
      ModelError: E_MODEL_EXTRA, E_MODEL_ADDRESS, E_MODEL_ACCESS: it can not be asked from here.
    """
    if choice.script is not None:
        yield choice.script
        return
    async with open_model_client(base_url=base_url) as client:
        client.check(choice.model)
        yield client
