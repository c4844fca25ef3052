"""The runtime for programs that run asyncio: the same calls, carried out by a trio loop in a thread of its own."""

from .opening import open_runtime
from .runtime import Runtime
from .session import Session
from .tree import OwnedTree
from .work import Run, Transaction, Watch

__all__ = ["OwnedTree", "Run", "Runtime", "Session", "Transaction", "Watch", "open_runtime"]
