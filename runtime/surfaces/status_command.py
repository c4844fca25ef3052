"""``strataflow status``: a session and its memory at one moment, from outside, without a lock."""

from __future__ import annotations

import argparse

from .. import inspect_store
from .exits import ExitCode, exit_code
from .options import json_option, limit_option, place_options, session_options, working_folder
from .terminal import print_json


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "status",
        help="show the state of a session",
        description="Show mode, revisions, step, history, sizes and the effective memory of a session. Takes no lock "
        "and changes nothing. Exit code 3 if a scope of it cannot be read.",
    )
    place_options(parser)
    session_options(parser)
    limit_option(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the status."""
    inspector = inspect_store(arguments.agent_dir, store=arguments.store)
    status = inspector.status(working_folder(arguments.cwd), arguments.session, arguments.history_limit)
    if arguments.json:
        print_json(status.to_json())
    else:
        print("\n".join(status.lines()))
    return max((exit_code(error) for error in status.errors.values()), default=ExitCode.OK)
