"""One backup: from what is accepted to a commit, or to an error that has changed nothing (store 5.2).

    NOTED --mutex, files of one moment--> CAPTURED --blobs, trees, commit--> MADE --branch and index--> DONE
      |                                      |                                |
      +-- busy, cancelled, refused ----------+--------------------------------+--> as before

Invariants:
  G1  The branch moves only from the commit that was noted before anything was waited for, and only while it is checked
      out; what is written before that is reachable by nobody.
  G2  Of the user's index only the entries of committed files are touched, of the work tree nothing. If the index can
      not be told, the branch goes back.
  G3  No call of Git happens while a lock of the store is held.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, final

import attrs
import trio

from ..store import BackupError, CheckpointReport, StoreError
from ..store.backup import (
    MESSAGE,
    BackupRecord,
    BackupReport,
    Entry,
    Happening,
    Head,
    Listing,
    changed_files,
    git_arguments,
    index_lines,
    new_trees,
    parse_listing,
    quoted_path,
)
from ..store.repository import (
    BACKUP_LOCK,
    BackupMutex,
    Captured,
    LastBackup,
    Repository,
    change_record,
    clear,
    has_repository,
    is_owned,
    lay_out,
    read_record,
)
from .actor import ActorRef
from .branch_step import move_branch, tell_index
from .git import Git
from .limits import COMPLETE_LOOK_S, PI_POLL_S
from .store_messages import Capture
from .store_world import StoreWorld

_SHA1_CHARS = 40


@final
@attrs.frozen
class BackupStep:
    """Makes backups of one store. ``wants``: how patiently, and whether every file is looked at."""

    world: StoreWorld
    store: ActorRef
    git: Git
    _noting: trio.Lock = attrs.field(factory=trio.Lock, init=False, eq=False)

    async def run(self, *, patience_s: float, is_complete: bool = False) -> BackupReport:
        """Back up what is accepted now.

        If it raises Cancelled, nothing was committed, or the commit is there whole.

        Raises:
          BackupError: E_REPOSITORY, E_GIT; branch and index are as they were.
          StoreError: E_BUSY after ``patience_s``; E_DISK and others of the store.
        """
        began = trio.current_time()
        disk, layout, work = self.world.ground.disk, self.world.ground.layout, self.world.threads.work
        if not await work(lambda: has_repository(disk, layout)):
            text = f"{layout.root}: is no Git repository; `strataflow backup init` makes it one"
            raise BackupError("E_REPOSITORY", text, path=layout.root)
        repository = await self.git.find()
        noted = await self.git.head(repository)
        async with self._mutex(repository, patience_s):
            record = await work(lambda: read_record(disk, layout))
            noted = head_to_build_on(noted, await self.git.head(repository), record)
            if noted.commit is not None and record.moving == noted.commit:
                await tell_index(self.git, repository, noted.commit)  # G2, for a process that was killed
            listing = await self._listing(noted)
            last = None if is_complete else self._last(record, noted, listing)
            report, captured = await self.store.ask(Capture(last, patience_s))
            if await self.git.head(repository) != noted:
                raise _moved(noted)
            changes = changed_files(listing, await self._oids(repository, captured, listing))
            commit = await self._commit(repository, noted, listing, changes)
            await self._note(noted, captured, commit, report.through)
        return _report(noted, commit, changes, report, trio.current_time() - began)

    # -- what was there -------------------------------------------------------------------------------------------

    async def _listing(self, noted: Head) -> Listing:
        if noted.commit is None:
            return {}
        return parse_listing(await self.git.ask("ls-tree", "-r", "-t", "-z", "--full-tree", noted.commit))

    def _last(self, record: BackupRecord, noted: Head, listing: Listing) -> LastBackup | None:
        """What the commit holds, if it is a backup that we know; else all files must be looked at."""
        age_s = (self.world.clock.wall_ms() - record.complete_ms) / 1000
        is_fresh = 0 <= age_s < COMPLETE_LOOK_S
        if record.commit != noted.commit or noted.commit is None or not is_fresh or self.world.shared_pi is not None:
            return None
        return LastBackup(record.through, record.journal, _scopes(listing))

    @asynccontextmanager
    async def _mutex(self, repository: Repository, patience_s: float) -> AsyncIterator[None]:
        """Be the only one who backs up this repository. E_BUSY after the patience."""
        ground, threads = self.world.ground, self.world.threads
        lock = await threads.work(lambda: ground.locks.open(f"{repository.common_dir}/{BACKUP_LOCK}"))
        mutex = BackupMutex(ground, repository.common_dir, self.world.ids.new_id())
        is_taken = False
        try:
            with trio.move_on_after(patience_s):
                if not lock.try_acquire():
                    await threads.wait_lock(lock)
                while not is_taken:
                    is_taken = await threads.work(mutex.take) == "taken"
                    if not is_taken:
                        await trio.sleep(PI_POLL_S)
            if not is_taken:
                raise StoreError("E_BUSY", f"{mutex.path}: another program backs up this repository; ask again")
            yield
        finally:
            # Short: two small files. Without the shield a cancellation would keep other programs from backing up.
            with trio.CancelScope(shield=True):
                if is_taken:
                    await threads.work(mutex.give_back)
            lock.close()

    # -- objects --------------------------------------------------------------------------------------------------

    async def _oids(self, repository: Repository, captured: Captured, listing: Listing) -> dict[str, str | None]:
        """The object ids of all files that were looked at; None for those that are gone."""
        found: dict[str, str | None] = {path: None for path, data in captured.files.items() if data is None}
        found |= {path: None for path in listing if is_owned(path) and path.rpartition("/")[0] not in captured.scopes}
        fresh: dict[str, bytes] = {}
        own = f"{repository.common_dir}/info/attributes"
        has_own = await self.world.threads.work(lambda: self.world.ground.disk.stat(own)) is not None
        for path, data in captured.files.items():
            old = listing.get(path)
            if data is None:
                continue
            # Without attributes Git keeps the bytes as they are, so that most need not be shown to it.
            if old is not None and not (captured.attributes or has_own) and old.oid == _blob_oid(data, len(old.oid)):
                found[path] = old.oid
            else:
                fresh[path] = data
        for path in await self._ignored([path for path in fresh if path not in listing]):
            del fresh[path]
        return found | await self._hashed(fresh, captured.attributes, has_own)

    async def _ignored(self, paths: list[str]) -> list[str]:
        if not paths:
            return []
        text = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
        ended = await self.git.call(git_arguments("check-ignore", "-z", "--stdin"), text)
        if ended.code not in (0, 1):  # 1: nothing is ignored
            raise self.git.failure("check-ignore", ended)
        return [name.decode("utf-8", "surrogateescape") for name in ended.stdout.split(b"\0") if name]

    async def _hashed(
        self, files: Mapping[str, bytes], attributes: Mapping[str, bytes], has_own: bool
    ) -> dict[str, str]:
        """Store bytes as objects, by way of a private work tree, so that the attributes apply as to any file; those
        that the repository has of its own, too."""
        if not files:
            return {}
        disk, layout, work = self.world.ground.disk, self.world.ground.layout, self.world.threads.work
        token = self.world.ids.new_id()
        try:
            tree = await work(lambda: lay_out(disk, layout, token, {**attributes, **files}))
            answer = await self.git.ask(
                "-C",
                tree,
                "hash-object",
                "-w",
                "--stdin-paths",
                stdin=b"".join(quoted_path(path) + b"\n" for path in files),
                is_guarded=bool(attributes) or has_own,
                environment={"GIT_DIR": layout.file("", ".git"), "GIT_WORK_TREE": tree},
            )
        finally:
            # Short: files that were written a moment ago. Without the shield a cancellation would leave copies of
            # memory lying about.
            with trio.CancelScope(shield=True):
                await work(lambda: clear(disk, layout.private("backup")))
        oids = answer.decode("ascii").split()
        if len(oids) != len(files):
            raise BackupError("E_GIT", f"git hash-object answered {len(oids)} ids for {len(files)} files")
        return dict(zip(files, oids, strict=True))

    # -- the commit -----------------------------------------------------------------------------------------------

    async def _commit(
        self, repository: Repository, noted: Head, listing: Listing, changes: Mapping[str, Entry | None]
    ) -> str | None:
        if not changes:
            return None
        oid_chars = _oid_chars(noted, changes)
        trees = new_trees(listing, changes, oid_chars=oid_chars)
        # "missing": what stands in the last tree need not be looked for again, however much that is.
        answered = tuple(
            (await self.git.ask("mktree", "-z", "--batch", "--missing", stdin=trees.text)).decode("ascii").split()
        )
        if answered != trees.oids:
            raise BackupError("E_GIT", "git mktree wrote other trees than it was told")
        parent = () if noted.commit is None else ("-p", noted.commit)
        made = await self.git.ask("commit-tree", *parent, "-F", "-", trees.oids[-1], stdin=MESSAGE.encode())
        commit = made.decode("ascii").strip()
        if await self.git.head(repository) != noted:
            raise _moved(noted)
        await self.note(moving=commit)
        await move_branch(self.git, repository, noted, commit, index_lines(changes, oid_chars=oid_chars))
        return commit

    async def _note(self, noted: Head, captured: Captured, commit: str | None, seen: int) -> None:
        now_ms = self.world.clock.wall_ms()
        facts: dict[str, Any] = {
            "commit": commit or noted.commit,
            "through": captured.through,
            "journal": captured.journal,
            "seen": seen,
            "moving": None,
        }
        if captured.is_complete:
            facts["complete_ms"] = now_ms
        if commit is not None:
            facts["last_commit"] = Happening(now_ms, commit, noted.branch or "")
        await self.note(**facts)

    async def note(self, **facts: Any) -> None:
        """Change these members of the note, and no others: a push that ends meanwhile notes other ones. A note that
        can not be written costs a complete look, and a report."""
        ground, token = self.world.ground, self.world.ids.new_id()
        try:
            async with self._noting:
                await self.world.threads.work(
                    lambda: change_record(ground.disk, ground.layout, lambda old: attrs.evolve(old, **facts), token)
                )
        except StoreError as error:
            self.world.report("backup-note-failed", error=error)


def _scopes(listing: Listing) -> frozenset[str]:
    return frozenset(path.rpartition("/")[0] for path in listing if is_owned(path))


def _blob_oid(data: bytes, oid_chars: int) -> str:
    digest = hashlib.sha1 if oid_chars == _SHA1_CHARS else hashlib.sha256
    return digest(b"blob %d\0" % len(data) + data).hexdigest()


def _oid_chars(noted: Head, changes: Mapping[str, Entry | None]) -> int:
    """How long the ids of this repository are: there are two kinds. Without a commit everything is a new file."""
    known = noted.commit or next((entry.oid for entry in changes.values() if entry is not None), "")
    return len(known) or _SHA1_CHARS


def head_to_build_on(noted: Head, found: Head, record: BackupRecord) -> Head:
    """Where the branch stands now. A backup that another process made meanwhile is built upon; whatever else moved the
    branch was somebody's own work (case 109)."""
    is_ours = found.branch == noted.branch and found.commit is not None and found.commit == record.commit
    if found != noted and not is_ours:
        raise _moved(noted)
    return found


def _moved(noted: Head) -> BackupError:
    text = f"branch {noted.branch} was moved or left while the backup was made; the next backup takes it as it is"
    return BackupError("E_REPOSITORY", text, branch=noted.branch)


def _report(
    noted: Head, commit: str | None, changes: Mapping[str, Entry | None], report: CheckpointReport, took_s: float
) -> BackupReport:
    return BackupReport(
        commit,
        (noted.branch or "").removeprefix("refs/heads/"),
        len(changes) if commit else 0,
        commit or noted.commit,
        {scope or "global": str(error) for scope, error in report.blocked.items()},
        took_s,
    )
