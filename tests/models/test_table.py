"""The models that are known by name, and those that a program adds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strataflow
from strataflow.runtime.models import table


@pytest.fixture(autouse=True)
def _forget_what_is_added() -> Iterator[None]:
    known = dict(table._known())
    yield
    table._models.clear()
    table._models.update(known)


def test_known_models_tell_what_a_client_and_an_agent_need() -> None:
    model = strataflow.get_model("openai", "gpt-4o")
    assert (model.api, model.context_window, model.max_tokens) == ("openai-completions", 128_000, 16_384)
    assert (model.reasoning, model.input) == (False, ("text", "image"))
    claude = strataflow.get_model("anthropic", "claude-sonnet-4-5")
    assert (claude.api, claude.context_window, claude.reasoning) == ("anthropic-messages", 200_000, True)
    assert claude.cost["cacheWrite"] > claude.cost["input"] > claude.cost["cacheRead"]


def test_every_model_of_the_package_is_described_in_full() -> None:
    models = strataflow.list_models()
    assert len(models) > 20
    for model in models:
        assert model.context_window >= model.max_tokens > 0, model.id
        assert model.cost["output"] >= model.cost["input"] > 0, model.id
        assert "text" in model.input
        assert model.name
    assert {model.provider for model in strataflow.list_models("openai")} == {"openai"}


@pytest.mark.parametrize(
    "provider, name, near",
    [
        ("openai", "gpt-4p", "gpt-4o"),
        ("anthropic", "claude-sonet-4-5", "claude-sonnet-4-5"),
        ("opnai", "gpt-4o", "openai"),
    ],
)
def test_an_unknown_name_is_an_error_that_tells_near_ones(provider: str, name: str, near: str) -> None:
    with pytest.raises(strataflow.ModelError) as caught:
        strataflow.get_model(provider, name)
    assert caught.value.code == "E_MODEL"
    assert near in caught.value.data["near"]
    assert near in str(caught.value)


def test_a_registered_model_is_found_and_takes_the_place_of_its_namesake() -> None:
    own = strataflow.Model("llama", "local", "openai-completions", base_url="http://localhost:8080/v1")
    strataflow.register_model(own)
    assert strataflow.get_model("local", "llama") is own
    cheaper = strataflow.Model("gpt-4o", "openai", "openai-completions", cost={"input": 1.0})
    strataflow.register_model(cheaper)
    assert strataflow.get_model("openai", "gpt-4o") is cheaper
    with pytest.raises(strataflow.ModelError, match="E_MODEL_SHAPE"):
        strataflow.register_model(strataflow.Model("", "local", "x"))


def test_models_of_a_file_are_known_under_all_their_names(tmp_path: Path) -> None:
    row = {"provider": "local", "id": "a", "api": "openai-completions", "alsoKnownAs": ["b"], "cost": {"input": 1}}
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"models": [row]}))
    assert [model.id for model in strataflow.load_models(path)] == ["a", "b"]
    assert strataflow.get_model("local", "b").cost == {"input": 1.0}


ROW = {"provider": "p", "id": "i", "api": "a"}


@pytest.mark.parametrize(
    "document, said",
    [
        ([], '"models"'),
        ({"models": [7]}, "models[0]: is no object"),
        ({"models": [ROW, {**ROW, "id": ""}]}, "models[1]: id is missing"),
        ({"models": [{**ROW, "contextWindow": "1"}]}, "contextWindow has the wrong type"),
        ({"models": [{**ROW, "contextWindow": -1}]}, "negative"),
        ({"models": [{**ROW, "contxt": 1}]}, "contxt"),
        ({"models": [{**ROW, "cost": {"inputs": 1}}]}, "cost"),
        ({"models": [{**ROW, "cost": {"input": -1}}]}, "cost"),
        ({"models": [{**ROW, "input": [""]}]}, "input"),
    ],
)
def test_a_file_that_is_wrong_is_refused_as_a_whole_and_says_where(document: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_text(json.dumps(document))
    before = strataflow.list_models()
    with pytest.raises(strataflow.ModelError) as caught:
        strataflow.load_models(path)
    assert caught.value.code == "E_MODEL_SHAPE"
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert strataflow.list_models() == before


@pytest.mark.parametrize("text", [None, b"{", b'{"models": [], "models": []}', b"\xff"])
def test_a_file_that_can_not_be_read_is_refused_by_name(text: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(strataflow.ModelError, match="E_MODEL_SHAPE"):
        strataflow.load_models(path)
