"""How a command ends: exit codes, and an error said on standard error."""

from __future__ import annotations

import enum
import sys

from .. import ConfigError, RuntimeFailed, StoreError, StrataflowError
from .error_text import error_text

# The store itself is fine: this call cannot be carried out, or not now.
_REFUSALS = frozenset({"E_ABORTED", "E_BRANCH", "E_BUSY", "E_CHANGED"})


class ExitCode(enum.IntEnum):
    """What a command's exit code means. 130 and 143 are SIGINT and SIGTERM."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNUSABLE = 3


class UsageError(Exception):
    """The command line names something that cannot be used; the text says what."""


def exit_code(error: StrataflowError) -> ExitCode:
    """The exit code for an error."""
    if "argument" in error.data:
        return ExitCode.USAGE  # a name or a folder that no store could use
    if isinstance(error, ConfigError | RuntimeFailed) or (
        isinstance(error, StoreError) and error.code not in _REFUSALS
    ):
        return ExitCode.UNUSABLE
    return ExitCode.REFUSED


def say_error(who: str, error: StrataflowError) -> None:
    """One line on standard error."""
    print(f"{who}: {error.code}: {error_text(error)}", file=sys.stderr, flush=True)
