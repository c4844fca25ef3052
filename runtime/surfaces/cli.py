"""The command line: one parser, one module per command, one place where errors become exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .. import StrataflowError
from . import (
    artifacts_command,
    backup_command,
    bench_command,
    chat_command,
    checkpoint_command,
    demo_command,
    doctor_command,
    log_command,
    patch_command,
    read_command,
    sessions_command,
    simulate_command,
    skills_command,
    status_command,
    tools_command,
    unlock_command,
)
from .exits import ExitCode, UsageError, exit_code, say_error
from .terminal import say_any_text

_INTERRUPTED = 130
COMMANDS = (
    demo_command,
    chat_command,
    tools_command,
    read_command,
    patch_command,
    log_command,
    status_command,
    artifacts_command,
    skills_command,
    doctor_command,
    checkpoint_command,
    backup_command,
    unlock_command,
    sessions_command,
    simulate_command,
    bench_command,
)


def main(arguments: Sequence[str] | None = None, version: str = "") -> int:
    """Run a command and return its exit code: 0 done, 1 refused, 2 usage, 3 the store is unusable.

    Args:
      arguments: the command line without the program's name; default: that of the process.
      version: what ``--version`` tells.
    """
    say_any_text()
    parser = _parser(version)
    given = parser.parse_args(arguments)
    who = f"strataflow {given.command}"
    try:
        code = int(given.run(given))
        sys.stdout.flush()
        return code
    except StrataflowError as error:
        say_error(who, error)
        return exit_code(error)
    except UsageError as error:
        print(f"{who}: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.REFUSED
    except KeyboardInterrupt:
        print(f"{who}: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _parser(version: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="strataflow",
        description="Transactional JSON memory for AI agents: three scopes, atomic patches, history.",
        epilog="exit codes: 0 done, 1 refused, 2 wrong usage, 3 the store cannot be used",
    )
    parser.add_argument("--version", action="version", version=f"strataflow {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser
