"""The door of the runtime: assembly and everything a user sees."""

import importlib
import typing

from ..store import (
    HISTORY_LIMIT_DEFAULT,
    HISTORY_LIMIT_MAX,
    PLANES,
    SCOPES,
    CallError,
    Change,
    ChangedBy,
    CheckpointReport,
    ConfigError,
    Conflict,
    ConflictError,
    Diagnosis,
    Durability,
    HostEntries,
    Json,
    LogEntry,
    MissingDeletion,
    Mode,
    ReadError,
    ReadResult,
    RebuildReport,
    Receipt,
    RequestError,
    RuntimeFailed,
    Settings,
    Status,
    StoreError,
    StrataflowError,
    UnlockReport,
    apply_patch,
    check_patch_arguments,
    compact,
    normalise_cwd,
    overlay,
    parse_strict,
    pretty,
    shown,
)
from ..store.projection import (
    CompactionAnswer,
    CompactionPlan,
    CompactionRequest,
    CompactionSituation,
    Compactor,
    NativeCompaction,
    PrefixDeparture,
    PrefixReport,
    SentRequest,
    ToolCall,
    Verdict,
    answer_compaction,
    ask_compaction,
    assert_prefix_stable,
    compaction_plan,
    compare_requests,
)
from .assembly import Runtime
from .benchmark import MEASURES, run_benchmark
from .host_log import JsonlEntries, MemoryEntries
from .inspection import Inspector, inspect_store
from .opening import open_runtime
from .places import agent_folder, store_folder
from .reports import CLOSE_DEADLINE_S, CloseReport, RuntimeEvent
from .requests import Outcome, check_request_id
from .run import Run
from .session import Session
from .session_log import LOG_LIMIT_DEFAULT
from .transactions import Transaction
from .watching import Watch

if typing.TYPE_CHECKING:
    from .simulation.fault_plan import FaultPlan
    from .simulation.many import WorldSetting, WorldTally, simulate_many
    from .simulation.report import Report
    from .simulation.run import simulate
    from .simulation.shrink import Size, shrink

# Loaded when one of them is first used: most programs never simulate.
_SIMULATION = {
    "FaultPlan": "fault_plan",
    "Report": "report",
    "Size": "shrink",
    "WorldSetting": "many",
    "WorldTally": "many",
    "shrink": "shrink",
    "simulate": "run",
    "simulate_many": "many",
}


def __getattr__(name: str) -> object:
    if name not in _SIMULATION:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f".simulation.{_SIMULATION[name]}", __name__)
    value = globals()[name] = getattr(home, name)
    return value


__all__ = [
    "CLOSE_DEADLINE_S",
    "HISTORY_LIMIT_DEFAULT",
    "HISTORY_LIMIT_MAX",
    "LOG_LIMIT_DEFAULT",
    "MEASURES",
    "PLANES",
    "SCOPES",
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
    "Diagnosis",
    "Durability",
    "FaultPlan",
    "HostEntries",
    "Inspector",
    "Json",
    "JsonlEntries",
    "LogEntry",
    "MemoryEntries",
    "MissingDeletion",
    "Mode",
    "NativeCompaction",
    "Outcome",
    "PrefixDeparture",
    "PrefixReport",
    "ReadError",
    "ReadResult",
    "RebuildReport",
    "Receipt",
    "Report",
    "RequestError",
    "Run",
    "Runtime",
    "RuntimeEvent",
    "RuntimeFailed",
    "SentRequest",
    "Session",
    "Settings",
    "Size",
    "Status",
    "StoreError",
    "StrataflowError",
    "ToolCall",
    "Transaction",
    "UnlockReport",
    "Verdict",
    "Watch",
    "WorldSetting",
    "WorldTally",
    "agent_folder",
    "answer_compaction",
    "apply_patch",
    "ask_compaction",
    "assert_prefix_stable",
    "check_patch_arguments",
    "check_request_id",
    "compact",
    "compaction_plan",
    "compare_requests",
    "inspect_store",
    "normalise_cwd",
    "open_runtime",
    "overlay",
    "parse_strict",
    "pretty",
    "run_benchmark",
    "shown",
    "shrink",
    "simulate",
    "simulate_many",
    "store_folder",
]
