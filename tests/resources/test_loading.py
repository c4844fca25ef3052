"""Context files, the parts of a system prompt, templates from folders, and all of it in one call."""

from __future__ import annotations

import os
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import trio

from kit.file_trees import plant, skill_text
from kit.holds import holds
from kit.pi_cases import case_id, cases
from strataflow.resources import (
    ContextFile,
    PromptTemplate,
    ResourcePaths,
    Resources,
    Skill,
    build_system_prompt,
    load_resources,
)
from strataflow.runtime.resources.context_files import find_context_files
from strataflow.runtime.resources.finding import Source
from strataflow.runtime.resources.scanning import scan_templates

_TABLE = cases("context-files")
_TODAY = date(2026, 1, 9)
_FILES = (ContextFile("/a/AGENTS.md", "FIRST"), ContextFile("/a/b/CLAUDE.md", "SECOND"))
_SKILLS = (Skill("greet", "Greets", "/s/greet/SKILL.md", "/s/greet", "b"),)
_MARKS = {
    "custom": "CUSTOM BASE",
    "append": "APPENDED TEXT",
    "heading": "# Project Context\n\n",
    "file1": "## /a/AGENTS.md\n\nFIRST\n\n",
    "file2": "## /a/b/CLAUDE.md\n\nSECOND\n",
    "skills": "\n\n<available_skills>\n",
    "date": "\nCurrent date: 2026-01-09\n",
    "cwd": "\nCurrent working directory: /w",
}
_PARTS: dict[str, Any] = {"appended": "APPENDED TEXT", "context_files": _FILES, "skills": _SKILLS}
_PROMPTS: dict[str, dict[str, Any]] = {
    "custom prompt, all parts": {"base": "CUSTOM BASE", **_PARTS},
    "default prompt, all parts": {"tools": ["read", "bash"], "snippets": {"read": "R", "bash": "B"}, **_PARTS},
    "no read tool: no skills": {"base": "CUSTOM BASE", "tools": ["bash"], "skills": _SKILLS},
    "default prompt without read": {"tools": ["bash"], "snippets": {"bash": "B", "read": "R"}, "skills": _SKILLS},
    "nothing": {"base": "CUSTOM BASE"},
    "guidelines deduped": {"tools": ["read"], "guidelines": ["Be kind.", " Be kind. ", "", "Ask first."]},
}


@holds("AC-132", "AC-133", "AC-134")
@pytest.mark.parametrize("case", _TABLE["loads"], ids=case_id)
def test_context_files_are_found_as_the_original_does(case: dict[str, Any], tmp_path: Path) -> None:
    plant(tmp_path, _TABLE["tree"])
    found, diagnoses = find_context_files(f"{tmp_path}/{case['cwd']}", f"{tmp_path}/{case['agentDir']}")
    # What lies above the folder of the test belongs to the machine.
    own = [file for file in found if file.path.startswith(f"{tmp_path}/")]
    assert [(file.path, file.content) for file in own] == [
        (f"{tmp_path}/{expected['path']}", expected["content"]) for expected in case["result"]
    ]
    assert [found for found in diagnoses if found.path.startswith(str(tmp_path))] == []


def test_a_context_file_that_cannot_be_read_is_told_and_the_next_is_tried(tmp_path: Path) -> None:
    plant(tmp_path, {"w/CLAUDE.md": "OTHER"})
    (tmp_path / "w" / "AGENTS.md").mkdir()
    (tmp_path / "w" / "AGENTS.MD").symlink_to("nowhere")
    (tmp_path / "agent").mkdir()
    os.mkfifo(tmp_path / "agent" / "AGENTS.md")
    found, diagnoses = find_context_files(f"{tmp_path}/w", f"{tmp_path}/agent")
    assert [file.content for file in found if file.path.startswith(f"{tmp_path}/")] == ["OTHER"]
    told = [(one.kind, one.path, one.message) for one in diagnoses if one.path.startswith(str(tmp_path))]
    assert [(kind, Path(path).name) for kind, path, _ in told] == [
        ("unreadable", "AGENTS.md"),
        ("unreadable", "AGENTS.md"),
        ("unreadable", "AGENTS.MD"),
    ]
    assert "no regular file" in told[0][2]
    assert told[1][2].endswith("Is a directory")
    assert "leads nowhere" in told[2][2]


@holds("AC-135", "AC-136")
@pytest.mark.parametrize("name", _PROMPTS)
def test_the_parts_of_a_system_prompt_stand_in_the_order_of_the_original(name: str) -> None:
    expected = _TABLE["systemPrompt"][name]
    prompt = build_system_prompt(cwd="/w", date=_TODAY, **_PROMPTS[name])
    places = {mark: prompt.find(text) for mark, text in _MARKS.items()}
    assert sorted((mark for mark in places if places[mark] >= 0), key=lambda mark: places[mark]) == expected["order"]
    assert [mark for mark in places if places[mark] < 0] == expected["missing"]
    assert prompt.endswith(_MARKS["cwd"]) is expected["endsWithCwd"]
    if expected["toolLines"] is not None:
        assert f"\nTools:\n{expected['toolLines']}\n\n" in prompt
    _, _, guidelines = prompt.partition("Guidelines:\n")
    assert len([line for line in guidelines.split("\n\n")[0].split("\n") if line]) == expected["guidelineCount"]


@holds("AC-137")
def test_the_working_directory_is_shown_with_forward_slashes() -> None:
    prompt = build_system_prompt(cwd="C:\\dev\\proj", date=_TODAY, base="")
    assert prompt.endswith("\nCurrent date: 2026-01-09\nCurrent working directory: C:/dev/proj")
    assert "Tools" not in prompt


def test_templates_of_folders_are_those_of_the_original(tmp_path: Path) -> None:
    expected = cases("templates")["load"]["templates"]
    texts = {found["file"]: found["content"] for found in expected}
    texts["agent/prompts/review.md"] = (
        "---\ndescription: Review things\nargument-hint: <file>\n---\nReview $1 please.\n"
    )
    plant(tmp_path, texts)
    plant(tmp_path, {"agent/prompts/sub/deep.md": "deep", "agent/prompts/bad.md": "---\n[\n---\n", "x/.md": "no name"})
    scopes = {"user": "user", "project": "project", "temporary": "given"}
    for source, path in (("user", "agent/prompts"), ("project", "proj/.pi/prompts"), ("temporary", "extra/one.md")):
        found, diagnoses = scan_templates([Source(f"{tmp_path}/{path}", scopes[source])])  # type: ignore[arg-type]
        assert sorted(found, key=lambda template: template.name) == [
            PromptTemplate(
                one["name"],
                one["description"],
                one["content"],
                f"{tmp_path}/{one['file']}",
                one["argumentHint"],
                scopes[source],  # type: ignore[arg-type]
            )
            for one in sorted(expected, key=lambda one: one["name"])
            if one["scope"] == source
        ]
        assert [one.path for one in diagnoses] == ([f"{tmp_path}/agent/prompts/bad.md"] if source == "user" else [])


async def _load(root: Path, **wishes: Any) -> Resources:
    return await load_resources(str(root / "w"), str(root / "agent"), home=str(root / "home"), **wishes)


async def test_one_call_loads_everything_for_an_agent(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "w/.git/HEAD": "ref",
            "w/AGENTS.md": "PROJECT",
            "w/.pi/SYSTEM.md": "BASE",
            "w/.pi/skills/x/SKILL.md": skill_text("of the project"),
            "w/.pi/prompts/fix.md": "Fix $1.",
            "agent/SYSTEM.md": "USER BASE",
            "agent/APPEND_SYSTEM.md": "APPENDED",
            "agent/AGENTS.md": "USER",
            "agent/skills/x/SKILL.md": skill_text("of the user"),
            "agent/prompts/fix.md": "Repair $1.",
        },
    )
    resources = await _load(tmp_path)
    assert (resources.base, resources.appended) == ("BASE", "APPENDED")
    assert [file.content for file in resources.context_files][0 :: len(resources.context_files) - 1] == [
        "USER",
        "PROJECT",
    ]
    assert [skill.description for skill in resources.skills] == ["of the project"]
    assert [(one.message, one.path) for one in resources.diagnoses if one.kind == "collision"] == [
        ('name "x" collision', f"{tmp_path}/agent/skills/x/SKILL.md"),
        ('name "/fix" collision', f"{tmp_path}/agent/prompts/fix.md"),
    ]
    prompt = resources.system_prompt(date=_TODAY, tools=["read"])
    assert prompt.startswith("BASE\n\nAPPENDED\n\n# Project Context\n\n")
    assert "<name>x</name>" in prompt
    assert resources.expand("/fix a.txt") == "Fix a.txt."
    assert resources.expand("/skill:x now").endswith("</skill>\n\nnow")
    assert resources.expand("/other") == "/other"


async def test_places_that_are_not_there_are_no_trouble(tmp_path: Path) -> None:
    resources = await _load(tmp_path, has_context_files=False)
    assert resources == Resources(f"{tmp_path}/w")


async def test_texts_of_the_prompt_may_be_given_or_be_files(tmp_path: Path) -> None:
    plant(tmp_path, {"w/base.txt": "FROM A FILE", "w/.pi/SYSTEM.md": "not asked"})
    given = await _load(tmp_path, base="base.txt", appended=["one", "base.txt", "", "a\nb"])
    assert (given.base, given.appended) == ("FROM A FILE", "one\n\nFROM A FILE\n\na\nb")
    text = "You are\0 \ud83d " + "long " * 2000
    assert (await _load(tmp_path, base=text)).base == text
    assert (await _load(tmp_path, base="")).base == ""


async def test_a_prompt_file_that_cannot_be_read_is_told_and_not_replaced_unseen(tmp_path: Path) -> None:
    plant(tmp_path, {"agent/SYSTEM.md": "USER BASE"})
    (tmp_path / "w/.pi/SYSTEM.md").mkdir(parents=True)
    resources = await _load(tmp_path)
    assert [(one.kind, one.path) for one in resources.diagnoses if "SYSTEM" in one.path] == [
        ("unreadable", f"{tmp_path}/w/.pi/SYSTEM.md")
    ]


async def test_discovery_can_be_switched_off_and_what_is_given_still_loads(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "w/AGENTS.md": "PROJECT",
            "w/.pi/skills/x/SKILL.md": skill_text(),
            "home/mine/SKILL.md": skill_text("given"),
            "w/p.md": "text",
        },
    )
    resources = await _load(
        tmp_path,
        skills=ResourcePaths(given=["~/mine"]),
        templates=ResourcePaths(given=["p.md", "absent.md"]),
        has_discovery=False,
        has_context_files=False,
    )
    assert resources.context_files == ()
    assert [skill.description for skill in resources.skills] == ["given"]
    assert [template.name for template in resources.templates] == ["p"]
    assert [one.message for one in resources.diagnoses] == ["prompt template path does not exist"]


async def test_loading_can_be_cancelled_while_a_folder_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()
    ended: list[str] = []

    def hanging(path: str) -> list[str]:
        token.run_sync_soon(entered.set)
        release.wait(30)
        ended.append(path)
        return []

    plant(tmp_path, {"w/.pi/skills/x/SKILL.md": skill_text()})
    monkeypatch.setattr(os, "listdir", hanging)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_load, tmp_path)
            await entered.wait()
            nursery.cancel_scope.cancel()
        assert ended == [], "the call waited for a thread that hangs"
    finally:
        release.set()
