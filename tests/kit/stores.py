"""Real stores in a folder of a test: open, change, checkpoint, close or crash them, without actors.

``OpenedStore`` does what one runtime does, one call at a time and on one thread::

    with OpenedStore.open(tmp_path / "state-flow") as store:
        store.patch(cwd={"working": {"build": "green"}})
        assert store.read("effective.working.build") == "green"

Times and ids come from counters. Whatever a test needs beyond this is in the members, which are the real things.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import attrs
import pytest

from strataflow.store import (
    CHECKPOINT_LOCK,
    OPEN_LOCK,
    TURN_LOCK,
    CheckpointList,
    CheckpointReport,
    Draft,
    Durability,
    FlockLocks,
    Ground,
    Json,
    Layout,
    LeaveReport,
    Member,
    MemoryStore,
    Mode,
    ProcessIdentity,
    ProcessTable,
    RealDisk,
    RealProcessTable,
    Receipt,
    Refusals,
    Requests,
    SessionAddress,
    SqliteJournal,
    Stamp,
    StrataflowError,
    View,
    WaitForPi,
    check_patch_arguments,
    checkpoint,
    find_session,
    finish_prepared,
    join,
    leave,
    load_for_writing,
    make_folders,
    note_ground,
    read,
    recalled,
    wanted_scopes,
)
from strataflow.store.journal_reader import JournalReader
from strataflow.store.reader import StoreReader

T = TypeVar("T")
NOBODY = 65534
FIRST_TIME_MS = 1_700_000_000_000

# Never the same id twice, also if a test opens its store again under the same name.
_ids = itertools.count(1)


class DiedError(Exception):
    """Stands for the end of the process."""


def _die(*_arguments: object) -> None:
    raise DiedError


@attrs.frozen
class KnownProcesses:
    """A process table in which exactly the given ids live; the own process is one of them."""

    living: Collection[int] = (1000,)
    own_pid: int = 1000

    def own(self) -> ProcessIdentity:
        return self.identity(self.own_pid)

    def identity(self, pid: int) -> ProcessIdentity:
        """The process that has (or had) this id."""
        return ProcessIdentity(pid, pid * 10, "boot")

    def is_alive(self, process: ProcessIdentity) -> bool:
        return process.pid in self.living and process == self.identity(process.pid)

    def pid_exists(self, pid: int) -> bool:
        return pid in self.living


def pause() -> None:
    """What a journal does while another process keeps SQLite busy."""
    threading.Event().wait(0.001)


def real_ground(root: Path, table: ProcessTable | None = None) -> Ground:
    """The real world around a store at ``root``."""
    return Ground(RealDisk(), FlockLocks(), table or RealProcessTable(), Layout(str(root)))


@contextmanager
def locked(ground: Ground, name: str) -> Iterator[None]:
    """Hold one of the store's kernel locks for the block."""
    lock = ground.locks.open(ground.layout.private(name))
    try:
        lock.acquire_blocking(ground.locks.attempt())
        yield
    finally:
        lock.close()


@attrs.define(eq=False)
class OpenedStore:
    """A store as one runtime has it open. ``session`` is the one that calls use when they name none."""

    ground: Ground
    writer: str
    level: Durability
    journal: SqliteJournal
    member: Member
    memory: MemoryStore
    default: SessionAddress = attrs.field(init=False)
    refusals: Refusals = attrs.field(factory=Refusals, init=False)
    is_open: bool = attrs.field(default=True, init=False)

    @classmethod
    def open(
        cls,
        root: Path,
        writer: str = "writer-1",
        *,
        cwd: str = "/project",
        session_id: str = "main",
        level: Durability = "power",
        history_limit: int = 7,
        share_with_pi: bool = False,
        table: ProcessTable | None = None,
    ) -> Self:
        """Join the store at ``root``, made if it is missing, finish what others left, and load one session."""
        ground = real_ground(root, table)
        make_folders(ground)
        layout = ground.layout
        ground.locks.open(layout.private(TURN_LOCK)).close()
        with locked(ground, OPEN_LOCK):
            journal = SqliteJournal(ground.disk, layout, level, pause)
            try:
                note_ground(ground, journal)
                member = join(ground, journal, writer, share_with_pi=share_with_pi)
                assert not isinstance(member, WaitForPi), member
            except BaseException:
                journal.close()
                raise
        self = cls(ground, writer, level, journal, member, MemoryStore(writer, history_limit))
        try:
            with locked(ground, CHECKPOINT_LOCK):
                finish_prepared(ground.disk, layout, journal)
            self.default = self.session(session_id, cwd)
        except BaseException:
            self.abandon()
            raise
        return self

    # -- sessions -----------------------------------------------------------------------------------------------

    def session(self, session_id: str = "main", cwd: str = "/project") -> SessionAddress:
        """Load and accept a session, found as Ours-19 says."""
        ground = self.ground
        address = find_session(ground, cwd, session_id, self.journal.view(None).rows)
        loaded = load_for_writing(ground, self.journal, wanted_scopes(address), self.stamp, after=None)
        whole = not self.memory.images
        assert self.memory.install(loaded, whole=whole)
        self.memory.accept(address, {})
        image = self.memory.image(address.scope("session"))
        if image.run is not None and image.lineage is None:
            self.commit(lambda draft: draft.stage_origin(address))
        return address

    # -- changes ------------------------------------------------------------------------------------------------

    def commit(self, stage: Callable[[Draft], T]) -> T:
        """Stage on a draft, append its rows, publish; again if another process was faster."""
        while True:
            self.follow()
            requests = Requests(lambda request_id: recalled(self.journal, self.refusals, request_id))
            draft = Draft(self.memory, self.level, self.time_ms(), self.new_id, requests)
            answer = stage(draft)
            if not draft.rows:
                return answer
            if self.journal.append(draft.rows, head=self.memory.head) == "appended":
                self.memory.publish(draft.rows, draft.images)
                return answer

    def follow(self) -> None:
        """Take over what other processes appended."""
        self.memory.follow(self.journal.rows_since(self.memory.head, 1_000_000))

    def patch(
        self,
        address: SessionAddress | None = None,
        *,
        global_: Json | None = None,
        cwd: Json | None = None,
        session: Json | None = None,
        request_id: str | None = None,
    ) -> Receipt:
        """One call of ``patch_state``."""
        given = {"global": global_, "cwd": cwd, "session": session}
        patches = check_patch_arguments({name: patch for name, patch in given.items() if patch is not None})
        return self.commit(lambda draft: draft.stage_patch(address or self.default, patches, request_id))

    def respond(self, text: str, address: SessionAddress | None = None, request_id: str | None = None) -> Receipt:
        """Accept an answer."""
        return self.commit(lambda draft: draft.stage_response(address or self.default, text, request_id))

    def outcome(self, request_id: str) -> Receipt | None:
        """The receipt of an accepted call; None: it was never accepted."""
        found = recalled(self.journal, self.refusals, request_id)
        assert not isinstance(found, StrataflowError), found
        return found

    def set_mode(self, mode: Mode, address: SessionAddress | None = None) -> Mode:
        """Select a mode; active creates private memory where none is."""
        return self.commit(lambda draft: draft.stage_mode(address or self.default, mode))

    # -- looking ------------------------------------------------------------------------------------------------

    def view(self, address: SessionAddress | None = None) -> View:
        """What a session reads."""
        return self.memory.view(address or self.default)

    def read(self, path: str, address: SessionAddress | None = None) -> Any:
        """The value at one path."""
        return read(self.view(address), {"path": path}).value

    # -- files --------------------------------------------------------------------------------------------------

    def checkpoint(self) -> CheckpointReport:
        """Write everything accepted into the canonical files."""
        report = self._checkpoint()
        self.memory.drop_pending(self.journal.view(None).checkpointed_through)
        return report

    def _checkpoint(self) -> CheckpointReport:
        ground, limit = self.ground, self.memory.history_limit
        with locked(ground, CHECKPOINT_LOCK):
            return checkpoint(ground.disk, ground.layout, self.journal, self.stamp, history_limit=limit)

    def die_in_checkpoint(self, renames: int) -> CheckpointList:
        """Begin a checkpoint, die after so many of its renames, and leave everything as it is then."""
        rename, left = RealDisk.rename, renames

        def rename_until_death(disk: RealDisk, source: str, target: str) -> None:
            nonlocal left
            if not left:
                raise DiedError
            left -= 1
            rename(disk, source, target)

        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(RealDisk, "rename", rename_until_death)
            patching.setattr(SqliteJournal, "finish", _die)
            with pytest.raises(DiedError):
                self._checkpoint()
        prepared = self.journal.view(None).prepared
        assert prepared is not None
        self.abandon()
        return prepared

    def time_ms(self) -> int:
        """A later moment at each call."""
        return FIRST_TIME_MS + next(_ids)

    def new_id(self) -> str:
        """A fresh id."""
        return f"{self.writer}:{next(_ids)}"

    def stamp(self) -> Stamp:
        """Who acts, when."""
        return Stamp(self.writer, self.level, self.time_ms(), self.new_id().replace(":", "-"))

    # -- endings ------------------------------------------------------------------------------------------------

    def close(self) -> LeaveReport:
        """Leave in good order: the last one checkpoints and frees Pi's way."""

        def write() -> None:
            self._checkpoint()

        with locked(self.ground, OPEN_LOCK):
            report = leave(self.ground, self.journal, self.member, write)
        self.journal.close()
        self.is_open = False
        return report

    def abandon(self) -> None:
        """Go as a killed process would: nothing is written or removed, the kernel takes the locks back.

        SQLite still tidies its ``-wal`` away; ``crash_into`` keeps it.
        """
        self.member.lock.close()
        self.journal.close()
        self.is_open = False

    def crash_into(self, target: Path) -> Path:
        """Copy the store as the disk holds it in this moment, ``-wal`` and ``-shm`` included, and abandon this one."""
        # Copying opens the database behind SQLite's back, which frees its locks: no other process may be about.
        shutil.copytree(self.ground.layout.root, target)
        self.abandon()
        return target

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.is_open:
            if kind is None:
                self.close()
            else:
                self.abandon()


def leave_killed_process(root: Path, code: str) -> None:
    """Run ``code`` with an ``OpenedStore`` of ``root`` called ``store`` in a new process that then kills itself."""
    script = "\n".join(
        [
            "import os, signal, sys",
            "from pathlib import Path",
            f"sys.path[:0] = {[str(Path(__file__).parents[1])]!r}",
            "from kit.stores import OpenedStore",
            f"store = OpenedStore.open(Path({str(root)!r}), 'killed')",
            textwrap.dedent(code),
            "os.kill(os.getpid(), signal.SIGKILL)",
        ]
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def all_bytes(root: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path from there."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def reader_of(root: Path, scratch: Path, table: ProcessTable | None = None) -> StoreReader:
    """A reader that opens nothing. ``scratch`` is made if it is missing and must stay empty."""
    scratch.mkdir(exist_ok=True)
    ground = real_ground(root, table)
    return StoreReader(ground, JournalReader(ground.disk, ground.layout, str(scratch), pause))


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder that another user can reach, unlike those of pytest, with a ``scratch`` that everybody may write."""
    folder = Path(tempfile.mkdtemp(prefix="strataflow-test-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        (folder / "scratch").mkdir()
        (folder / "scratch").chmod(0o777)
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def as_stranger(*roots: Path, hidden: Collection[Path] = ()) -> Iterator[None]:
    """Everything below the folders may only be read, or not even that, also by whoever tests as superuser."""
    modes = {path: path.stat().st_mode for root in roots for path in [root, *root.rglob("*")]}
    for path, mode in modes.items():
        path.chmod(0 if path in hidden else 0o555 if stat.S_ISDIR(mode) else 0o444)
    is_superuser = os.geteuid() == 0
    try:
        if is_superuser:
            os.seteuid(NOBODY)
        yield
    finally:
        if is_superuser:
            os.seteuid(0)
        for path, mode in modes.items():
            if path.exists():
                path.chmod(stat.S_IMODE(mode))
