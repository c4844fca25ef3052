"""One push of one commit to where its branch goes (store 5.4). It decides nothing of when: see ``pusher_actor``."""

from __future__ import annotations

from typing import final

import attrs
import trio

from ..store import StrataflowError
from ..store.backup import (
    Config,
    Destination,
    PushReport,
    destination_of,
    parse_config,
    push_arguments,
    redactor,
    rejected,
    secrets_of,
    ssh_command,
)
from ..store.repository import PUSH_LOCK
from .git import Git
from .store_world import StoreWorld


@final
@attrs.frozen
class PushStep:
    """Pushes of one store."""

    world: StoreWorld
    git: Git

    async def run(self, branch: str, commit: str) -> PushReport:
        """Push ``commit`` to the remote of ``branch``. Failures are reports.

        If it raises Cancelled, nothing of the push runs any more; what the remote has accepted stays.
        """
        try:
            config = parse_config(await self.git.ask("config", "--list", "-z"))
            # Before anything else may fail: no text of it leaves unredacted.
            self.git.redact = redactor(secrets_of(config))
            destination = destination_of(config, branch)
            if destination is None:
                return PushReport("nowhere", commit)
            repository = await self.git.find()
            lock = await self.world.threads.work(
                lambda: self.world.ground.locks.open(f"{repository.common_dir}/{PUSH_LOCK}")
            )
        except StrataflowError as error:
            return PushReport("failed", commit, error=self.git.redact(error.message))
        remote = self.git.redact(destination.remote)
        try:
            if not lock.try_acquire():
                return PushReport("skipped", commit, remote, "another process is pushing this repository")
            return await self._push(config, destination, remote, commit)
        except StrataflowError as error:
            return PushReport("failed", commit, remote, self.git.redact(error.message))
        finally:
            # Not before nothing of the push is left running: ``call`` returns then.
            lock.close()

    async def _push(self, config: Config, destination: Destination, remote: str, commit: str) -> PushReport:
        ssh = ssh_command(config, self.git.processes.environment.get("GIT_SSH_COMMAND"))
        environment = {} if ssh is None else {"GIT_SSH_COMMAND": ssh}
        arguments = push_arguments(destination.remote, commit, destination.ref)
        ended = await self.git.call(arguments, is_guarded=True, environment=environment)
        await trio.lowlevel.checkpoint_if_cancelled()
        if ended.code == 0:
            return PushReport("pushed", commit, remote)
        said = rejected(ended.stdout.decode("utf-8", "replace"))
        text = self.git.failure("push", ended).message
        return PushReport("failed", commit, remote, text if said is None else f"{self.git.redact(said)}; {text}")
