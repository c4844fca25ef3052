"""strataflow for programs that run asyncio: ``from strataflow import aio``, then the names of the trio side.

``aio.open_runtime`` serves the store by a trio loop in a thread of its own. Cancelling a task cancels its call there
and waits for its end.
"""

from .runtime.aio import OwnedTree, Run, Runtime, Session, Transaction, Watch, open_runtime

__all__ = ["OwnedTree", "Run", "Runtime", "Session", "Transaction", "Watch", "open_runtime"]
