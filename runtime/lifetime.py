"""What a session's handle needs of its runtime, and no more: is it alive, how is it, end me."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..actors import SessionCell, WatchHub
from ..store import HostEntries, Json, LogEntry, SessionAddress, Status
from .prompt_desk import PromptDesk
from .transactions_desk import TransactionDesk

if TYPE_CHECKING:
    from .session import Session


class Lifetime(Protocol):
    """The runtime as its sessions see it."""

    @property
    def hub(self) -> WatchHub:
        """Who waits for changes of memory."""

    @property
    def desk(self) -> TransactionDesk:
        """What its transactions share."""

    @property
    def prompts(self) -> PromptDesk:
        """What the requests of its sessions share."""

    @property
    def store_path(self) -> str:
        """The absolute path of the store."""

    def check(self) -> None:
        """Raise StoreError E_CLOSED if the runtime is closed or this is a forked child (J11)."""

    async def status(self) -> Json:
        """How the store is: sizes, waiting calls, durability, lock holder."""

    async def inspect(self, cwd: str, session_id: str = "main") -> Status:
        """A session looked at from outside."""

    async def log_for(self, address: SessionAddress, path: str | None, limit: int) -> list[LogEntry]:
        """Retained transitions that a session can see."""

    async def fork_session(self, parent: SessionCell, child_id: str, entries: HostEntries | None) -> Session:
        """Open a session that begins with another one's private memory."""

    async def close_session(self, cell: SessionCell) -> None:
        """Close a session for one of its handles."""
