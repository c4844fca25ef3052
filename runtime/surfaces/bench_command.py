"""``strataflow bench``: measure this program and its peer on one disk, and print the table."""

from __future__ import annotations

import argparse
import os
import sys

from .. import MEASURES, pretty, run_benchmark
from .exits import ExitCode
from .terminal import Progress

_FOLDER = ".bench"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "bench",
        help="measure this program and a peer, side by side",
        description="Measure this program and SQLite as a peer in one run on one disk, and print a table. Takes some "
        "minutes; nothing that it writes stays.",
    )
    parser.add_argument("--dir", default=_FOLDER, metavar="DIR", help="folder on the disk to measure (default: .bench)")
    parser.add_argument(
        "--only", action="append", choices=MEASURES, metavar="NAME", help=f"measure only this: {', '.join(MEASURES)}"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, for a first look")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--markdown", metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--gate", action="store_true", help="exit with 1 if something was out of its reach")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write."""
    folder = os.path.abspath(arguments.dir)
    is_new = not os.path.exists(folder)
    names = [name for name in MEASURES if name in (arguments.only or MEASURES)]
    progress = Progress("measures", len(names))
    try:
        report = run_benchmark(folder, names, quick=arguments.quick, progress=progress.show)
    finally:
        progress.end()
        if is_new and os.path.isdir(folder):
            os.rmdir(folder)
    table = report.to_markdown()
    print(table, end="")
    for path, text in ((arguments.json, pretty(report.to_json()) + "\n"), (arguments.markdown, table)):
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    for measure in report.missed:
        print(f"out of reach: {measure}", file=sys.stderr)
    return ExitCode.REFUSED if arguments.gate and report.missed else ExitCode.OK
