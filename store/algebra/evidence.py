"""Evidence: what the runtime knows of a source, and what it keeps beside a card that was compiled from it (A8, A24).

What a look at a path gives is one of three: a fingerprint, the proof that nothing is there, or that nobody can tell.
Evidence of an ordinary card is the fingerprint of its source, of a Skill's card the hash of its bytes. Nobody authors
evidence; it is accepted together with the card that it speaks for.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, final

import attrs

from .merge import SAFE_INT_MAX, Json

ARTIFACT_REVISION: Final = "artifact-v1"
SKILL_REVISION: Final = "skill-artifact-v1"

_KEYS = frozenset({"sourceFingerprint", "sourceHash", "compilerRevision", "compiledAt"})
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_MTIME = re.compile(r"-?[0-9]+")


@final
class Fingerprint(NamedTuple):
    """A regular file as its metadata show it: bytes, and nanoseconds since 1970, before it negative.

    A plain tuple, since thousands are compared for one prompt.
    """

    size: int
    mtime_ns: int

    def to_json(self) -> Json:
        """As evidence keeps it."""
        return {"size": self.size, "mtimeNs": str(self.mtime_ns)}


@final
@attrs.frozen
class Missing:
    """Certainly nothing is at the path: no such entry, or something that is no folder on the way."""


MISSING: Final = Missing()


@final
@attrs.frozen
class Unavailable:
    """Nobody can tell what is at the path, or it is no regular file. This proves nothing (Ours-13)."""

    reason: str


# What a look at one path gave.
Seen = Fingerprint | Missing | Unavailable


def is_evidence(entry: object) -> bool:
    """Whether an entry that was read from somewhere is well formed."""
    if type(entry) is not dict or not set(entry) <= _KEYS:
        return False
    fingerprint = entry.get("sourceFingerprint", {"size": 0, "mtimeNs": "0"})
    if type(fingerprint) is not dict or set(fingerprint) != {"size", "mtimeNs"}:
        return False
    texts = [entry.get(key, "") for key in ("compilerRevision", "compiledAt")]
    hash_, mtime, size = entry.get("sourceHash", "sha256:" + "0" * 64), fingerprint["mtimeNs"], fingerprint["size"]
    return (
        type(size) is int
        and 0 <= size <= SAFE_INT_MAX
        and type(mtime) is str
        and _MTIME.fullmatch(mtime) is not None
        and type(hash_) is str
        and _HASH.fullmatch(hash_) is not None
        and all(type(text) is str for text in texts)
    )


def stored_fingerprint(entry: Json) -> Fingerprint | None:
    """The fingerprint in a well-formed entry, if it has one."""
    found = entry.get("sourceFingerprint")
    # Longer numbers than any file system has are not even parsed: int() itself refuses thousands of digits.
    if found is None or len(found["mtimeNs"]) > 32:
        return None
    return Fingerprint(found["size"], int(found["mtimeNs"]))


def source_evidence(fingerprint: Fingerprint) -> Json:
    """Of an ordinary card that was compiled from a source with this fingerprint."""
    return {"sourceFingerprint": fingerprint.to_json(), "compilerRevision": ARTIFACT_REVISION}


def skill_evidence(source_hash: str) -> Json:
    """Of a Skill's card that was compiled from bytes with this hash."""
    return {"sourceHash": source_hash, "compilerRevision": SKILL_REVISION}


def changed_since(before: Fingerprint, now: Seen | None) -> str | None:
    """Why a source is not what it was, in words; None if it is. ``now`` None: the look at it did not come back."""
    if now == before:
        return None
    if now is None:
        return "it can not be looked at in time"
    if isinstance(now, Missing):
        return "it is gone"
    return f"it can not be looked at: {now.reason}" if isinstance(now, Unavailable) else "it was changed"


def is_hash(text: Any) -> bool:
    """Whether a value is written as the hash of a source."""
    return type(text) is str and _HASH.fullmatch(text) is not None
