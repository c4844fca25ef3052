"""``strataflow bench``: measure this program and its peer on one disk, or play a study, and print tables."""

from __future__ import annotations

import argparse
import os
import sys

from .. import MEASURES, STUDIES, pretty, run_benchmark, run_study
from .exits import ExitCode, UsageError
from .terminal import Progress

_FOLDER = ".bench"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "bench",
        help="measure this program and a peer, side by side; or play a study",
        description="Measure this program and SQLite as a peer in one run on one disk, and print a table. Takes some "
        "minutes; nothing that it writes stays. With the name of a study, play that instead: a scripted agent's "
        "requests, whose bytes are counted (trajectory), a long conversation (lifecycle), two processes that publish "
        "at once (publishers). A study ends with exit code 1 if anything did not come out as it should.",
    )
    parser.add_argument("study", nargs="?", choices=STUDIES, metavar="STUDY", help=f"{', '.join(STUDIES)}")
    parser.add_argument("--smoke", action="store_true", help="of a study: only as much as shows that it works")
    parser.add_argument("--plot", metavar="FILE", help="of trajectory: write the shared prefixes as SVG")
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
    """Measure or play, print, write."""
    _check(arguments)
    folder = os.path.abspath(arguments.dir)
    is_new = not os.path.exists(folder)
    try:
        return _measure(arguments, folder) if arguments.study is None else _play(arguments, folder)
    finally:
        if is_new and os.path.isdir(folder):
            os.rmdir(folder)


def _check(arguments: argparse.Namespace) -> None:
    """Options of a study belong to a study, and the other way round.

    Raises:
      UsageError: naming the option.
    """
    of_measures = {"--only": arguments.only, "--quick": arguments.quick, "--gate": arguments.gate}
    of_studies = {"--smoke": arguments.smoke, "--plot": arguments.plot}
    if arguments.study is None:
        for option in (name for name, given in of_studies.items() if given):
            raise UsageError(f"{option} belongs to a study: name one of {', '.join(STUDIES)}")
    else:
        for option in (name for name, given in of_measures.items() if given):
            raise UsageError(f"{option} belongs to the measures: leave {arguments.study} away, or the option")
    if arguments.plot and arguments.study != "trajectory":
        raise UsageError(f"--plot belongs to the study trajectory; {arguments.study} has no plot")


def _measure(arguments: argparse.Namespace, folder: str) -> int:
    names = [name for name in MEASURES if name in (arguments.only or MEASURES)]
    progress = Progress("measures", len(names))
    try:
        report = run_benchmark(folder, names, quick=arguments.quick, progress=progress.show)
    finally:
        progress.end()
    table = report.to_markdown()
    print(table, end="")
    _write({arguments.json: pretty(report.to_json()) + "\n", arguments.markdown: table})
    for measure in report.missed:
        print(f"out of reach: {measure}", file=sys.stderr)
    return ExitCode.REFUSED if arguments.gate and report.missed else ExitCode.OK


def _play(arguments: argparse.Namespace, folder: str) -> int:
    progress = Progress(arguments.study, 1)
    try:
        report = run_study(
            arguments.study,
            folder,
            smoke=arguments.smoke,
            environment=os.environ,
            progress=lambda text: progress.show(0, text),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    finally:
        progress.end()
    table = report.to_markdown()
    print(table, end="")
    _write({arguments.json: pretty(report.to_json()) + "\n", arguments.markdown: table})
    if arguments.plot and not report.failures:
        _write({arguments.plot: report.to_svg()})
    for failure in report.failures:
        print(f"failed: {failure}", file=sys.stderr)
    return ExitCode.REFUSED if report.failures else ExitCode.OK


def _write(texts: dict[str | None, str]) -> None:
    for path, text in texts.items():
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
