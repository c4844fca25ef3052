"""What the memory knows of the sources of its cards: freshness, Skills, selection, plans for reading. Pure. The door.

``sources`` says which paths are registered, ``freshness`` holds cards against looks at them, ``skills`` knows what a
host has registered and whose card a Skill's is, ``selection`` finds cards by tag, ``rehydration`` plans what to read
again. What a look gives, what evidence is, and how a patch compiles a card, belongs to the algebra.
"""

from ..algebra import (
    MISSING,
    NO_READS,
    Compilation,
    Fingerprint,
    Missing,
    Seen,
    SkillRead,
    SourceRead,
    Unavailable,
    source_changed,
)
from .freshness import Decision, Freshness, Invalidation, Judgement, decide, freshness_of, is_skill_card, judge
from .listing import ArtifactCard, list_cards
from .rehydration import (
    READ_BYTES_DEFAULT,
    READS_DEFAULT,
    Deferral,
    ReadIntent,
    RehydrationPhase,
    RehydrationPlan,
    RehydrationRoute,
    plan_rehydration,
)
from .selection import Match, check_tags, select_cards
from .skills import Digest, Provenance, RegisteredSkill, is_current_skill, skill_note, skills_from
from .sources import is_canonical, registered_paths, resolved

__all__ = [
    "MISSING",
    "NO_READS",
    "READS_DEFAULT",
    "READ_BYTES_DEFAULT",
    "ArtifactCard",
    "Compilation",
    "Decision",
    "Deferral",
    "Digest",
    "Fingerprint",
    "Freshness",
    "Invalidation",
    "Judgement",
    "Match",
    "Missing",
    "Provenance",
    "ReadIntent",
    "RegisteredSkill",
    "RehydrationPhase",
    "RehydrationPlan",
    "RehydrationRoute",
    "Seen",
    "SkillRead",
    "SourceRead",
    "Unavailable",
    "check_tags",
    "decide",
    "freshness_of",
    "is_canonical",
    "is_current_skill",
    "is_skill_card",
    "judge",
    "list_cards",
    "plan_rehydration",
    "registered_paths",
    "resolved",
    "select_cards",
    "skill_note",
    "skills_from",
    "source_changed",
]
