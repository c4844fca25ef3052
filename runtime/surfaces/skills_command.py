"""``strataflow skills``: the Skills that come with the program."""

from __future__ import annotations

import argparse

from .. import packaged_skills
from .options import json_option
from .terminal import print_json


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "skills",
        help="list the Skills that come with the program",
        description="List the packaged Skills: name, when to use it, and the file that an agent reads.",
    )
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    found = packaged_skills()
    if arguments.json:
        print_json([skill.to_json() for skill in found])
        return 0
    print("\n\n".join(f"{skill.name}\n  {skill.description}\n  {skill.path}" for skill in found))
    return 0
