"""Git, called in such a way that it can do no harm: see ``store/backup/commands.py``. One object per store."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from types import MappingProxyType
from typing import final

import attrs

from ..store import BackupError, Ground
from ..store.backup import Head, Redactor, git_arguments, git_environment, oid_of, parse_facts
from ..store.repository import Repository, detached, plain_repository, read_head
from .limits import GIT_LIMIT_S
from .ports import Threads
from .processes import Command, Ended, Processes


@final
@attrs.define(eq=False)
class Git:
    """Runs Git in a store's folder. ``redact`` takes out whatever of its output must not be seen."""

    processes: Processes
    threads: Threads
    ground: Ground
    redact: Redactor = attrs.field(factory=Redactor)

    @property
    def top(self) -> str:
        """The store's folder, which must be the top of a work tree."""
        return self.ground.layout.root

    async def call(
        self,
        arguments: tuple[str, ...],
        stdin: bytes = b"",
        *,
        is_guarded: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Ended:
        """Run a whole command line, whatever it comes to.

        If it raises Cancelled, nothing of it runs any more.

        Raises:
          BackupError: E_GIT if Git can not be started, or did not end in time.
        """
        # Were the store's own repository damaged, Git would take one of a folder above, such as the user's home.
        ceiling = {"GIT_CEILING_DIRECTORIES": posixpath.dirname(self.top)}
        base = git_environment(self.processes.environment, **ceiling, **environment)
        command = Command(arguments, self.top, base, stdin, GIT_LIMIT_S, is_guarded)
        try:
            ended = await self.processes.run(command)
        except OSError as error:
            text = f"git can not be started ({error.strerror or error}): install it, or put it into PATH"
            raise BackupError("E_GIT", text) from None
        if ended.is_late:
            text = f"git {_verb(arguments)} did not end within {GIT_LIMIT_S:g} s and was stopped"
            raise BackupError("E_GIT", text, left=list(ended.left))
        if ended.is_cut:
            # What is worked out of half an answer, such as the next tree, would lose the other half.
            raise BackupError("E_GIT", f"git {_verb(arguments)} answered more than can be taken in")
        return ended

    async def ask(
        self,
        *arguments: str,
        stdin: bytes = b"",
        is_guarded: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        """What Git answers to a command that must succeed.

        If it raises Cancelled, nothing of it runs any more.

        Raises:
          BackupError: E_GIT with the end of its error output, redacted.
        """
        ended = await self.call(git_arguments(*arguments), stdin, is_guarded=is_guarded, environment=environment)
        if ended.code != 0:
            raise self.failure(_verb(arguments), ended)
        return ended.stdout

    def failure(self, verb: str, ended: Ended) -> BackupError:
        """The error for a command that failed. Its arguments are not shown."""
        said = self.redact.tail(ended.stderr.decode("utf-8", "replace")) or f"exit code {ended.code}"
        return BackupError("E_GIT", f"git {verb} failed: {said}", exit_code=ended.code)

    # -- where the repository stands ------------------------------------------------------------------------------

    async def find(self) -> Repository:
        """The repository around the store.

        Raises:
          BackupError: E_REPOSITORY if the store is not the top of its work tree; E_GIT.
        """
        plain = await self.threads.work(lambda: plain_repository(self.ground.disk, self.ground.layout))
        if plain is not None:
            return plain
        asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
        facts = parse_facts(await self.ask(*asked))
        if facts is None or facts.top != self.top:
            text = (
                f"{self.top}: is not the top of its work tree: a store is backed up only into a repository of its own"
            )
            raise BackupError("E_REPOSITORY", text, path=self.top)
        refs = posixpath.join(facts.common_dir, "reftable")
        is_asked = await self.threads.work(lambda: self.ground.disk.stat(refs)) is not None
        return Repository(facts.git_dir, facts.common_dir, is_asked)

    async def head(self, repository: Repository) -> Head:
        """The branch that is checked out, and its commit.

        Raises:
          BackupError: E_REPOSITORY for a detached head, or a branch whose name is no UTF-8; E_GIT.
        """
        head = None
        if not repository.is_asked:
            head = await self.threads.work(lambda: read_head(self.ground.disk, repository))
        if head is None:
            head = await self._ask_head(repository)
        assert head.branch is not None
        if not _is_text(head.branch):
            # Neither what is told of a backup nor what is noted of it could name it.
            text = f"the branch {head.branch!r} has a name that is no UTF-8: rename it with `git branch -m`"
            raise BackupError("E_REPOSITORY", text)
        return head

    async def _ask_head(self, repository: Repository) -> Head:
        named = await self.call(git_arguments("symbolic-ref", "-q", "HEAD"))
        if named.code != 0:
            raise detached(repository.git_dir)
        found = await self.call(git_arguments("rev-parse", "-q", "--verify", "HEAD^{commit}"))
        branch = named.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")
        return Head(branch, oid_of(found.stdout) if found.code == 0 else None)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _verb(arguments: tuple[str, ...]) -> str:
    """The command that is called: what comes after the program and the options ``-c name=value`` and ``-C folder``."""
    rest = list(arguments[1:] if arguments[0] == "git" else arguments)
    while rest[:1] in (["-c"], ["-C"]):
        del rest[:2]
    return rest[0] if rest else ""
