"""Making long sessions fit a model again: summaries in place of what came first, and of branches that were left.

Pure: ``tokens`` and ``cutting`` measure and cut, ``planning`` and ``branches`` plan, ``requests`` and ``serialising``
say what a model is asked, ``deciding`` says when. ``running`` and ``navigating`` ask and append. This is the door.
"""

from .branches import (
    CONTEXT_WINDOW_UNKNOWN,
    NOTHING_TO_SUMMARISE,
    BranchMaterial,
    LeftBranch,
    left_branch,
    prepare_branch,
)
from .cutting import Cut, find_cut
from .deciding import CompactionReason, ModelInUse, compaction_reason, should_compact
from .errors import CompactionError
from .file_lists import FileOperations
from .navigating import Navigation, navigate_session
from .planning import CompactionPlan, CompactionSettings, plan_compaction
from .ports import OnTree, SummarisedTree, in_thread
from .requests import SummaryRequest
from .running import Compaction, compact_session
from .serialising import serialise_conversation
from .summarizer import ModelSummarizer, Summarizer
from .tokens import ContextEstimate, estimate_context, estimate_tokens, usage_tokens

__all__ = [
    "CONTEXT_WINDOW_UNKNOWN",
    "NOTHING_TO_SUMMARISE",
    "BranchMaterial",
    "Compaction",
    "CompactionError",
    "CompactionPlan",
    "CompactionReason",
    "CompactionSettings",
    "ContextEstimate",
    "Cut",
    "FileOperations",
    "LeftBranch",
    "ModelInUse",
    "ModelSummarizer",
    "Navigation",
    "OnTree",
    "SummarisedTree",
    "Summarizer",
    "SummaryRequest",
    "compact_session",
    "compaction_reason",
    "estimate_context",
    "estimate_tokens",
    "find_cut",
    "in_thread",
    "left_branch",
    "navigate_session",
    "plan_compaction",
    "prepare_branch",
    "serialise_conversation",
    "should_compact",
    "usage_tokens",
]
