"""The system prompt, put together of its parts in one order (host 4.2). Pure.

The time of day is not in it, only the date: the prompt's prefix stays the same for a day, and so do a provider's
caches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date as Date  # noqa: N812 - the parameter is called date

from .context_files import ContextFile
from .skills import Skill, list_skills

_INTRODUCTION = (
    "You are an assistant that works on a user's files and programs. You read, run and change things with the tools "
    "below, and say what you did."
)
_GUIDELINES = ("Keep answers short.", "Name each file by its path.")
_GUIDELINE_FOR_BASH = "Use bash to list, find and search files."
_CONTEXT_INTRODUCTION = "What the people of this project want you to know and to follow:"


def build_system_prompt(
    *,
    cwd: str,
    date: Date,
    base: str | None = None,
    appended: str = "",
    context_files: Sequence[ContextFile] = (),
    skills: Sequence[Skill] = (),
    tools: Sequence[str] | None = None,
    snippets: Mapping[str, str] | None = None,
    guidelines: Iterable[str] = (),
) -> str:
    """The text: base, what is appended, context files, skills, date, working directory.

    Args:
      date: of today, where the user is.
      base: replaces the default base, which lists tools and guidelines; an empty text replaces it too.
      tools: names of the tools that the agent has; None: it is not said, and the default base lists those of
        ``snippets``. Skills are listed only for an agent that can ``read`` them.
      snippets: by tool, half a line on what it is for. A tool without one is not listed.
      guidelines: further lines of the default base; blank ones and doubles are left out.
    """
    parts = [default_base(tools, snippets or {}, guidelines) if base is None else base]
    if appended:
        parts.append(appended)
    if context_files:
        sections = [f"## {file.path}\n\n{file.content}" for file in context_files]
        parts.append("\n\n".join(["# Project Context", _CONTEXT_INTRODUCTION, *sections]))
    can_read = tools is None or "read" in tools
    listing = list_skills(skills) if can_read else ""
    shown_cwd = cwd.replace("\\", "/")
    end = f"\n\nCurrent date: {date.isoformat()}\nCurrent working directory: {shown_cwd}"
    return "\n\n".join(part for part in parts if part) + listing + end


def default_base(tools: Sequence[str] | None, snippets: Mapping[str, str], guidelines: Iterable[str] = ()) -> str:
    """The base for an agent with these tools."""
    names = list(snippets) if tools is None else tools
    listed = [f"- {name}: {snippets[name]}" for name in names if snippets.get(name)] or ["(none)"]
    rules = [*_GUIDELINES, *([_GUIDELINE_FOR_BASH] if "bash" in names else []), *guidelines]
    kept = dict.fromkeys(rule.strip() for rule in rules if rule.strip())
    lines = [_INTRODUCTION, "", "Tools:", *listed, "", "Guidelines:", *(f"- {rule}" for rule in kept)]
    return "\n".join(lines)
