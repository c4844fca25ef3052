"""What goes wrong with models: errors for who calls wrongly, and the failure that becomes an ``error`` event."""

from __future__ import annotations

from ...store import StrataflowError


class ModelError(StrataflowError):
    """A model is not known, is described wrongly, or can not be asked from here. Nothing was sent.

    Correct the call. That a call of a model failed is no such error: it is the ``error`` event of its answer.
    """

    codes = frozenset("E_MODEL E_MODEL_SHAPE E_MODEL_EXTRA E_MODEL_ADDRESS E_MODEL_ACCESS".split())


class CallFailed(Exception):
    """A call of a model failed; caught by the client, which makes an ``error`` event of it.

    Attributes:
      text: one sentence for people, without any secret.
      may_retry: whether the same call may succeed when it is made again.
      retry_after_s: how long the server asked to wait.
    """

    def __init__(self, text: str, *, may_retry: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.may_retry = may_retry
        self.retry_after_s = retry_after_s
