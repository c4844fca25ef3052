"""``strataflow unlock``: remove a lock that a dead program left, after asking the system whether it is dead."""

from __future__ import annotations

import argparse

from .. import StoreError, inspect_store
from .exits import ExitCode, say_error
from .options import json_option, place_options
from .terminal import print_json


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "unlock",
        help="remove the lock of a program that is gone",
        description="Remove the lock file that another program (Pi) left in the store when it died. Refused while its "
        "owner lives or a process of ours has the store open. A lock of ours needs no removal.",
    )
    place_options(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Remove the lock if that is safe."""
    try:
        report = inspect_store(arguments.agent_dir, store=arguments.store).unlock()
    except StoreError as error:
        if error.code != "E_LOCK":
            raise
        # The store is in use, which is no damage: the removal is refused.
        say_error("strataflow unlock", error)
        return ExitCode.REFUSED
    answer = {"path": report.path, "removed": report.is_removed, "words": report.words}
    if arguments.json:
        print_json(answer)
    else:
        print(report.words)
    return ExitCode.OK
