"""The models that are known by name: a data file of the package, and what a program adds.

The file says only what is certain. Prices change; whoever counts money registers models of their own over it. Any other
model is used by making a ``Model`` of it: nothing here has to know it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from ...store import CallError, parse_strict, shown
from ..agent.model_stream import Model
from .errors import ModelError
from .usage import PARTS

_FILE: Final = "known_models.json"
_NEAR_MAX: Final = 5
_KEYS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "provider": str,
    "id": str,
    "api": str,
    "name": str,
    "baseUrl": str,
    "reasoning": bool,
    "efforts": list,
    "input": list,
    "contextWindow": int,
    "maxTokens": int,
    "cost": dict,
    "alsoKnownAs": list,
}
_models: dict[tuple[str, str], Model] = {}


def get_model(provider: str, model_id: str) -> Model:
    """The known model ``model_id`` of ``provider``.

    Raises:
      ModelError: E_MODEL; ``data["near"]`` has names that are like it.
    """
    known = _known()
    if (model := known.get((provider, model_id))) is not None:
        return model
    of_provider = [name for owner, name in known if owner == provider]
    if not of_provider:
        near = sorted({owner for owner, _ in known})
        raise ModelError(
            "E_MODEL", f"no models of {shown(provider)} are known{_how(near)}", provider=provider, near=near
        )
    near = difflib.get_close_matches(model_id, of_provider, _NEAR_MAX, 0.5)
    text = f"model {shown(model_id)} of {provider} is not known{_how(near)}"
    raise ModelError("E_MODEL", text, provider=provider, id=model_id, near=near)


def _how(near: list[str]) -> str:
    names = f" (known: {', '.join(near)})" if near else ""
    return f"{names}: register it, or make a Model of it"


def list_models(provider: str | None = None) -> tuple[Model, ...]:
    """The known models, of one provider or of all, by provider and id."""
    known = _known()
    return tuple(known[key] for key in sorted(known) if provider in (None, key[0]))


def register_model(model: Model) -> None:
    """Make ``model`` known to this process. A model that has its provider and id already is replaced."""
    if not model.provider or not model.id or not model.api:
        raise ModelError("E_MODEL_SHAPE", "a model needs a provider, an id and an api")
    _known()[model.provider, model.id] = model


def load_models(path: str | Path) -> tuple[Model, ...]:
    """Make the models of a JSON file known to this process, and give them. All or none are taken.

    Blocks for as long as reading a small file takes.

    Raises:
      ModelError: E_MODEL_SHAPE; the file can not be read, or is not of the form that the reference describes.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ModelError("E_MODEL_SHAPE", f"{path} can not be read: {error.strerror}", path=str(path)) from None
    models = models_of(text, str(path))
    for model in models:
        register_model(model)
    return models


def _known() -> dict[tuple[str, str], Model]:
    if not _models:
        text = resources.files(__package__).joinpath(_FILE).read_bytes()
        _models.update({(model.provider, model.id): model for model in models_of(text, _FILE)})
    return _models


def models_of(text: bytes, path: str) -> tuple[Model, ...]:
    """The models that a file's text describes.

    Raises:
      ModelError: E_MODEL_SHAPE, naming the file, the model and the member.
    """
    try:
        document = parse_strict(text)
    except CallError as error:
        raise ModelError("E_MODEL_SHAPE", f"{path}: {error.message}", path=path) from None
    rows = document.get("models") if type(document) is dict else None
    if type(rows) is not list:
        raise ModelError("E_MODEL_SHAPE", f'{path}: write {{"models": [...]}}', path=path)
    found: list[Model] = []
    for number, row in enumerate(rows):
        try:
            found += _models_of_row(row)
        except ValueError as error:
            raise ModelError("E_MODEL_SHAPE", f"{path}: models[{number}]: {error}", path=path, number=number) from None
    return tuple(found)


def _models_of_row(row: Any) -> list[Model]:
    if type(row) is not dict:
        raise ValueError("is no object")
    for name, value in row.items():
        if name not in _KEYS:
            raise ValueError(f"{shown(name)} is no member of a model")
        if type(value) is not _KEYS[name]:
            raise ValueError(f"{name} has the wrong type")
    for name in ("provider", "id", "api"):
        if not row.get(name):
            raise ValueError(f"{name} is missing")
    for name in ("input", "efforts", "alsoKnownAs"):
        if not all(type(text) is str and text for text in row.get(name, [])):
            raise ValueError(f"{name} has something that is no name")
    cost = row.get("cost", {})
    if not all(part in PARTS and type(price) in (int, float) and price >= 0 for part, price in cost.items()):
        raise ValueError(f"cost has a member that is no price of {', '.join(PARTS)}")
    if min(row.get("contextWindow", 0), row.get("maxTokens", 0)) < 0:
        raise ValueError("a number of tokens is negative")
    return [_model(row, name) for name in (row["id"], *row.get("alsoKnownAs", ()))]


def _model(row: Mapping[str, Any], model_id: str) -> Model:
    return Model(
        id=model_id,
        provider=row["provider"],
        api=row["api"],
        name=row.get("name", ""),
        base_url=row.get("baseUrl", ""),
        reasoning=row.get("reasoning", False),
        input=tuple(row.get("input", ("text",))),
        context_window=row.get("contextWindow", 0),
        max_tokens=row.get("maxTokens", 0),
        cost={part: float(price) for part, price in row.get("cost", {}).items()},
        efforts=tuple(row.get("efforts", ())),
    )
