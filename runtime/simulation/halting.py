"""A blocking call that stops between two of its operations while all others go on, as a thread of a real process may.

Only such a call gets a thread. The thread and the event loop hand a baton to each other: exactly one of them runs, the
other waits, so the order of events is that of the loop's scheduler still. What the call does to the loop while it has
the baton (ending a process, waking those who wait for a lock) is put off until the loop has it again.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, final

import attrs

_here = threading.local()


@final
@attrs.define(eq=False)
class HaltingCall:
    """One call, to be run to the operation with number ``halts_before`` (from 1), then to its end."""

    _call: Callable[[], Any]
    halts_before: int
    _value: Any = attrs.field(default=None, init=False)
    _error: BaseException | None = attrs.field(default=None, init=False)
    is_done: bool = attrs.field(default=False, init=False)
    _put_off: list[Callable[[], object]] = attrs.field(factory=list, init=False)
    _to_thread: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0), init=False)
    _to_loop: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0), init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)

    def go_on(self) -> None:
        """For the loop: let the call run until it halts or ends."""
        if self._thread is None:
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._run,), name="strataflow simulated call")
            self._thread.start()
        else:
            self._to_thread.release()
        self._to_loop.acquire()
        if self.is_done:
            self._thread.join()
        put_off, self._put_off = self._put_off, []
        for action in put_off:
            action()

    def result(self) -> Any:
        """What the call returned. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        _here.call = self
        try:
            self._value = self._call()
        except BaseException as error:
            # Raised again in the task that waits for the call.
            self._error = error
        self.is_done = True
        self._to_loop.release()

    def _halt(self) -> None:
        self._to_loop.release()
        self._to_thread.acquire()


def is_on_the_loop() -> bool:
    """Whether this is the event loop's own thread."""
    return getattr(_here, "call", None) is None


def halt_if_due() -> None:
    """An operation is about to begin: the call that it belongs to may halt here."""
    call: HaltingCall | None = getattr(_here, "call", None)
    if call is not None and call.halts_before > 0:
        call.halts_before -= 1
        if call.halts_before == 0:
            call._halt()


def on_the_loop(action: Callable[[], object]) -> None:
    """Do something to the event loop: now, or as soon as a halting call gives the baton back."""
    call: HaltingCall | None = getattr(_here, "call", None)
    if call is None:
        action()
    else:
        call._put_off.append(action)
