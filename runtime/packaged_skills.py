"""The Skills that come with the program (A38): Markdown files with front matter, for a host that offers them.

They are files like any other Skill's: a host puts their paths into its inventory, and registers them with
``Session.registered_skills`` as what a user has everywhere.
"""

from __future__ import annotations

import os
from typing import final

import attrs

from ..store import Json

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "skills")


@final
@attrs.frozen
class PackagedSkill:
    """A Skill of the package.

    Attributes:
      name: as a host lists it.
      description: when to use it.
      path: absolute path of its file in the installed package.
      body: its text without the front matter.
    """

    name: str
    description: str
    path: str
    body: str = attrs.field(repr=False)

    def to_json(self) -> Json:
        """As a list of Skills has it, without the text."""
        return {"name": self.name, "description": self.description, "path": self.path}


def packaged_skills() -> list[PackagedSkill]:
    """All of them, by name. Reads their files; blocks for as long as that takes."""
    # Here: whoever has no use for Skills need not load a parser of YAML.
    from .resources.front_matter import read_front_matter

    found = []
    for folder in sorted(os.listdir(_FOLDER)):
        path = os.path.join(_FOLDER, folder, "SKILL.md")
        with open(path, encoding="utf-8") as file:
            parts = read_front_matter(file.read())
        found.append(PackagedSkill(parts.fields["name"], parts.fields["description"], path, parts.body))
    return found
