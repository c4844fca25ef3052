"""The memory algebra: pure functions over plain JSON values, no I/O, no clock. This is its door.

``values`` and ``planes`` say what may be stored, ``merge`` is the patch language, ``ownership`` and ``staging`` turn a
call into new values and net records, ``history`` keeps them, ``overlay``, ``paths`` and ``query`` read them.
"""

from .arguments import ReadRequest, check_patch_arguments, check_read_arguments
from .cards import RUNTIME_MEMBERS, card_problem, readable_card, readable_cards
from .compiling import NO_READS, SKILL_KIND, Compilation, SkillRead, SourceRead, source_changed, target
from .conflicts import ChangedBy, Conflict
from .errors import (
    BackupError,
    CallError,
    ConfigError,
    ConflictError,
    ReadError,
    RequestError,
    RuntimeFailed,
    StoreError,
    StrataflowError,
    shown,
    without_values,
)
from .evidence import (
    ARTIFACT_REVISION,
    MISSING,
    SKILL_REVISION,
    Fingerprint,
    Missing,
    Seen,
    Unavailable,
    is_evidence,
    stored_fingerprint,
)
from .history import (
    HISTORY_LIMIT_DEFAULT,
    HISTORY_LIMIT_MAX,
    SCOPES,
    Boundary,
    Json,
    Lineage,
    ScopeName,
    ScopeState,
    TailRecord,
    empty_scope,
)
from .merge import merge, merge_pruned, prune, replay
from .missing import MissingDeletion
from .overlay import overlay, overlay_shared
from .ownership import owned_targets
from .paths import KEY_GRAMMAR, ReadPath, parse_path
from .planes import AUTHORABLE, PLANES, check_materialised, known_planes
from .query import ReadResult, View, hint_for, look, read, read_shared
from .receipt import acknowledgement
from .record import joined_guide, net_record
from .staging import StagedCall, apply_patch, record_of_several, stage_patch, stage_response
from .touching import looks_at, may_change, touches
from .values import CONTAINERS_MAX, INT_MAX, detach, detach_checked, kind, pointer_token, same

__all__ = [
    "ARTIFACT_REVISION",
    "AUTHORABLE",
    "CONTAINERS_MAX",
    "HISTORY_LIMIT_DEFAULT",
    "HISTORY_LIMIT_MAX",
    "INT_MAX",
    "KEY_GRAMMAR",
    "MISSING",
    "NO_READS",
    "PLANES",
    "RUNTIME_MEMBERS",
    "SCOPES",
    "SKILL_KIND",
    "SKILL_REVISION",
    "BackupError",
    "Boundary",
    "CallError",
    "ChangedBy",
    "Compilation",
    "ConfigError",
    "Conflict",
    "ConflictError",
    "Fingerprint",
    "Json",
    "Lineage",
    "Missing",
    "MissingDeletion",
    "ReadError",
    "ReadPath",
    "ReadRequest",
    "ReadResult",
    "RequestError",
    "RuntimeFailed",
    "ScopeName",
    "ScopeState",
    "Seen",
    "SkillRead",
    "SourceRead",
    "StagedCall",
    "StoreError",
    "StrataflowError",
    "TailRecord",
    "Unavailable",
    "View",
    "acknowledgement",
    "apply_patch",
    "card_problem",
    "check_materialised",
    "check_patch_arguments",
    "check_read_arguments",
    "detach",
    "detach_checked",
    "empty_scope",
    "hint_for",
    "is_evidence",
    "joined_guide",
    "kind",
    "known_planes",
    "look",
    "looks_at",
    "may_change",
    "merge",
    "merge_pruned",
    "net_record",
    "overlay",
    "overlay_shared",
    "owned_targets",
    "parse_path",
    "pointer_token",
    "prune",
    "read",
    "read_shared",
    "readable_card",
    "readable_cards",
    "record_of_several",
    "replay",
    "same",
    "shown",
    "source_changed",
    "stage_patch",
    "stage_response",
    "stored_fingerprint",
    "target",
    "touches",
    "without_values",
]
