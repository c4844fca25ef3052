"""strataflow: transactional JSON memory for AI agents.

This module is the door of the package. Whatever a user may rely on is named in ``__all__``; everything else may move.
The names are loaded when one of them is first used, so that asking for the version costs nothing.
"""

import types
import typing

__version__ = "0.1.0"

__all__ = [
    "MEMORY_TOOLS",
    "CallError",
    "Change",
    "ChangedBy",
    "CheckpointReport",
    "CloseReport",
    "CompactionAnswer",
    "CompactionPlan",
    "CompactionRequest",
    "CompactionSituation",
    "Compactor",
    "ConfigError",
    "Conflict",
    "ConflictError",
    "Durability",
    "HostEntries",
    "Json",
    "JsonlEntries",
    "LogEntry",
    "MemoryEntries",
    "MissingDeletion",
    "Mode",
    "NativeCompaction",
    "Outcome",
    "OwnedTree",
    "PrefixDeparture",
    "PrefixReport",
    "ReadError",
    "ReadResult",
    "Receipt",
    "RequestError",
    "Run",
    "Runtime",
    "RuntimeEvent",
    "RuntimeFailed",
    "SentRequest",
    "Session",
    "SessionTree",
    "Settings",
    "Status",
    "StoreError",
    "StrataflowError",
    "ToolCall",
    "ToolDeclaration",
    "Transaction",
    "Verdict",
    "Watch",
    "__version__",
    "active_tools",
    "answer_compaction",
    "apply_patch",
    "ask_compaction",
    "assert_prefix_stable",
    "compaction_plan",
    "compare_requests",
    "open_runtime",
    "overlay",
    "shown_call",
    "simulate",
]

if typing.TYPE_CHECKING:
    from .runtime import (
        MEMORY_TOOLS,
        CallError,
        Change,
        ChangedBy,
        CheckpointReport,
        CloseReport,
        CompactionAnswer,
        CompactionPlan,
        CompactionRequest,
        CompactionSituation,
        Compactor,
        ConfigError,
        Conflict,
        ConflictError,
        Durability,
        HostEntries,
        Json,
        JsonlEntries,
        LogEntry,
        MemoryEntries,
        MissingDeletion,
        Mode,
        NativeCompaction,
        Outcome,
        OwnedTree,
        PrefixDeparture,
        PrefixReport,
        ReadError,
        ReadResult,
        Receipt,
        RequestError,
        Run,
        Runtime,
        RuntimeEvent,
        RuntimeFailed,
        SentRequest,
        Session,
        SessionTree,
        Settings,
        Status,
        StoreError,
        StrataflowError,
        ToolCall,
        ToolDeclaration,
        Transaction,
        Verdict,
        Watch,
        active_tools,
        answer_compaction,
        apply_patch,
        ask_compaction,
        assert_prefix_stable,
        compaction_plan,
        compare_requests,
        open_runtime,
        overlay,
        shown_call,
    )
    from .simulation import simulate


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home: types.ModuleType
    if name == "simulate":
        from . import simulation

        home = simulation
    else:
        from . import runtime

        home = runtime
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
