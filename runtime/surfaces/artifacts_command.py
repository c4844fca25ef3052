"""``strataflow artifacts``: the cards of a session's scopes and how fresh they are, from outside, without a lock."""

from __future__ import annotations

import argparse

from .. import ArtifactCard, inspect_store
from .options import json_option, place_options, session_options, working_folder
from .terminal import print_json


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "artifacts",
        help="list the cards about sources, and whether they are current",
        description="List the cards of the three scopes of a session. Their sources are looked at by size and time, "
        "never read. Takes no lock and changes nothing.",
    )
    parser.add_argument("--select", nargs="+", metavar="TAG", default=(), help="only cards that have all of these tags")
    parser.add_argument("--any", action="store_true", help="with --select: only one of the tags is needed")
    place_options(parser)
    session_options(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    inspector = inspect_store(arguments.agent_dir, store=arguments.store)
    found = inspector.artifacts(
        working_folder(arguments.cwd), arguments.session, arguments.select, "any" if arguments.any else "all"
    )
    if arguments.json:
        print_json([card.to_json() for card in found])
        return 0
    print("\n".join(_line(card) for card in found) or "no cards")
    return 0


def _line(card: ArtifactCard) -> str:
    tags = f" [{' '.join(card.tags)}]" if card.tags else ""
    state = card.freshness if card.reason is None else f"{card.freshness} ({card.reason})"
    line = f"- [{card.scope}] {card.path} — {state}{tags}: {' '.join(card.description.split())}"
    # Models write cards: none of their texts may look like another line, or command the terminal.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
