"""``strataflow demo``: the main job in one command, and the proof that it was done.

Processes with several sessions each patch one store at the same time; one of them is killed in the middle and
replaced; then everything that was acknowledged is looked for. Meanwhile a remote receives backups, and a clone of it is
compared with the store. Everything stays, to be looked at.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from .. import Json, inspect_store, pretty
from .demo_backup import BackupVerdict, DemoBackups
from .demo_check import Verdict, count_parsed, judge, read_claims, read_state
from .demo_plan import CWD, Plan, session_name
from .demo_run import DemoFailedError, DemoRun
from .exits import ExitCode, UsageError
from .options import DURABILITIES, json_option
from .running import run_command
from .terminal import Progress, print_json, styled

_WHO = "strataflow demo"
_COUNT_MAX = 1_000
_FAULTS_SHOWN = 20


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    plan = Plan()
    parser = commands.add_parser(
        "demo",
        help="show the main job: processes that share a store, one of them killed, nothing lost",
        description="Real processes with several sessions each patch one store at once, one is killed with SIGKILL in "
        "the middle and replaced, and every acknowledged patch is looked for afterwards; a Git remote receives backups "
        "meanwhile, and a clone of it is compared with the store. Exit code 1 if anything is "
        "missing.",
    )
    parser.add_argument("--processes", type=_count, default=plan.processes, metavar="N", help="default: %(default)s")
    parser.add_argument("--sessions", type=_count, default=plan.sessions, metavar="N", help="of each process")
    parser.add_argument("--patches", type=_count, default=plan.patches, metavar="N", help="of each session")
    parser.add_argument("--agent-dir", metavar="DIR", help="an empty or new folder (default: a temporary one)")
    parser.add_argument("--discard", action="store_true", help="remove the folder in the end")
    parser.add_argument("--durability", choices=DURABILITIES, default="power", help="default: %(default)s")
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run, judge, show."""
    plan = Plan(arguments.processes, arguments.sessions, arguments.patches)
    folder = _folder(arguments.agent_dir)
    try:
        return run_command(_WHO, lambda: _demo(arguments, plan, folder), notice=False)
    except DemoFailedError as error:
        print(f"{_WHO}: {error}; what there is lies in {folder}", file=sys.stderr)
        return ExitCode.REFUSED
    finally:
        if arguments.discard:
            shutil.rmtree(folder)


async def _demo(arguments: argparse.Namespace, plan: Plan, folder: Path) -> int:
    notes = folder / "demo-notes"
    notes.mkdir()
    inspector = inspect_store(str(folder))
    progress = Progress("acknowledged", plan.total, is_shown=not arguments.json)
    progress.say(
        f"{plan.processes} processes x {plan.sessions} sessions x {plan.patches} patches on {inspector.store_path}"
    )
    backups = DemoBackups(folder, Path(inspector.store_path), arguments.durability)
    demo = DemoRun(plan, inspector, folder, notes, arguments.durability, progress, backups)
    started_s = time.monotonic()
    await demo.run()
    outcome = _judged(demo, await backups.judge())
    outcome.report["total_seconds"] = round(time.monotonic() - started_s, 2)
    if arguments.json:
        print_json(outcome.report)
    else:
        print("\n".join(outcome.lines()))
    return ExitCode.OK if outcome.is_fine else ExitCode.REFUSED


@attrs.frozen
class _Outcome:
    """Everything that the demo has to say."""

    report: Json
    verdict: Verdict
    backups: BackupVerdict
    is_fine: bool

    def lines(self) -> list[str]:
        report, verdict = self.report, self.verdict
        under_way = "1 patch was" if verdict.unanswered == 1 else f"{verdict.unanswered} patches were"
        kept = "" if not verdict.unanswered else f"; {verdict.unanswered_kept} of them had been stored"
        effective = f"Effective memory of session {report['session']}:"
        return [
            "",
            styled(f"{verdict.acknowledged} patches acknowledged in {report['seconds']} s", "bold")
            + f" ({report['patches_per_second']} a second, {report['durability']} durability)",
            f"  {verdict.present} of them stand in the state, {verdict.acknowledged - verdict.present} were overwritten"
            " by later acknowledged ones",
            f"  {under_way} under way when their client was killed{kept}",
            _checked("every acknowledged patch is accounted for", not verdict.faults),
            *(f"    {fault}" for fault in verdict.faults[:_FAULTS_SHOWN]),
            _checked(f"all {report['files']} files parse", not report["bad_file"]) + f"{report['bad_file']}",
            _checked("the doctor finds nothing wrong", report["doctor_clean"]),
            *(f"    {line}" for line in report["doctor"]),
            *_backup_lines(self.backups),
            "",
            styled(effective, "bold"),
            pretty(report["effective"]),
            "",
            f"The store: {report['store']}",
            f"To look around: {_program()} log --agent-dir {report['agent_dir']}",
        ]


def _program() -> str:
    """What to type to start it again: ``make demo`` runs it from a folder in which no shell looks."""
    is_elsewhere = Path(sys.argv[0]).name == "strataflow" and shutil.which("strataflow") is None
    return sys.argv[0] if is_elsewhere else "strataflow"


def _backup_lines(found: BackupVerdict) -> list[str]:
    if not found.is_tried:
        return ["  --  no Git on this machine: backups were left out"]
    text = (
        f"{found.commits} backups in a remote, {found.pushes} pushes; a clone of it is the store ({found.files} files)"
    )
    return [_checked(text, not found.faults), *(f"    {fault}" for fault in found.faults[:_FAULTS_SHOWN])]


def _checked(text: str, is_fine: bool) -> str:
    return f"  {styled('ok', 'green') if is_fine else styled('NOT SO', 'red')}  {text}"


def _judged(demo: DemoRun, backups: BackupVerdict) -> _Outcome:
    plan, store = demo.plan, Path(demo.inspector.store_path)
    names = [session_name(process, session) for process in range(plan.processes) for session in range(plan.sessions)]
    states: dict[str, Any] = {}
    files, bad_file = 0, ""
    try:
        files = count_parsed(store)
        states = _states(store, names)
    except ValueError as error:
        bad_file = str(error)
    claims = read_claims(sorted(demo.notes_folder.iterdir()))
    verdict = judge(claims, states, demo.rows)
    diagnosis = demo.inspector.diagnose()
    is_complete = len({(claim.session, claim.number) for claim in claims if claim.seq is not None}) == plan.total
    report = {
        "ok": not backups.faults and not verdict.faults and not bad_file and diagnosis.is_clean and is_complete,
        "processes": plan.processes,
        "sessions": plan.sessions,
        "patches": plan.patches,
        "durability": demo.durability,
        **attrs.asdict(verdict),
        "seconds": round(demo.seconds, 2),
        "patches_per_second": round(verdict.acknowledged / demo.seconds),
        "killed": attrs.asdict(demo.kill) if demo.kill else None,
        "journal_rows_seen": len(demo.rows),
        "files": files,
        "bad_file": bad_file,
        "doctor_clean": diagnosis.is_clean,
        "doctor": [finding.line() for finding in diagnosis.findings if finding.severity in ("warning", "problem")],
        "backups": attrs.asdict(backups),
        "session": names[0],
        "effective": demo.inspector.read(CWD, names[0], {"path": "effective"}).value,
        "store": str(store),
        "agent_dir": str(demo.agent_dir),
    }
    return _Outcome(report, verdict, backups, bool(report["ok"]))


def _states(store: Path, names: Sequence[str]) -> dict[str, Any]:
    """The memory of every scope, by the first step of a place."""
    folders = [path for path in store.iterdir() if path.name.startswith("--")]
    states = {"global": read_state(store)}
    for folder in folders:
        states["cwd"] = read_state(folder)
        states |= {name: read_state(folder / name) for name in names}
    return states


def _folder(given: str | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="strataflow-demo-"))
    folder = Path(given).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder: the demo writes no store that is somebody's")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= _COUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 1 to {_COUNT_MAX}")
    return int(text)
