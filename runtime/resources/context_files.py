"""Context files: what people wrote for agents, for all work and for the folder they work in (host 4.1)."""

from __future__ import annotations

import os.path

import attrs

from . import files
from .diagnoses import ResourceDiagnosis

# In one folder the first of these is taken.
CONTEXT_FILE_NAMES = ("AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")


@attrs.frozen
class ContextFile:
    """A file whose text goes into every system prompt."""

    path: str
    content: str


def find_context_files(cwd: str, agent_dir: str) -> tuple[list[ContextFile], list[ResourceDiagnosis]]:
    """The agent directory's file, then those from the root down to ``cwd``: the nearest comes last. Each file once.

    Args:
      cwd, agent_dir: absolute paths; neither need exist.
    """
    found: list[ContextFile] = []
    diagnoses: list[ResourceDiagnosis] = []
    seen: set[object] = set()
    for folder in (agent_dir, *reversed(files.upwards(cwd))):
        file = _first_in(folder, diagnoses)
        if file is not None and (identity := files.identity(file.path)) not in seen:
            seen.add(identity)
            found.append(file)
    return found, list(dict.fromkeys(diagnoses))


def _first_in(folder: str, diagnoses: list[ResourceDiagnosis]) -> ContextFile | None:
    for name in CONTEXT_FILE_NAMES:
        path = os.path.join(folder, name)
        content = files.or_tell(files.read_text, path, diagnoses.append)
        if content is not None:
            return ContextFile(path, content)
    return None
