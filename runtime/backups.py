"""Backups of a store with Git, as a program sees them: ``runtime.backups``."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import attrs
import trio

from ..actors import ActorRef, AskStatus, BackUp, WaitPushed
from ..store.backup import BackupReport, BackupStatus, PushReport


@final
@attrs.frozen(repr=False)
class Backups:
    """Backups of an open store. In active mode they happen by themselves after each accepted answer, if the store is a
    repository; nothing waits for them."""

    _pusher: ActorRef
    _check: Callable[[], None]

    async def now(self, *, complete: bool = False, push: bool = True) -> BackupReport:
        """Commit everything accepted now to the branch that is checked out, and begin to push it.

        Waits for whoever is writing the files or backing up. ``complete``: look at every file, also where no change is
        known of. ``push``: whether to push afterwards, in the background, where the branch has a remote.

        Always a checkpoint. If it raises Cancelled, nothing was committed, or the commit is there whole.

        Raises:
          BackupError: E_REPOSITORY, the repository can not take a backup now; E_GIT, Git failed. Memory, branch and
            index are as they were.
          StoreError: E_DISK, E_BUSY, E_CLOSED.
        """
        self._check()
        message = BackUp(complete, push)
        try:
            return await self._pusher.ask(message)
        except trio.Cancelled:
            message.scope.cancel()
            raise

    async def wait_pushed(self) -> PushReport | None:
        """Wait until no push of this runtime is under way, nor a backup after an answer, and tell how the last push
        ended; None if there was none. A push ends within about 20 seconds.

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          StoreError: E_CLOSED.
        """
        self._check()
        return await self._pusher.ask(WaitPushed())

    async def status(self) -> BackupStatus:
        """What was committed and pushed last, by whatever process, what failed last, and whether something is due.

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          BackupError: E_REPOSITORY for a ``.git`` that is a link.
          StoreError: E_DISK, E_CLOSED.
        """
        self._check()
        return await self._pusher.ask(AskStatus())
