"""Exit codes: which error ends a command in which way."""

from __future__ import annotations

import pytest

from strataflow.runtime import CallError, ConfigError, ConflictError, ReadError, StoreError, StrataflowError
from strataflow.runtime.surfaces.exits import ExitCode, exit_code


@pytest.mark.parametrize(
    "error, code",
    [
        (CallError("E_INDEX", "no such element"), ExitCode.REFUSED),
        (ReadError("E_MISSING", "nothing there"), ExitCode.REFUSED),
        (ConflictError("E_CONFLICT", "changed meanwhile", conflicts=[]), ExitCode.REFUSED),
        (StoreError("E_CHANGED", "somebody else wrote"), ExitCode.REFUSED),
        (StoreError("E_UNSUPPORTED", "no such name", argument="session_id"), ExitCode.USAGE),
        (StoreError("E_DISK", "no space"), ExitCode.UNUSABLE),
        (ConfigError("E_CONFIG", "a bad setting"), ExitCode.UNUSABLE),
    ],
    ids=lambda item: item.code if isinstance(item, StrataflowError) else item.name,
)
def test_an_error_decides_how_a_command_ends(error: StrataflowError, code: ExitCode) -> None:
    assert exit_code(error) is code
