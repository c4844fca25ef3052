"""``strataflow log``: who changed what and when, oldest first, from outside, without a lock."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from .. import LOG_LIMIT_DEFAULT, LogEntry, compact, inspect_store
from .options import json_option, place_options, working_folder
from .terminal import print_json, styled

_SESSION_DEFAULT = "main"
_COUNT_MAX = 1_000_000


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "log",
        help="show accepted transitions",
        description="Show the newest accepted transitions, oldest first: sequence, time, session, scopes and the net "
        "record of each scope. With a path only those that changed something there, as one session sees it, whoever "
        "made them. The journal keeps at least the newest hundred of each scope. With --json each line is one "
        "transition.",
    )
    parser.add_argument("path", nargs="?", metavar="PATH", help="a place in memory, such as cwd.working.plan")
    parser.add_argument(
        "--limit", type=_count, default=LOG_LIMIT_DEFAULT, metavar="N", help=f"how many (default: {LOG_LIMIT_DEFAULT})"
    )
    parser.add_argument(
        "--cwd",
        metavar="PATH",
        help="only those made in this working directory; with a path, that of the session (default: the current one)",
    )
    parser.add_argument(
        "--session",
        metavar="ID",
        help=f"only those of the session with this id; with a path, who looks (default: {_SESSION_DEFAULT})",
    )
    place_options(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the transitions."""
    for entry in _entries(arguments):
        if arguments.json:
            print_json(entry.to_json())
        else:
            print(_described(entry))
    return 0


def _entries(arguments: argparse.Namespace) -> Sequence[LogEntry]:
    inspector = inspect_store(arguments.agent_dir, store=arguments.store)
    if arguments.path is not None:
        session = _SESSION_DEFAULT if arguments.session is None else arguments.session
        return inspector.log_of_session(working_folder(arguments.cwd), session, arguments.path, arguments.limit)
    cwd = None if arguments.cwd is None else working_folder(arguments.cwd)
    return inspector.log(arguments.limit, cwd, arguments.session)


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
