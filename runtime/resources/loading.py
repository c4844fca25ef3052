"""Everything a host loads for an agent, in one call."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date as Date  # noqa: N812 - the parameter is called date
from functools import partial
from typing import final

import attrs
import trio

from ...store.artifacts import Provenance, RegisteredSkill
from ..places import agent_folder
from . import files
from .context_files import ContextFile, find_context_files
from .diagnoses import ResourceDiagnosis
from .finding import PROJECT_FOLDER, ResourcePaths, sources_of
from .scanning import scan_skills, scan_templates
from .skills import ResourceScope, Skill, expand_skill
from .system_prompt import build_system_prompt
from .templates import PromptTemplate, expand_template

_PROVENANCES: Mapping[ResourceScope, Provenance] = {
    "user": "user",
    "package": "user",
    "project": "project",
    "given": "temporary",
}


@final
@attrs.frozen
class Resources:
    """What was found for an agent in one working directory. A snapshot: load again to see changed files.

    Attributes:
      cwd: absolute.
      base: the text that replaces the default base of the system prompt, or None; ``appended`` follows it.
      diagnoses: everything that is wrong with the files, in the order in which it was found.
    """

    cwd: str
    base: str | None = None
    appended: str = ""
    context_files: tuple[ContextFile, ...] = ()
    skills: tuple[Skill, ...] = ()
    templates: tuple[PromptTemplate, ...] = ()
    diagnoses: tuple[ResourceDiagnosis, ...] = ()

    def system_prompt(
        self,
        *,
        date: Date,
        tools: Sequence[str] | None = None,
        snippets: Mapping[str, str] | None = None,
        guidelines: Iterable[str] = (),
    ) -> str:
        """The system prompt of an agent with these tools. See ``build_system_prompt``."""
        return build_system_prompt(
            cwd=self.cwd,
            date=date,
            base=self.base,
            appended=self.appended,
            context_files=self.context_files,
            skills=self.skills,
            tools=tools,
            snippets=snippets,
            guidelines=guidelines,
        )

    def registered_skills(self) -> tuple[RegisteredSkill, ...]:
        """The skills as a session wants them: ``session.registered_skills(resources.registered_skills())``. Those of
        packages are the user's; those that were given by hand are there for the session."""
        return tuple(RegisteredSkill(skill.path, _PROVENANCES[skill.scope], skill.name) for skill in self.skills)

    def expand(self, text: str) -> str:
        """What a user typed as the agent is to get it: ``/skill:NAME …`` and ``/TEMPLATE …`` are replaced."""
        return expand_template(expand_skill(text, self.skills), self.templates)


async def load_resources(
    cwd: str,
    agent_dir: str | None = None,
    *,
    base: str | None = None,
    appended: Sequence[str] | None = None,
    skills: ResourcePaths | None = None,
    templates: ResourcePaths | None = None,
    has_context_files: bool = True,
    has_discovery: bool = True,
    home: str | None = None,
) -> Resources:
    """Read everything for an agent that works in ``cwd``. One bad file never hides another: see ``diagnoses``.

    Args:
      cwd: relative names begin here.
      agent_dir: where the user's own files lie; None as for ``open_runtime``.
      base: replaces the default base of the system prompt; None: ``.pi/SYSTEM.md`` in ``cwd``, else ``SYSTEM.md`` in
        the agent directory. A text that is the path of a file stands for what is in it.
      appended: follows the base, one after another; None: ``APPEND_SYSTEM.md`` in the same two places.
      skills, templates: files and folders that others name.
      has_context_files: False: no context files are looked for.
      has_discovery: False: only skills and templates given by hand.
      home: the user's home folder; None: the system's answer.

    Raises:
      ConfigError: E_CONFIG if an empty agent directory is given.

    Cancellation: nothing was written. The files are read in a worker thread, which is given up if it hangs.
    """
    wanted = _Wanted(
        cwd, agent_dir, base, appended, skills or ResourcePaths(), templates or ResourcePaths(), home, has_discovery
    )
    return await trio.to_thread.run_sync(wanted.load, has_context_files, abandon_on_cancel=True)


@attrs.frozen
class _Wanted:
    """The arguments of ``load_resources``, and the work in a thread."""

    cwd: str
    agent_dir: str | None
    base: str | None
    appended: Sequence[str] | None
    skills: ResourcePaths
    templates: ResourcePaths
    home: str | None
    has_discovery: bool

    def load(self, has_context_files: bool) -> Resources:
        cwd, agent_dir = os.path.abspath(self.cwd), agent_folder(self.agent_dir)
        home = os.path.expanduser("~") if self.home is None else self.home
        sources = partial(sources_of, cwd=cwd, agent_dir=agent_dir, home=home, has_discovery=self.has_discovery)
        diagnoses: list[ResourceDiagnosis] = []
        base, appended = self._prompt_texts(_PromptTexts(cwd, agent_dir, diagnoses.append))
        context_files, of_context = find_context_files(cwd, agent_dir) if has_context_files else ([], [])
        skills, of_skills = scan_skills(sources("skills", named=self.skills))
        templates, of_templates = scan_templates(sources("prompts", named=self.templates))
        diagnoses += (*of_context, *of_skills, *of_templates)
        return Resources(cwd, base, appended, tuple(context_files), tuple(skills), tuple(templates), tuple(diagnoses))

    def _prompt_texts(self, texts: _PromptTexts) -> tuple[str | None, str]:
        base = texts.found("SYSTEM.md") if self.base is None else texts.given(self.base)
        if self.appended is None:
            return base, texts.found("APPEND_SYSTEM.md") or ""
        return base, "\n\n".join(text for given in self.appended if (text := texts.given(given)))


@attrs.frozen
class _PromptTexts:
    """Looks up the texts of a system prompt (4.2.2)."""

    cwd: str
    agent_dir: str
    tell: Callable[[ResourceDiagnosis], None]

    def given(self, value: str) -> str | None:
        """A given text, or what is in the file that it names. None: that file cannot be read, which is told."""
        # Texts for a prompt have several lines or many words; no file is named so.
        path = os.path.join(self.cwd, value)
        if not value or "\n" in value or files.or_tell(files.kind_at, path, self.tell) != "file":
            return value
        return files.or_tell(files.read_text, path, self.tell)

    def found(self, name: str) -> str | None:
        """The project's file of this name, else the user's."""
        for path in (os.path.join(self.cwd, PROJECT_FOLDER, name), os.path.join(self.agent_dir, name)):
            if (text := files.or_tell(files.read_text, path, self.tell)) is not None:
                return text
        return None
