"""Prompt templates: arguments as typed, places filled once, and what stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.holds import holds
from kit.pi_cases import case_id, cases
from strataflow.resources import (
    FrontMatterError,
    PromptTemplate,
    expand_template,
    fill_template,
    parse_template,
    split_arguments,
)

_CASES = cases("templates")
# What the original expands a second time; we fill in one pass.
_ONCE = {("$ARGUMENTS", ("$@", "q")): "$@ q", ("$1", ("$ARGUMENTS", "q")): "$ARGUMENTS", ("$@", ("a$&b",)): "a$&b"}


def _template(content: str, name: str = "t") -> PromptTemplate:
    return PromptTemplate(name, "", content, f"/p/{name}.md")


@holds("AC-151")
@pytest.mark.parametrize("case", _CASES["parseCommandArgs"], ids=case_id)
def test_arguments_are_parted_as_the_original_does(case: dict[str, Any]) -> None:
    assert split_arguments(case["input"]) == case["args"]


@holds("AC-149", "AC-150", "AC-153")
@pytest.mark.parametrize("case", _CASES["substituteArgs"], ids=case_id)
def test_places_are_filled_as_the_original_does_but_only_once(case: dict[str, Any]) -> None:
    expected = _ONCE.get((case["template"], tuple(case["args"])), case["result"])
    assert fill_template(case["template"], case["args"]) == expected


@holds("AC-153")
@given(arguments=st.lists(st.text("$@&{}:1ARGUMENTS", min_size=1), min_size=1, max_size=4))
def test_what_an_argument_holds_is_never_filled(arguments: list[str]) -> None:
    assert fill_template("$1", arguments) == arguments[0]
    assert fill_template("<$@|$ARGUMENTS|${@:1}>", arguments) == "<" + "|".join([" ".join(arguments)] * 3) + ">"


def test_numbers_of_any_length_are_places_that_are_empty() -> None:
    assert fill_template("[$" + "9" * 5000 + "]", ["a"]) == "[]"
    assert fill_template("[${@:" + "9" * 5000 + ":" + "9" * 5000 + "}]", ["a"]) == "[]"


@holds("AC-148")
def test_a_template_is_filled_with_the_arguments_of_its_call() -> None:
    templates = [_template("Fix $1 because $2.", "fix")]
    assert expand_template('/fix a.txt "it is broken"', templates) == "Fix a.txt because it is broken."


@holds("AC-152")
@pytest.mark.parametrize("case", _CASES["expand"], ids=case_id)
def test_calls_are_expanded_as_the_original_does(case: dict[str, Any]) -> None:
    templates = [
        PromptTemplate(found["name"], "", found["content"], found["file"]) for found in _CASES["load"]["templates"]
    ]
    assert expand_template(case["input"], templates) == case["output"]


@holds("AC-154")
@pytest.mark.parametrize("length, description", [(60, "x" * 60), (61, "x" * 60 + "...")])
def test_a_template_without_a_description_is_described_by_its_first_line(length: int, description: str) -> None:
    template = parse_template("/p/a.md", "\n \n" + "x" * length + "\nmore")
    assert template.description == description


def test_a_template_says_what_its_front_matter_says() -> None:
    text = "---\ndescription: Review\nargument-hint: <file>\n---\n\nReview $1 please.\n"
    expected = PromptTemplate("re.view", "Review", "Review $1 please.", "/p/re.view.md", "<file>", "project")
    assert parse_template("/p/re.view.md", text, "project") == expected
    with pytest.raises(FrontMatterError):
        parse_template("/p/a.md", "---\n[\n---\n")
