"""``strataflow read``: memory by path, from outside, without a lock."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .. import inspect_store, pretty
from .options import json_option, limit_option, place_options, session_options, working_folder
from .terminal import print_json


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "read",
        help="read memory by path",
        description="Read one or more paths, such as effective, cwd.working.list[0:3] or session[2].response. Opens "
        "no session, takes no lock and changes nothing; a store or session that does not exist reads as empty.",
    )
    parser.add_argument("path", nargs="+", metavar="PATH", help="what to read; several paths give a list")
    parser.add_argument(
        "--projection",
        choices=("value", "keys", "patch"),
        default="value",
        help="the value itself, its keys and kinds, or the last change of it (default: value)",
    )
    place_options(parser)
    session_options(parser)
    limit_option(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer."""
    inspector = inspect_store(arguments.agent_dir, store=arguments.store)
    paths: list[str] = arguments.path
    request: dict[str, Any] = {"path": paths[0]} if len(paths) == 1 else {"paths": paths}
    request["projection"] = arguments.projection
    cwd = working_folder(arguments.cwd)
    result = inspector.read(cwd, arguments.session, request, arguments.history_limit)
    answer = result.to_json()
    if arguments.json:
        print_json(answer)
        return 0
    for hint in result.hint or ():
        print(f"strataflow read: {hint['message']}", file=sys.stderr)
    shown = answer.get("value") if "value" in answer else answer.get("patch") if "patch" in answer else answer
    print(pretty(shown))
    return 0
