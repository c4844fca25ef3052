"""The memory algebra: pure functions over plain JSON values, no I/O, no clock. This is its door.

``values`` and ``planes`` say what may be stored, ``merge`` is the patch language, ``ownership`` and ``staging`` turn a
call into new values and net records, ``history`` keeps them, ``overlay``, ``paths`` and ``query`` read them.
"""

from .arguments import ReadRequest, check_patch_arguments, check_read_arguments
from .cards import RUNTIME_MEMBERS, card_problem, readable_card, readable_cards
from .errors import (
    CallError,
    ConfigError,
    ReadError,
    RequestError,
    RuntimeFailed,
    StoreError,
    StrataflowError,
    shown,
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
from .paths import ReadPath, parse_path
from .planes import AUTHORABLE, PLANES, check_materialised, known_planes
from .query import ReadResult, View, read, read_shared
from .receipt import acknowledgement
from .record import net_record
from .staging import StagedCall, apply_patch, stage_patch, stage_response
from .values import CONTAINERS_MAX, INT_MAX, detach, detach_checked, kind, pointer_token, same

__all__ = [
    "AUTHORABLE",
    "CONTAINERS_MAX",
    "HISTORY_LIMIT_DEFAULT",
    "HISTORY_LIMIT_MAX",
    "INT_MAX",
    "PLANES",
    "RUNTIME_MEMBERS",
    "SCOPES",
    "Boundary",
    "CallError",
    "ConfigError",
    "Json",
    "Lineage",
    "MissingDeletion",
    "ReadError",
    "ReadPath",
    "ReadRequest",
    "ReadResult",
    "RequestError",
    "RuntimeFailed",
    "ScopeName",
    "ScopeState",
    "StagedCall",
    "StoreError",
    "StrataflowError",
    "TailRecord",
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
    "kind",
    "known_planes",
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
    "replay",
    "same",
    "shown",
    "stage_patch",
    "stage_response",
]
