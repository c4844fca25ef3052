"""strataflow: transactional JSON memory for AI agents.

This module is the door of the package. Whatever a user may rely on is named in ``__all__``; everything else may move.
The names are loaded when one of them is first used, so that asking for the version costs nothing.
"""

import types
import typing

__version__ = "0.1.0"

__all__ = [
    "MEMORY_TOOLS",
    "Agent",
    "AgentError",
    "ArtifactCard",
    "BackupError",
    "BackupReport",
    "BackupStatus",
    "Backups",
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
    "Invalidation",
    "Json",
    "JsonlEntries",
    "LogEntry",
    "MemoryEntries",
    "MissingDeletion",
    "Mode",
    "Model",
    "ModelClient",
    "ModelError",
    "ModelPatience",
    "ModelRequest",
    "ModelRetry",
    "NativeCompaction",
    "Outcome",
    "OutlineRow",
    "OwnedTree",
    "PackagedSkill",
    "PrefixDeparture",
    "PrefixReport",
    "PushReport",
    "ReadError",
    "ReadResult",
    "Receipt",
    "RegisteredSkill",
    "RehydrationPlan",
    "RehydrationRoute",
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
    "StreamEvent",
    "StreamFunction",
    "StreamOptions",
    "Tool",
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
    "get_model",
    "is_context_overflow",
    "is_retryable",
    "list_models",
    "load_models",
    "open_model_client",
    "open_runtime",
    "overlay",
    "packaged_skills",
    "plan_rehydration",
    "register_model",
    "scripted_model",
    "shown_call",
    "simulate",
]

_OF_THE_AGENT = ("Agent", "AgentError", "Tool", "scripted_model")

if typing.TYPE_CHECKING:
    from .runtime import (
        MEMORY_TOOLS,
        ArtifactCard,
        BackupError,
        BackupReport,
        Backups,
        BackupStatus,
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
        Invalidation,
        Json,
        JsonlEntries,
        LogEntry,
        MemoryEntries,
        MissingDeletion,
        Mode,
        Model,
        ModelClient,
        ModelError,
        ModelPatience,
        ModelRequest,
        ModelRetry,
        NativeCompaction,
        Outcome,
        OutlineRow,
        OwnedTree,
        PackagedSkill,
        PrefixDeparture,
        PrefixReport,
        PushReport,
        ReadError,
        ReadResult,
        Receipt,
        RegisteredSkill,
        RehydrationPlan,
        RehydrationRoute,
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
        StreamEvent,
        StreamFunction,
        StreamOptions,
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
        get_model,
        is_context_overflow,
        is_retryable,
        list_models,
        load_models,
        open_model_client,
        open_runtime,
        overlay,
        packaged_skills,
        plan_rehydration,
        register_model,
        shown_call,
    )
    from .runtime.agent import Agent, AgentError, Tool, scripted_model
    from .simulation import simulate


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home: types.ModuleType
    if name == "simulate":
        from . import simulation

        home = simulation
    elif name in _OF_THE_AGENT:
        from .runtime import agent

        home = agent
    else:
        from . import runtime

        home = runtime
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
