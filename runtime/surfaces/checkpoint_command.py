"""``strataflow checkpoint``: write everything accepted to the canonical files now."""

from __future__ import annotations

import argparse
import sys

from .. import CheckpointReport, Json, inspect_store, open_runtime
from .exits import ExitCode, exit_code
from .options import durability_options, json_option, place_options
from .running import closing, run_command
from .terminal import print_json

_WHO = "strataflow checkpoint"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "checkpoint",
        help="write the journal to the canonical files now",
        description="Write every accepted change to the canonical files, as happens by itself when work stops. Beside "
        "processes that have the store open, too.",
    )
    durability_options(parser)
    place_options(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write, then say what was written."""
    inspector = inspect_store(arguments.agent_dir, store=arguments.store)
    if not inspector.exists:
        # Nothing was ever accepted; a command that writes what there is makes no store.
        return _say(CheckpointReport(), arguments.json)
    return run_command(_WHO, lambda: _checkpoint(arguments))


async def _checkpoint(arguments: argparse.Namespace) -> int:
    async with open_runtime(
        arguments.agent_dir,
        store=arguments.store,
        durability=arguments.durability,
        share_with_pi=arguments.share_with_pi,
    ) as runtime:
        async with closing(_WHO, runtime):
            report = await runtime.checkpoint()
    return _say(report, arguments.json)


def _say(report: CheckpointReport, as_json: bool) -> int:
    blocked = {
        scope or "global": {"code": error.code, "message": error.message} for scope, error in report.blocked.items()
    }
    answer: Json = {
        "through": report.through,
        "scopes": [scope or "global" for scope in report.scopes],
        "files": report.files,
        "bytes": report.size_bytes,
        "pruned_rows": report.pruned_rows,
        "superseded": [scope or "global" for scope in report.superseded],
        "blocked": blocked,
    }
    if as_json:
        print_json(answer)
    else:
        print(f"{report.files} files of {len(report.scopes)} scopes, {report.size_bytes} bytes")
        for scope in answer["superseded"]:
            print(f"{scope}: another program had changed its files; they won", file=sys.stderr)
        for scope, error in blocked.items():
            print(f"{scope}: {error['code']}: {error['message']}", file=sys.stderr)
    return max((exit_code(error) for error in report.blocked.values()), default=ExitCode.OK)
