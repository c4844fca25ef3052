"""Skills: what they are, when they are sound, how a model sees them and how a user calls one (host 4.3). Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import attrs

from .diagnoses import ResourceDiagnosis
from .front_matter import FrontMatterError, read_front_matter

SKILL_FILE = "SKILL.md"
SKILL_NAME_CHARS_MAX = 64
SKILL_DESCRIPTION_CHARS_MAX = 1024

# Where a resource comes from: the user's own, the project's, a package, or given by hand.
ResourceScope = Literal["user", "project", "package", "given"]

_COMMAND = "/skill:"
_LISTING_INTRODUCTION = (
    "These skills are instructions for certain tasks, each in a file of its own.",
    "When a task fits a description, use the read tool on the skill's file first and follow what it says.",
    "Paths in a skill are relative to the folder of its file; give tools absolute paths.",
)
_BLOCK = re.compile(r'<skill name="([^"]+)" location="([^"]+)">\n(.*?)\n</skill>(?:\n\n(.+))?', re.DOTALL)
_XML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})


@attrs.frozen
class Skill:
    """A skill.

    Attributes:
      name: what users call it by.
      description: what a model decides on.
      path: its file; ``folder`` is where that lies.
      body: the instructions.
      is_hidden: not listed for models; users can call it.
      scope: where it comes from.
    """

    name: str
    description: str
    path: str
    folder: str
    body: str
    is_hidden: bool = False
    scope: ResourceScope = "given"


def parse_skill(
    path: str, text: str, scope: ResourceScope = "given"
) -> tuple[Skill | None, tuple[ResourceDiagnosis, ...]]:
    """Read the text of a skill file. Without a description, or with bad front matter, there is no skill."""
    try:
        matter = read_front_matter(text)
    except FrontMatterError as error:
        return None, (ResourceDiagnosis("warning", str(error), path),)
    folder = posixpath.dirname(path)
    given, described = matter.fields.get("name"), matter.fields.get("description")
    name = given if isinstance(given, str) and given else posixpath.basename(folder)
    description = described if isinstance(described, str) else ""
    problems = [*_problems_of_description(description), *_problems_of_name(name, posixpath.basename(folder))]
    diagnoses = tuple(ResourceDiagnosis("warning", problem, path) for problem in problems)
    if not description.strip():
        return None, diagnoses
    is_hidden = matter.fields.get("disable-model-invocation") is True
    return Skill(name, description, path, folder, matter.body, is_hidden, scope), diagnoses


def _problems_of_description(description: str) -> Iterable[str]:
    if not description.strip():
        yield "description is required"
    elif len(description) > SKILL_DESCRIPTION_CHARS_MAX:
        yield f"description exceeds {SKILL_DESCRIPTION_CHARS_MAX} characters ({len(description)})"


def _problems_of_name(name: str, folder: str) -> Iterable[str]:
    if name != folder:
        yield f'name "{name}" does not match parent directory "{folder}"'
    if len(name) > SKILL_NAME_CHARS_MAX:
        yield f"name exceeds {SKILL_NAME_CHARS_MAX} characters ({len(name)})"
    if not re.fullmatch(r"[a-z0-9-]+", name):
        yield "name contains invalid characters (must be lowercase a-z, 0-9, hyphens only)"
    if name.startswith("-") or name.endswith("-"):
        yield "name must not start or end with a hyphen"
    if "--" in name:
        yield "name must not contain consecutive hyphens"


def list_skills(skills: Sequence[Skill]) -> str:
    """What a system prompt says of skills: name, description and file of each that is not hidden. Begins with two LF;
    empty if there is none."""
    shown = [skill for skill in skills if not skill.is_hidden]
    if not shown:
        return ""
    lines = ["\n", *_LISTING_INTRODUCTION, "", "<available_skills>"]
    for skill in shown:
        lines += [
            "  <skill>",
            f"    <name>{skill.name.translate(_XML)}</name>",
            f"    <description>{skill.description.translate(_XML)}</description>",
            f"    <location>{skill.path.translate(_XML)}</location>",
            "  </skill>",
        ]
    return "\n".join([*lines, "</available_skills>"])


def expand_skill(text: str, skills: Sequence[Skill]) -> str:
    """``/skill:NAME arguments`` as the message that a model gets; any other text, and an unknown name, unchanged."""
    if not text.startswith(_COMMAND):
        return text
    name, _, arguments = text.removeprefix(_COMMAND).partition(" ")
    skill = next((skill for skill in skills if skill.name == name), None)
    if skill is None:
        return text
    block = (
        f'<skill name="{skill.name}" location="{skill.path}">\n'
        f"Paths in this skill are relative to {skill.folder}.\n\n{skill.body}\n</skill>"
    )
    return f"{block}\n\n{arguments.strip()}" if arguments.strip() else block


@attrs.frozen
class SkillBlock:
    """A called skill as it stands in a message: ``content`` is all inside, ``user_message`` what the user added."""

    name: str
    location: str
    content: str
    user_message: str | None = None


def parse_skill_block(text: str) -> SkillBlock | None:
    """The inverse of ``expand_skill``, for whoever shows a message. None: the text is no called skill."""
    found = _BLOCK.fullmatch(text)
    if found is None:
        return None
    name, location, content, added = found.groups()
    return SkillBlock(name, location, content, (added or "").strip() or None)
