"""Where skills and templates come from, in order of precedence (host 4.3.5, 4.4.1): on equal names the first wins."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence
from typing import Literal

import attrs

from . import files
from .skills import ResourceScope

PROJECT_FOLDER = ".pi"
SHARED_SKILLS_FOLDER = ".agents/skills"


@attrs.frozen
class Source:
    """A file or folder with resources.

    Attributes:
      path: absolute.
      is_named: somebody named it, so it is told when it is not there; else it is a place to look at.
      has_loose_files: every Markdown file directly in the folder is a skill.
    """

    path: str
    scope: ResourceScope = "given"
    is_named: bool = True
    has_loose_files: bool = True


@attrs.frozen
class ResourcePaths:
    """Files and folders that others name for one kind of resource, by who names them. ``~`` is the home folder;
    relative paths are relative to the working directory.

    Attributes:
      given: by hand, for this run.
      project, user: in the settings of the project, of the user.
      packages: of installed packages; ``packages_first`` of those named for this run.
    """

    given: Sequence[str] = ()
    project: Sequence[str] = ()
    user: Sequence[str] = ()
    packages: Sequence[str] = ()
    packages_first: Sequence[str] = ()


def sources_of(
    kind: Literal["skills", "prompts"],
    *,
    cwd: str,
    agent_dir: str,
    home: str,
    named: ResourcePaths,
    has_discovery: bool = True,
) -> list[Source]:
    """All sources of skills or prompt templates in order of precedence.

    Args:
      has_discovery: False: only what was given by hand.
    """

    def those(paths: Iterable[str], scope: ResourceScope) -> list[Source]:
        return [Source(files.absolute(path, cwd, home), scope) for path in paths]

    given = those(named.given, "given")
    if not has_discovery:
        return given
    project, user = _discovered(kind, cwd, agent_dir, home)
    return [
        *those(named.packages_first, "package"),
        *those(named.project, "project"),
        *project,
        *those(named.user, "user"),
        *user,
        *those(named.packages, "package"),
        *given,
    ]


def _discovered(kind: str, cwd: str, agent_dir: str, home: str) -> tuple[list[Source], list[Source]]:
    project = [Source(os.path.join(cwd, PROJECT_FOLDER, kind), "project", is_named=False)]
    user = [Source(os.path.join(agent_dir, kind), "user", is_named=False)]
    if kind == "skills":
        project += [_shared(folder, "project") for folder in _project_folders(cwd)]
        user.append(_shared(home, "user"))
    return project, user


def _shared(folder: str, scope: ResourceScope) -> Source:
    return Source(os.path.join(folder, SHARED_SKILLS_FOLDER), scope, is_named=False, has_loose_files=False)


def _project_folders(cwd: str) -> Iterable[str]:
    """``cwd`` and its parents, nearest first, up to the root of its git repository, or of the file system outside."""
    for folder in files.upwards(cwd):
        yield folder
        if _holds_repository(folder):
            return


def _holds_repository(folder: str) -> bool:
    try:
        return files.kind_at(os.path.join(folder, ".git")) is not None
    except files.Unreadable:
        return False  # what may not be looked at is no border; the sources beyond are told of by themselves
