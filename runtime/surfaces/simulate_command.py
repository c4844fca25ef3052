"""``strataflow simulate``: worlds with crashes, failing disks and strangers, repeatable from a seed."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .. import ConfigError
from .exits import ExitCode, UsageError
from .options import DURABILITIES, json_option
from .terminal import Progress, print_json, styled

if TYPE_CHECKING:
    from ..simulation import FaultPlan, Report, Size, WorldSetting

_SHOWN_MAX = 5


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "simulate",
        help="run the store in simulated worlds with faults, from a seed",
        description="Run several processes with several clients on one simulated machine, let things go wrong, and "
        "judge what the clients saw. Equal seeds give equal runs. Nothing touches a disk.",
    )
    parser.add_argument(
        "--seed", type=_count, default=0, metavar="N", help="the seed, or the first of many (default: 0)"
    )
    parser.add_argument("--seeds", type=_count, metavar="N", help="so many worlds, with one seed after another")
    parser.add_argument(
        "--jobs", type=_count, default=1, metavar="N", help="processes that share the work (default: 1)"
    )
    parser.add_argument("--writers", type=_count, default=8, metavar="N", help="clients (default: 8)")
    parser.add_argument("--processes", type=_count, default=3, metavar="N", help="simulated processes (default: 3)")
    parser.add_argument("--steps", type=_count, default=200, metavar="N", help="calls in all (default: 200)")
    parser.add_argument(
        "--faults",
        default="default",
        metavar="PLAN",
        help="default, none, rates such as kill=0.02,power=0.005, or exact places such as kill@517 (default: default)",
    )
    parser.add_argument("--durability", choices=DURABILITIES, default="power", help="of the store (default: power)")
    parser.add_argument(
        "--session-files", type=_count, default=0, metavar="N", help="clients besides that append to session files"
    )
    parser.add_argument("--agents", type=_count, default=0, metavar="N", help="agents with sessions that talk besides")
    parser.add_argument("--shrink", action="store_true", help="make a run that fails smaller")
    parser.add_argument(
        "--trace", metavar="FILE", help="write the trace of the run, with --seeds of the first that fails"
    )
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Simulate, judge, print."""
    from ..simulation import FaultPlan, WorldSetting

    try:
        plan = FaultPlan.parse(arguments.faults)
    except ConfigError as error:
        raise UsageError(error.message) from None
    for name in ("writers", "processes", "steps", "jobs"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name} must be at least 1")
    sizes = arguments.processes, arguments.writers, arguments.steps
    setting = WorldSetting(plan, *sizes, arguments.durability, arguments.session_files, arguments.agents)
    failed = (_one if arguments.seeds is None else _many)(setting, arguments)
    for report in failed[:1] if arguments.shrink else ():
        _shrink(report, setting, arguments)
    if failed and arguments.trace:
        _write_trace(failed[0], arguments.trace)
    return ExitCode.REFUSED if failed else ExitCode.OK


def _one(setting: WorldSetting, arguments: argparse.Namespace) -> list[Report]:
    report = setting.run(arguments.seed)
    if arguments.json:
        print_json(report.to_json())
    else:
        print(_coloured(report))
    if arguments.trace and report.is_ok:
        _write_trace(report, arguments.trace)
    return [] if report.is_ok else [report]


def _many(setting: WorldSetting, arguments: argparse.Namespace) -> list[Report]:
    from ..simulation import WorldTally, simulate_many

    tally = WorldTally()
    progress = Progress("worlds", arguments.seeds, is_shown=not arguments.json)
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    try:
        for report in simulate_many(seeds, setting, arguments.jobs):
            tally.add(report)
            progress.show(tally.runs, f"{len(tally.failed)} failed" if tally.failed else "")
    finally:
        progress.end()
    failed = sorted(tally.failed, key=lambda report: report.seed)
    if arguments.json:
        print_json(tally.to_json())
    else:
        for report in failed[:_SHOWN_MAX]:
            print(_coloured(report))
        for report in failed[_SHOWN_MAX:]:
            print(f"repeat: {report.command}")
        print(tally.to_text())
    return failed


def _shrink(report: Report, setting: WorldSetting, arguments: argparse.Namespace) -> None:
    from ..simulation import RUNS_MAX, shrink

    progress = Progress("shrinking, runs", RUNS_MAX, is_shown=not arguments.json)

    def again(size: Size, plan: FaultPlan) -> Report:
        return setting.resized(size, plan).run(report.seed)

    try:
        smaller = shrink(report, again, progress=progress.show)
    finally:
        progress.end()
    if arguments.json:
        print_json({"shrunk": smaller.to_json(), "command": smaller.command})
    else:
        print(f"\nThe smallest run found that fails in the same way:\n{_coloured(smaller)}")


def _coloured(report: Report) -> str:
    text = report.to_text()
    return text.replace("VIOLATION", styled("VIOLATION", "red")) if not report.is_ok else text


def _write_trace(report: Report, path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(report.trace)
    except OSError as error:
        raise UsageError(f"the trace can not be written: {error}") from None
    print(f"trace written to {path}", file=sys.stderr)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 0")
    return int(text)
