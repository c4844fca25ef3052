"""``strataflow backup``: backups of the store with Git, by hand, and how they are."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime

from .. import (
    BackupReport,
    Happening,
    Json,
    PushReport,
    init_backups,
    inspect_store,
    list_backups,
    open_runtime,
)
from .exits import ExitCode
from .options import durability_options, json_option, place_options
from .running import closing, run_command
from .terminal import print_json

_WHO = "strataflow backup"
_LOG_LIMIT = 20


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "backup",
        help="back the store up with Git",
        description="Back up the canonical files of a store as commits of a Git repository in its own folder, and push "
        "them. Once the store is a repository, active sessions do it by themselves after each accepted answer.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = actions.add_parser("init", help="make the store a repository, with rules that keep private files out")
    init.add_argument("--remote", metavar="URL", help="where the branch is to be pushed to")
    now = actions.add_parser("now", help="commit what is accepted now, and push it")
    now.add_argument("--complete", action="store_true", help="look at every file, also where no change is known of")
    now.add_argument("--no-push", action="store_true", help="only commit")
    durability_options(now)
    status = actions.add_parser("status", help="tell what was committed and pushed last, and what is due")
    log = actions.add_parser("log", help="list the newest backups")
    log.add_argument("--limit", type=_limit, default=_LOG_LIMIT, metavar="N", help="how many (default: %(default)s)")
    for action, run in ((init, _init), (now, _now), (status, _status), (log, _log)):
        place_options(action)
        json_option(action)
        action.set_defaults(run=run)


def _init(arguments: argparse.Namespace) -> int:
    remote = arguments.remote
    if remote is not None and os.path.exists(os.path.expanduser(remote)):
        # A folder is meant from where the command is given, not from the store.
        remote = os.path.abspath(os.path.expanduser(remote))

    async def work() -> int:
        made = await init_backups(arguments.agent_dir, store=arguments.store, remote=remote)
        answer: Json = {"store": made.store, "new": made.is_new, "branch": made.branch, "remote": made.remote}
        pushed = f"is pushed to {made.remote}" if made.remote else "has no remote: backups stay here"
        state = "is a repository now" if made.is_new else "was a repository already"
        _say(arguments, answer, [f"{made.store} {state}; branch {made.branch} {pushed}"])
        return ExitCode.OK

    return run_command(_WHO, work, notice=False)


def _now(arguments: argparse.Namespace) -> int:
    async def work() -> int:
        opened = open_runtime(
            arguments.agent_dir,
            store=arguments.store,
            durability=arguments.durability,
            share_with_pi=arguments.share_with_pi,
        )
        async with opened as runtime, closing(_WHO, runtime):
            report = await runtime.backups.now(complete=arguments.complete, push=not arguments.no_push)
            pushed = await runtime.backups.wait_pushed()
        return _say_backup(arguments, report, pushed)

    return run_command(_WHO, work)


def _say_backup(arguments: argparse.Namespace, report: BackupReport, pushed: PushReport | None) -> int:
    answer: Json = {
        "commit": report.commit,
        "branch": report.branch,
        "files": report.files,
        "head": report.head,
        "blocked": dict(report.blocked),
        "seconds": round(report.duration_s, 3),
        "push": pushed and {"outcome": pushed.outcome, "remote": pushed.remote, "error": pushed.error},
    }
    lines = [f"{report.commit[:12]} on {report.branch}: {report.files} files" if report.commit else "nothing new"]
    if pushed is not None and pushed.outcome == "pushed":
        lines.append(f"pushed to {pushed.remote}")
    _say(arguments, answer, lines)
    for scope, cause in report.blocked.items():
        print(f"{_WHO}: {scope}: not as it should be in this backup: {cause}", file=sys.stderr)
    if pushed is not None and pushed.error:
        print(f"{_WHO}: push {pushed.outcome}: {pushed.error}", file=sys.stderr)
    return ExitCode.REFUSED if report.blocked or (pushed is not None and pushed.outcome == "failed") else ExitCode.OK


def _status(arguments: argparse.Namespace) -> int:
    status = inspect_store(arguments.agent_dir, store=arguments.store).backup_status()
    if not status.has_repository:
        _say(arguments, status.to_json(), ["no repository: `strataflow backup init` makes one"])
        return ExitCode.OK
    record = status.record
    due = "something was accepted that no backup holds yet" if status.is_due else "nothing is due"
    lines = [
        f"last commit   {_told(record.last_commit)}",
        f"last push     {_told(record.last_push)}",
        f"last failure  {_told(record.last_failure)}",
        f"due           {due}",
    ]
    _say(arguments, status.to_json(), lines)
    return ExitCode.OK


def _log(arguments: argparse.Namespace) -> int:
    async def work() -> int:
        found = await list_backups(arguments.limit, arguments.agent_dir, store=arguments.store)
        answer = [{"commit": each.commit, "time": each.time_s} for each in found]
        _say(arguments, answer, [f"{each.commit[:12]}  {_time(each.time_s)}" for each in found])
        return ExitCode.OK

    return run_command(_WHO, work, notice=False)


def _say(arguments: argparse.Namespace, answer: object, lines: list[str]) -> None:
    if arguments.json:
        print_json(answer)
    elif lines:
        print("\n".join(lines))


def _told(happening: Happening | None) -> str:
    if happening is None:
        return "never"
    what = happening.what[:12] if happening.what != "backup" else "backup"
    return f"{_time(happening.time_ms // 1000)}  {what}  {happening.detail}".rstrip()


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 1 to 1,000,000")
    return int(text)
