"""``strataflow sessions``: the session files of a folder, for people and scripts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from datetime import UTC, datetime

import attrs

from .. import SessionFolder, SessionInfo, SessionTree, described, outline, repair_session
from .exits import ExitCode
from .options import json_option, working_folder
from .terminal import Progress, print_json, styled
from .tree_lines import tree_line

_STYLES = {"problem": "red", "warning": "yellow", "note": "cyan"}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "sessions",
        help="list, show, check and repair session files",
        description="Work on the session files of a folder. A SESSION is the path of a file, an id, or the beginning "
        "of one. Only import, export and repair write, and always a new file.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _action(actions, "list", "sessions of the folder, last used first", list_sessions)
    one = _action(actions, "show", "what a model would see of a session", show)
    one.add_argument("session", metavar="SESSION")
    one.add_argument("--leaf", metavar="ID", help="as seen from this entry (default: the session's leaf)")
    one = _action(actions, "tree", "all entries, where they fork, and the leaf", tree)
    one.add_argument("session", metavar="SESSION")
    one = _action(actions, "export", "write one branch of a session as a file of its own", export)
    one.add_argument("session", metavar="SESSION")
    one.add_argument("target", metavar="FILE", help="must not exist")
    one.add_argument("--leaf", metavar="ID", help="the branch up to this entry (default: the session's leaf)")
    one = _action(actions, "import", "copy a session file into the folder", take_in)
    one.add_argument("source", metavar="FILE")
    one = _action(actions, "check", "say what is broken; exit code 1 after a warning, 3 after a problem", check)
    one.add_argument("sessions", nargs="*", metavar="SESSION", help="default: all of the folder")
    one = _action(actions, "repair", "write what can be read of a session, put in order, to a new file", repair)
    one.add_argument("session", metavar="SESSION")
    one.add_argument("target", metavar="FILE", help="must not exist")


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    words: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
    place = parser.add_argument_group("place")
    place.add_argument("--session-dir", metavar="DIR", help="folder of the sessions (default: that of --cwd)")
    place.add_argument("--cwd", metavar="PATH", help="working directory of the sessions (default: the current one)")
    place.add_argument(
        "--agent-dir",
        metavar="DIR",
        help="whose sessions folder is meant (default: $STRATAFLOW_DIR, else ~/.strataflow)",
    )
    json_option(parser)
    parser.set_defaults(run=run)
    return parser


def list_sessions(arguments: argparse.Namespace) -> int:
    """One session a line."""
    folder = _folder(arguments)
    for info in folder.list(_Bar("sessions").show):
        if arguments.json:
            print_json(attrs.asdict(info))
        else:
            print(_row(info))
    return ExitCode.OK


def show(arguments: argparse.Namespace) -> int:
    """The context: messages, then level and model."""
    session = _opened(arguments)
    context = session.build_session_context(arguments.leaf)
    if arguments.json:
        print_json(context.to_json())
        return ExitCode.OK
    for message in context.messages:
        role, text = described({"type": "message", "message": message})
        print(f"{styled(f'{role:18}', 'cyan')} {text or message.get('summary', '')}")
    model = context.model
    named = f"{model['provider']}/{model['modelId']}" if model else "none"
    print(styled(f"{len(context.messages)} messages, thinking {context.thinking_level}, model {named}", "dim"))
    return ExitCode.OK


def tree(arguments: argparse.Namespace) -> int:
    """One entry a line."""
    for row in outline(_opened(arguments)):
        if arguments.json:
            print_json(attrs.asdict(row))
            continue
        print(tree_line(row, styled))
    return ExitCode.OK


def export(arguments: argparse.Namespace) -> int:
    """The branch as one chain."""
    target = os.path.abspath(arguments.target)
    count = _opened(arguments).export_branch(target, arguments.leaf)
    _tell(arguments, {"path": target, "entries": count}, f"{count} entries in {target}")
    return ExitCode.OK


def take_in(arguments: argparse.Namespace) -> int:
    """A file from elsewhere."""
    session = _folder(arguments).take_in(arguments.source)
    path = session.get_session_file()
    _tell(arguments, {"path": path, "id": session.get_session_id()}, f"session {session.get_session_id()} in {path}")
    return ExitCode.OK


def check(arguments: argparse.Namespace) -> int:
    """What is broken, as the doctor says it."""
    folder = _folder(arguments)
    diagnosis = folder.check([folder.find(name) for name in arguments.sessions], _Bar("checked").show)
    if arguments.json:
        print_json(diagnosis.to_json())
    else:
        for line in diagnosis.lines():
            severity, space, rest = line.partition(" ")
            print(f"{styled(severity, _STYLES[severity])}{space}{rest}" if severity in _STYLES else line)
    if any(finding.severity == "problem" for finding in diagnosis.findings):
        return ExitCode.UNUSABLE
    return ExitCode.OK if diagnosis.is_clean else ExitCode.REFUSED


def repair(arguments: argparse.Namespace) -> int:
    """A new file, and what was done."""
    mended = repair_session(_folder(arguments).find(arguments.session), arguments.target)
    lines = [*mended.changes, f"{mended.entries} entries in {mended.path}"]
    _tell(arguments, attrs.asdict(mended), "\n".join(lines))
    return ExitCode.OK


def _folder(arguments: argparse.Namespace) -> SessionFolder:
    return SessionFolder.of(working_folder(arguments.cwd), arguments.session_dir, arguments.agent_dir)


def _opened(arguments: argparse.Namespace) -> SessionTree:
    return SessionTree.open(_folder(arguments).find(arguments.session), read_only=True)


def _tell(arguments: argparse.Namespace, document: dict[str, object], words: str) -> None:
    if arguments.json:
        print_json(document)
    else:
        print(words)


def _row(info: SessionInfo) -> str:
    time = datetime.fromtimestamp(info.modified_ms / 1000, UTC).isoformat(" ", "minutes").removesuffix("+00:00")
    if info.trouble is not None:
        return f"{time}Z  {styled('unreadable', 'red')}  {info.trouble}"
    title = " ".join((info.name or info.first_message).split())[:60]
    return f"{time}Z  {styled(info.id, 'bold')}  {info.message_count:6} messages  {title}"


class _Bar:
    """Progress over files, whose number is known with the first."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Progress | None = None

    def show(self, done: int, total: int) -> None:
        """Show how many are done; the last takes the bar away."""
        if self._bar is None:
            self._bar = Progress(self._label, total)
        self._bar.show(done)
        if done == total:
            self._bar.end()
