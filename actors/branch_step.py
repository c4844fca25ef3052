"""The last step of a backup: the branch is moved and the index told, or neither (G1, G2 of ``backup_step``).

    as before --update-ref--> moved --update-index--> done
        ^                       | +--killed--> the next backup tells the index
        +------ update-ref -----+ the index can not be told, or Git hangs

Nobody may leave in between: each call is shielded from cancellation, and short.
"""

from __future__ import annotations

import trio

from ..store import BackupError
from ..store.backup import Head
from ..store.repository import Repository
from .git import Git
from .limits import COMMIT_SHIELD_S


async def move_branch(git: Git, repository: Repository, noted: Head, commit: str, index: bytes) -> None:
    """Move the branch from the noted commit to ``commit``, and tell the user's index ``index``.

    If it raises Cancelled, both have happened, or neither.

    Raises:
      BackupError: E_REPOSITORY for an index that is locked; E_GIT. Neither has happened.
    """
    assert noted.branch is not None
    is_moved = False
    try:
        old = noted.commit or "0" * len(commit)
        await _quickly(git, "update-ref", "-m", "strataflow backup", noted.branch, commit, old)  # G1
        is_moved = True
        await _quickly(git, "update-index", "-z", "--index-info", stdin=index)
    except BackupError as error:
        back = (noted.branch, noted.commit, commit) if noted.commit else ("-d", noted.branch, commit)
        try:
            # Also where moving it seems to have failed: a call that hangs may have done its work.
            await _quickly(git, "update-ref", "-m", "strataflow backup undone", *back)
        except BackupError:
            if is_moved:
                raise
        raise _explained(error, repository) from None
    await trio.lowlevel.checkpoint_if_cancelled()


async def tell_index(git: Git, repository: Repository, commit: str) -> None:
    """Tell the user's index of exactly what ``commit`` has changed: whoever made it was killed before that.

    If it raises Cancelled, the index is told, or as it was.

    Raises:
      BackupError: E_REPOSITORY for an index that is locked; E_GIT.
    """
    said = await git.ask("diff-tree", "--root", "--no-commit-id", "-r", "-z", "--no-renames", commit)
    parts = said.split(b"\0")[:-1]
    lines = []
    for facts, path in zip(parts[::2], parts[1::2], strict=True):  # ":<modes and ids, old and new> <letter>"
        _, mode, _, oid, _ = facts.split(b" ")
        lines.append(mode + b" " + oid + b"\t" + path + b"\0")
    try:
        await _quickly(git, "update-index", "-z", "--index-info", stdin=b"".join(lines))
    except BackupError as error:
        raise _explained(error, repository) from None


def _explained(error: BackupError, repository: Repository) -> BackupError:
    """The error, in other words if it is about a lock that somebody holds or has left."""
    if "index.lock" not in error.message:
        return error
    path = f"{repository.git_dir}/index.lock"
    text = f"{path} is in the way; if no Git command runs, remove it, then back up again"
    return BackupError("E_REPOSITORY", text, path=path)


async def _quickly(git: Git, *arguments: str, stdin: bytes = b"") -> None:
    # Without the shield a cancellation could leave a branch whose index knows nothing of it. It ends by its deadline.
    with trio.CancelScope(shield=True, deadline=trio.current_time() + COMMIT_SHIELD_S) as scope:
        await git.ask(*arguments, stdin=stdin)
    if scope.cancelled_caught:
        raise BackupError("E_GIT", f"git {arguments[0]} did not end within {COMMIT_SHIELD_S:g} s and was stopped")
