"""What a skill must be, how a model sees it, and how a user calls it."""

from __future__ import annotations

from typing import Any

import pytest

from kit.holds import holds
from kit.pi_cases import case_id, cases
from strataflow.resources import Skill, expand_skill, list_skills, parse_skill, parse_skill_block

_GREET = Skill("greet", "Greets", "/a/skills/greet/SKILL.md", "/a/skills/greet", "Say hello.")


def _problems(path: str, *fields: str) -> list[str]:
    text = "\n".join(["---", *fields, "---", "body"])
    return [diagnosis.message for diagnosis in parse_skill(path, text)[1]]


@holds("AC-138")
@pytest.mark.parametrize("text", ["no front matter", "---\nname: x\n---\nb", "---\ndescription: '  '\n---", ""])
def test_a_skill_without_a_description_is_not_loaded(text: str) -> None:
    skill, diagnoses = parse_skill("/s/x/SKILL.md", text)
    assert skill is None
    assert [(found.kind, found.message, found.path) for found in diagnoses] == [
        ("warning", "description is required", "/s/x/SKILL.md")
    ]


@holds("AC-139")
def test_a_name_that_breaks_two_rules_is_loaded_with_two_warnings() -> None:
    skill, diagnoses = parse_skill("/s/BadChars/SKILL.md", "---\nname: Bad_Chars\ndescription: x\n---\n")
    assert skill is not None
    assert [found.message for found in diagnoses] == [
        'name "Bad_Chars" does not match parent directory "BadChars"',
        "name contains invalid characters (must be lowercase a-z, 0-9, hyphens only)",
    ]


@holds("AC-140")
def test_names_and_descriptions_that_are_too_long_are_told_with_their_length() -> None:
    long = "n" * 65
    assert _problems(f"/s/{long}/SKILL.md", "description: x") == ["name exceeds 64 characters (65)"]
    assert _problems("/s/x/SKILL.md", "description: " + "d" * 1025) == ["description exceeds 1024 characters (1025)"]
    assert _problems(f"/s/{long[1:]}/SKILL.md", "description: " + "d" * 1024) == []


@holds("AC-141")
def test_hyphens_belong_alone_and_inside_a_name() -> None:
    assert _problems("/s/-dash-/SKILL.md", "description: x") == ["name must not start or end with a hyphen"]
    assert _problems("/s/dou--ble/SKILL.md", "description: x") == ["name must not contain consecutive hyphens"]
    assert _problems("/s/a-b/SKILL.md", "description: x") == []


@holds("AC-142")
def test_a_skill_without_a_name_is_called_like_its_folder() -> None:
    skill, diagnoses = parse_skill("/s/own/SKILL.md", "---\ndescription: x\nname:\n---\n b ")
    assert skill == Skill("own", "x", "/s/own/SKILL.md", "/s/own", "b")
    assert diagnoses == ()


@holds("AC-143")
@pytest.mark.parametrize("written, is_hidden", [("true", True), ('"true"', False), ("yes", False), ("1", False)])
def test_only_the_truth_value_hides_a_skill_from_models(written: str, is_hidden: bool) -> None:
    skill, _ = parse_skill("/s/x/SKILL.md", f"---\ndescription: d\ndisable-model-invocation: {written}\n---\n")
    assert skill is not None
    assert skill.is_hidden is is_hidden
    assert (list_skills([skill]) == "") is is_hidden
    assert expand_skill("/skill:x", [skill]).startswith("<skill ")


@holds("AC-146")
def test_the_listing_escapes_what_would_be_markup() -> None:
    listing = list_skills([Skill("x", "a < b & c > d \"q\" 'r'", "/s/x/SKILL.md", "/s/x", "")])
    assert "<description>a &lt; b &amp; c &gt; d &quot;q&quot; &apos;r&apos;</description>" in listing


def test_the_listing_begins_with_two_line_ends_and_three_lines_of_instruction() -> None:
    assert list_skills([_GREET]).startswith("\n\n")
    introduction, _, skills = list_skills([_GREET])[2:].partition("\n\n")
    assert introduction.count("\n") == 2
    assert skills.startswith("<available_skills>\n  <skill>\n    <name>greet</name>\n")
    assert list_skills([]) == ""


@holds("AC-147")
def test_a_called_skill_is_its_block_and_then_the_arguments() -> None:
    text = expand_skill("/skill:greet  Anna ", [_GREET])
    assert text.startswith('<skill name="greet" location="/a/skills/greet/SKILL.md">\n')
    assert text.endswith("\n\nSay hello.\n</skill>\n\nAnna")
    assert "/a/skills/greet" in text.split("\n")[1]
    assert expand_skill("/skill:greet", [_GREET]).endswith("\n</skill>")
    for unchanged in ("/skill:unknown q", " /skill:greet", "/skill:", "skill:greet", "/skill:greet\tAnna"):
        assert expand_skill(unchanged, [_GREET]) == unchanged


@pytest.mark.parametrize("case", cases("skill-block"), ids=case_id)
def test_blocks_are_taken_apart_as_the_original_does(case: dict[str, Any]) -> None:
    block = parse_skill_block(case["text"])
    if case["parsed"] is None:
        assert block is None
        return
    assert block is not None
    expected = case["parsed"]
    assert (block.name, block.location, block.content, block.user_message) == (
        expected["name"],
        expected["location"],
        expected["content"],
        expected.get("userMessage"),
    )


def test_taking_a_block_apart_is_the_inverse_of_calling_the_skill() -> None:
    block = parse_skill_block(expand_skill("/skill:greet Anna\nand Ben", [_GREET]))
    assert block is not None
    assert (block.name, block.location, block.user_message) == ("greet", _GREET.path, "Anna\nand Ben")
    assert block.content.endswith("\n\nSay hello.")
