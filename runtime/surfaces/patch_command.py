"""``strataflow patch``: change memory by one JSON document of one to three scopes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .. import check_patch_arguments, open_runtime
from .exits import ExitCode, UsageError
from .options import json_option, place_options, request_id, session_options, working_folder, writing_options
from .running import closing, run_command, selected_mode
from .terminal import print_json, styled
from .tool_request import parse_arguments

_WHO = "strataflow patch"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "patch",
        help="change memory by a JSON document",
        description='Change one to three scopes, all or none: {"global": {…}, "cwd": {…}, "session": {…}}, each an '
        "object of the planes intents, contract, working, artifacts, lazy. Objects are merged, null deletes a key, "
        'keys such as "[0]" edit elements of a list.',
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="the document (default: standard input)")
    parser.add_argument(
        "--request-id",
        type=request_id,
        metavar="ID",
        help="your own name for this change: given again, nothing is changed and the first answer comes once more",
    )
    session_options(parser)
    writing_options(parser)
    place_options(parser)
    json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Store the patch."""
    patch = parse_arguments(_document(arguments.file))
    if arguments.mode != "off":
        # Before the store is opened, which would begin a session for a call that no session could accept (T12).
        check_patch_arguments(patch)
    return run_command(_WHO, lambda: _patch(arguments, patch))


async def _patch(arguments: argparse.Namespace, patch: Any) -> int:
    async with open_runtime(
        arguments.agent_dir,
        store=arguments.store,
        durability=arguments.durability,
        history_limit=arguments.history_limit,
        share_with_pi=arguments.share_with_pi,
    ) as runtime:
        async with closing(_WHO, runtime):
            mode = selected_mode(arguments.mode, runtime)
            session = await runtime.open_session(working_folder(arguments.cwd), arguments.session, mode)
            answer = await session.call("patch_state", patch, request_id=arguments.request_id)
    if arguments.json:
        print_json(answer)
    else:
        style = "green" if answer["changed"] else "dim"
        print(styled(answer["text"].strip(), style))
        print(f"step {answer['step']}, revision {answer['revision']}")
    return ExitCode.OK


def _document(path: str) -> bytes:
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
