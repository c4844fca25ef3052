"""``strataflow doctor``: what is wrong with a store, from outside; and, on request, a new journal."""

from __future__ import annotations

import argparse

from .. import inspect_store
from .exits import ExitCode
from .options import json_option, place_options
from .terminal import print_json, styled

_STYLES = {"problem": "red", "warning": "yellow", "note": "cyan", "ok": "green"}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "doctor",
        help="look for damage",
        description="Look at files, journal and locks and say what is wrong and what to do. Takes no lock and changes "
        "nothing, unless --rebuild is given. Exit code 1 if something should be looked at, 3 if something keeps "
        "memory from being read or written.",
    )
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="set the journal aside, with everything it holds that the canonical files do not, and start anew from "
        "those files; needs a store that nobody has open",
    )
    place_options(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found, or what rebuilding did."""
    inspector = inspect_store(arguments.agent_dir, store=arguments.store)
    if arguments.rebuild:
        report = inspector.rebuild()
        if arguments.json:
            print_json(report.to_json())
        else:
            print("\n".join(report.lines()))
        return ExitCode.OK
    diagnosis = inspector.diagnose()
    if arguments.json:
        print_json(diagnosis.to_json())
    else:
        print("\n".join(map(_coloured, diagnosis.lines())))
    if any(finding.severity == "problem" for finding in diagnosis.findings):
        return ExitCode.UNUSABLE
    return ExitCode.OK if diagnosis.is_clean else ExitCode.REFUSED


def _coloured(line: str) -> str:
    severity, space, rest = line.partition(" ")
    return f"{styled(severity, _STYLES[severity])}{space}{rest}" if severity in _STYLES else line
