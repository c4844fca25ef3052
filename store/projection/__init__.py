"""What of the memory a prompt may see, and how each prompt continues the one before. Pure. This is its door.

``request`` is what goes in, ``projecting`` makes the messages of it, ``carried`` is what is remembered in between, and
``receipts`` tells the outcome of a patch. ``shown`` and ``differences`` look at memory, ``trajectory`` at messages.
``ledger`` checks the promise. ``compaction``, ``barrier`` and ``run_rules`` decide for a run what needs no actor.
"""

from .barrier import ToolCall, Verdict, batch_of, calls_of, preflight
from .carried import NOTHING_SENT, Carried, Rebase, end
from .compaction import (
    CompactionAnswer,
    CompactionRequest,
    Compactor,
    NativeCompaction,
    Plan,
    Refusal,
    Situation,
    answer,
    ask,
    plan_of,
)
from .ledger import (
    Departure,
    PrefixReport,
    SentRequest,
    assert_prefix_stable,
    canonical,
    compare_requests,
    shared_bytes,
)
from .messages import Dump, Message
from .projecting import preview, project
from .receipts import AcceptedCall, acknowledge, receipt_text
from .request import ContextRequest, HeadKind, Phase
from .run_rules import answer_of, failed_ending, next_phase
from .section import section_for, with_section, with_section_text
from .trajectory import Handoff, leave_active, observed_anchor
from .transitions import Transition, recent_transitions

__all__ = [
    "NOTHING_SENT",
    "AcceptedCall",
    "Carried",
    "CompactionAnswer",
    "CompactionRequest",
    "Compactor",
    "ContextRequest",
    "Departure",
    "Dump",
    "Handoff",
    "HeadKind",
    "Message",
    "NativeCompaction",
    "Phase",
    "Plan",
    "PrefixReport",
    "Rebase",
    "Refusal",
    "SentRequest",
    "Situation",
    "ToolCall",
    "Transition",
    "Verdict",
    "acknowledge",
    "answer",
    "answer_of",
    "ask",
    "assert_prefix_stable",
    "batch_of",
    "calls_of",
    "canonical",
    "compare_requests",
    "end",
    "failed_ending",
    "leave_active",
    "next_phase",
    "observed_anchor",
    "plan_of",
    "preflight",
    "preview",
    "project",
    "receipt_text",
    "recent_transitions",
    "section_for",
    "shared_bytes",
    "with_section",
    "with_section_text",
]
