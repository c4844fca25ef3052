"""The faces for hosts beside the main one: every name and member stands in its page of the reference."""

from __future__ import annotations

import inspect
import re
import types

import attrs
import pytest

from kit.documents import code_words
from kit.source_tree import read
from strataflow import compaction, resources

FACES = [(compaction, "docs/reference/compaction.md"), (resources, "docs/reference/resources.md")]


@pytest.mark.parametrize("face, page", FACES)
def test_every_name_and_member_of_a_face_stands_in_its_reference(face: types.ModuleType, page: str) -> None:
    words = " ".join([*code_words(read(page)), *re.findall(r"^## `(.*)`$", read(page), re.MULTILINE)])
    wanted = set(face.__all__)
    for name in face.__all__:
        kind = getattr(face, name)
        if inspect.isclass(kind) and attrs.has(kind):
            wanted |= {field.name for field in attrs.fields(kind)}
            wanted |= {member for member in vars(kind) if not member.startswith("_")}
    assert sorted(name for name in wanted if not re.search(rf"(?<!\w){name}(?!\w)", words)) == []


@pytest.mark.parametrize("face, page", FACES)
def test_a_face_offers_what_it_lists_and_each_once(face: types.ModuleType, page: str) -> None:
    assert sorted(set(face.__all__)) == sorted(face.__all__)
    assert [name for name in face.__all__ if not hasattr(face, name)] == []


@pytest.mark.parametrize("face, page", FACES)
def test_headings_of_functions_have_the_signatures_of_the_code(face: types.ModuleType, page: str) -> None:
    found = re.findall(r"^## `(\w+)\((.*)\)`$", read(page), re.MULTILINE)
    assert found
    for name, given in found:
        signature = inspect.signature(getattr(face, name))
        shown = [
            parameter.name if parameter.default is parameter.empty else f"{parameter.name}={_shown(parameter.default)}"
            for parameter in signature.parameters.values()
        ]
        keyword_only = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
        shown.insert(len(shown) - len(keyword_only), "*")
        assert given == ", ".join(shown)


def _shown(value: object) -> str:
    return value.__name__ if inspect.isfunction(value) else repr(value)
