"""What of the memory a prompt may see, and how each prompt continues the one before. Pure. This is its door.

``request`` is what goes in, ``projecting`` makes the messages of it, ``carried`` is what is remembered in between, and
``receipts`` tells the outcome of a patch. ``shown`` and ``differences`` look at memory, ``trajectory`` at messages.
``ledger`` checks the promise. ``compaction``, ``barrier`` and ``run_rules`` decide for a run what needs no actor.
"""

from ..artifacts import RehydrationPhase
from .barrier import ToolCall, Verdict, call_batch, calls_of, preflight
from .carried import NOTHING_SENT, Carried, Rebase, end_projection
from .compaction import (
    CompactionAnswer,
    CompactionPlan,
    CompactionRefusal,
    CompactionRequest,
    CompactionSituation,
    Compactor,
    NativeCompaction,
    answer_compaction,
    ask_compaction,
    compaction_plan,
)
from .ledger import (
    PrefixDeparture,
    PrefixReport,
    SentRequest,
    assert_prefix_stable,
    canonical_messages,
    compare_requests,
    shared_bytes,
)
from .messages import Dump, Message
from .projecting import preview_request, project
from .receipts import AcceptedCall, acknowledge_call, receipt_text
from .request import ContextRequest, HeadKind
from .run_rules import accepted_answer, failed_ending, next_rehydration_phase
from .section import section_for, with_section, with_section_text
from .texts import PROJECTION_LABEL
from .trajectory import Handoff, leave_active, observed_anchor
from .transitions import Transition, own_transitions, recent_transitions

__all__ = [
    "NOTHING_SENT",
    "PROJECTION_LABEL",
    "AcceptedCall",
    "Carried",
    "CompactionAnswer",
    "CompactionPlan",
    "CompactionRefusal",
    "CompactionRequest",
    "CompactionSituation",
    "Compactor",
    "ContextRequest",
    "Dump",
    "Handoff",
    "HeadKind",
    "Message",
    "NativeCompaction",
    "PrefixDeparture",
    "PrefixReport",
    "Rebase",
    "RehydrationPhase",
    "SentRequest",
    "ToolCall",
    "Transition",
    "Verdict",
    "accepted_answer",
    "acknowledge_call",
    "answer_compaction",
    "ask_compaction",
    "assert_prefix_stable",
    "call_batch",
    "calls_of",
    "canonical_messages",
    "compaction_plan",
    "compare_requests",
    "end_projection",
    "failed_ending",
    "leave_active",
    "next_rehydration_phase",
    "observed_anchor",
    "own_transitions",
    "preflight",
    "preview_request",
    "project",
    "receipt_text",
    "recent_transitions",
    "section_for",
    "shared_bytes",
    "with_section",
    "with_section_text",
]
