"""The public face. What is listed here is kept for ever, so a new name is a change that one can see."""

from __future__ import annotations

import inspect
import types

import strataflow
from kit.source_tree import FACE_FOLDER, ROOT

PUBLIC_NAMES = {
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
    "PackagedSkill",
    "OutlineRow",
    "OwnedTree",
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
    "Tool",
    "StreamEvent",
    "StreamFunction",
    "StreamOptions",
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
    "scripted_model",
    "register_model",
    "packaged_skills",
    "plan_rehydration",
    "shown_call",
    "simulate",
}


def test_the_face_offers_exactly_the_listed_names() -> None:
    assert set(strataflow.__all__) == PUBLIC_NAMES
    assert len(strataflow.__all__) == len(PUBLIC_NAMES), "a name stands twice"


def test_nothing_public_is_reachable_beside_the_list() -> None:
    # Sub-modules become attributes by being imported; they are reached by their own path, not by this door.
    beside = {
        name
        for name, value in vars(strataflow).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert beside <= PUBLIC_NAMES


def test_every_public_name_explains_itself_in_a_docstring() -> None:
    for name in PUBLIC_NAMES - {"__version__"}:
        value = getattr(strataflow, name)
        # A type alias cannot carry a docstring; whoever takes or gives such a value explains it.
        if isinstance(value, type) or inspect.isroutine(value):
            assert (value.__doc__ or "").strip(), f"{name} has no docstring"


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / FACE_FOLDER / "py.typed").is_file()
