"""The runtime for programs that run asyncio: the same calls, carried out by a trio loop in a thread of its own."""

from .handles import Runtime, Session
from .opening import open_runtime
from .tree import OwnedTree
from .work import Run, Transaction, Watch

__all__ = ["OwnedTree", "Run", "Runtime", "Session", "Transaction", "Watch", "open_runtime"]
