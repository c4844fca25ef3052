"""The signal of a run: set once, when somebody aborts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import attrs
import trio


@final
@attrs.define(eq=False)
class AbortSignal:
    """Tells tools, hooks and listeners that their run was aborted. It is never unset.

    A tool that can stop early looks at ``is_set`` or waits: ``await signal.wait()`` beside its work. An aborted run
    waits for its tools; a tool that must not be waited for ends with the cancellation of whoever called ``prompt``.
    """

    _event: trio.Event = attrs.field(factory=trio.Event, init=False)
    _scopes: set[trio.CancelScope] = attrs.field(factory=set, init=False)

    @property
    def is_set(self) -> bool:
        """Whether the run was aborted."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the run is aborted. A cancellation leaves nothing behind."""
        await self._event.wait()

    def _set(self) -> None:
        self._event.set()
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def _cancelling(self) -> Iterator[trio.CancelScope]:
        """A scope that ends with the abortion."""
        with trio.CancelScope() as scope:
            if self.is_set:
                scope.cancel()
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)

    def _spare(self, scope: trio.CancelScope) -> None:
        """Code of others follows inside of such a scope: an abortion cancels the scope only behind it, in ``_claim``.

        Two plain methods: this is done for each piece of an answer.
        """
        self._scopes.discard(scope)

    def _claim(self, scope: trio.CancelScope) -> None:
        """The code of others is over."""
        self._scopes.add(scope)
        if self._event.is_set():
            scope.cancel()
