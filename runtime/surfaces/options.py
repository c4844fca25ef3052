"""Options that several commands share."""

from __future__ import annotations

import argparse
import os

from .. import HISTORY_LIMIT_MAX, CallError, check_request_id

MODES = ("active", "passive", "off")
DURABILITIES = ("power", "process")


def place_options(parser: argparse.ArgumentParser) -> None:
    """Where the store is."""
    group = parser.add_argument_group("place")
    group.add_argument(
        "--agent-dir",
        metavar="DIR",
        help="agent directory, whose state-flow folder is the store (default: $STRATAFLOW_DIR, else ~/.strataflow)",
    )
    group.add_argument("--store", metavar="DIR", help="the store's own folder instead")


def session_options(parser: argparse.ArgumentParser, *, session: str | None = "main") -> None:
    """Whose memory is meant. ``session`` is the default of that option."""
    group = parser.add_argument_group("session")
    group.add_argument("--cwd", metavar="PATH", help="working directory of the session (default: the current one)")
    default = "all of them" if session is None else session
    group.add_argument("--session", metavar="ID", default=session, help=f"id of the session (default: {default})")


def limit_option(parser: argparse.ArgumentParser) -> None:
    """How far back a reader may look."""
    parser.add_argument(
        "--history-limit",
        type=history_limit,
        metavar="N",
        help=f"visible transitions, 0 to {HISTORY_LIMIT_MAX} (default: historyLimit of config.json, else 7)",
    )


def writing_options(parser: argparse.ArgumentParser) -> None:
    """How a store is opened."""
    durability_options(parser)
    parser.add_argument("--mode", choices=MODES, help="mode of the session (default: config.json for new ones, active)")
    limit_option(parser)


def durability_options(parser: argparse.ArgumentParser) -> None:
    """How changes are kept, and beside whom."""
    parser.add_argument(
        "--durability",
        choices=DURABILITIES,
        default="power",
        help="what an acknowledged change survives: loss of power, or only the death of processes (default: power)",
    )
    parser.add_argument("--share-with-pi", action="store_true", help="work beside a running Pi, slower")


def json_option(parser: argparse.ArgumentParser) -> None:
    """Output for programs."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def history_limit(text: str) -> int:
    """The value of ``--history-limit``, for argparse."""
    try:
        limit = int(text)
    except ValueError:
        limit = -1
    if not 0 <= limit <= HISTORY_LIMIT_MAX:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not an integer from 0 to {HISTORY_LIMIT_MAX}")
    return limit


def request_id(text: str) -> str:
    """The value of ``--request-id``, for argparse."""
    try:
        check_request_id(text)
    except CallError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return text


def working_folder(given: str | None) -> str:
    """The working directory that a command line means, absolute; the current one by the name its shell gave it.

    Symlinks are not resolved: ``$PWD`` is taken where it leads to the current directory.
    """
    if given is not None:
        return os.path.join(working_folder(None), os.path.expanduser(given))
    current = os.getcwd()
    named = os.environ.get("PWD", "")
    try:
        is_same = os.path.isabs(named) and os.path.samefile(named, current)
    except OSError:
        is_same = False
    return named if is_same else current
