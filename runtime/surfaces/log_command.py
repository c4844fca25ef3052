"""``strataflow log``: accepted transitions, oldest first, from outside, without a lock."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from .. import LogEntry, compact, inspect_store
from .options import json_option, place_options, working_folder
from .terminal import styled

_DEFAULT_COUNT = 20
_COUNT_MAX = 1_000_000


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "log",
        help="show accepted transitions",
        description="Show the newest accepted transitions, oldest first: sequence, time, session, scopes and the net "
        "record of each scope. The journal keeps at least the newest hundred of each scope. With --json each line is "
        "one transition.",
    )
    parser.add_argument(
        "--limit", type=_count, default=_DEFAULT_COUNT, metavar="N", help=f"how many (default: {_DEFAULT_COUNT})"
    )
    parser.add_argument("--cwd", metavar="PATH", help="only those made in this working directory")
    parser.add_argument("--session", metavar="ID", help="only those of the session with this id")
    place_options(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the transitions."""
    inspector = inspect_store(arguments.agent_dir, store=arguments.store)
    cwd = None if arguments.cwd is None else working_folder(arguments.cwd)
    for entry in inspector.log(arguments.limit, cwd, arguments.session):
        print(compact(entry.to_json()) if arguments.json else _described(entry))
    return 0


def _described(entry: LogEntry) -> str:
    time = datetime.fromtimestamp(entry.time_ms / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    head = f"{styled(f'#{entry.seq}', 'bold')}  {time}Z  {entry.session_id} in {entry.cwd}"
    lines = [f"  {styled(name, 'cyan')} {compact(patch)}" for name, patch in entry.patches.items()]
    lines += [f"  {name}: gave way to files that another program wrote" for name in entry.superseded]
    return "\n".join([head, *lines])


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= _COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 1 to {_COUNT_MAX}")
    return int(text)
