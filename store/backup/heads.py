"""Where a repository stands: which branch is checked out, and at which commit. Parsing only.

Branch and commit are read from Git's own small files wherever these say it all, which costs no process and can be done
again at any moment; what is unusual is asked of Git.
"""

from __future__ import annotations

import re
from typing import final

import attrs

_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = re.compile(r"ref: (refs/heads/\S(?:.*\S)?)\n?")


@final
@attrs.frozen
class Head:
    """``branch``: full name of the branch that is checked out, None if none is; ``commit`` None: it has none yet."""

    branch: str | None
    commit: str | None


def branch_of(head_file: bytes) -> str | None:
    """The branch that the text of ``HEAD`` names; None for a detached head and for what is not understood."""
    match = _BRANCH.fullmatch(head_file.decode("utf-8", "surrogateescape"))
    return None if match is None or match[1].endswith("/.invalid") else match[1]


def oid_of(data: bytes) -> str | None:
    """The object id that a file of one reference holds; None for anything else, such as a symbolic one."""
    text = data.decode("ascii", "replace").strip()
    return text if _OID.fullmatch(text) else None


def packed_oid_of(packed_refs: bytes, branch: str) -> str | None:
    """What ``packed-refs`` knows of a branch."""
    name = branch.encode("utf-8", "surrogateescape")
    for line in packed_refs.split(b"\n"):
        oid, _, ref = line.partition(b" ")
        if ref == name:
            return oid_of(oid)
    return None


def is_plain(config: bytes) -> bool:
    """Whether the text of a repository's configuration says nothing that would put its work tree elsewhere, or keep
    references in another way than in files. In doubt no."""
    lower = config.lower()
    return b"worktree" not in lower and b"refstorage" not in lower and b"bare = true" not in lower


@final
@attrs.frozen
class Facts:
    """What ``git rev-parse`` knows of a repository: the top of its work tree, its own folder, the common one."""

    top: str
    git_dir: str
    common_dir: str


def parse_facts(data: bytes) -> Facts | None:
    """What ``rev-parse --show-toplevel --absolute-git-dir --git-common-dir`` printed; None if it is something else."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return Facts(*lines[:3]) if len(lines) == 4 and not lines[3] else None
