"""Histories told call by call, for tests of the checker by hand."""

from __future__ import annotations

from typing import Any

import attrs

from strataflow.runtime.simulation.checker import RULES, check, is_explainable, told
from strataflow.runtime.simulation.history import Call, FinalScope, History, Read

Json = dict[str, Any]
SESSION = ("/a", "s")


@attrs.define
class Story:
    """Writes a history call by call. Each call begins a second after the one before it began, and ends soon after."""

    history: History = attrs.field(factory=History)
    row: int = 0

    def call(self, kind: str, process: str = "p1", session: tuple[str, str] = SESSION, **about: Any) -> Call:
        begun_s = float(len(self.history.calls))
        call = Call(len(self.history.calls) + 1, process, *session, kind, begun_s)  # type: ignore[arg-type]
        call.ended_s, call.ending = begun_s + 0.5, "ok"
        for name, value in about.items():
            setattr(call, name, value)
        self.history.calls.append(call)
        return call

    def patch(self, patches: Json, revision: str | None = None, **about: Any) -> Call:
        """A patch that was accepted, or not, if ``about`` says so."""
        return self._row(self.call("patch", patches=patches, **about), revision)

    def transaction(self, *steps: Read | Json, revision: str | None = None, **about: Any) -> Call:
        """A transaction that was accepted, or not."""
        return self._row(self.call("transaction", steps=list(steps), **about), revision)

    def _row(self, call: Call, revision: str | None) -> Call:
        call.request_id = call.request_id or f"r{call.number}"
        if call.ending == "ok" and call.seq is None:
            self.row += 1
            call.seq = self.row
        if call.ending == "ok":
            call.changed = True if call.changed is None else call.changed
            call.revision = revision
            call.transition_id = f"t{call.number}" if call.changed else None
        elif call.ending == "unknown":
            call.ended_s = None
        return call

    def read(self, path: str, found: Any, **about: Any) -> Call:
        """A read."""
        return self.call("read", steps=[Read(path, found, found is None)], **about)

    def end(self, **scopes: Json) -> None:
        """The end: ``global_``, ``cwd``, ``s`` and so on; revisions count the calls that asked for the scope."""
        names = {"global_": "", "cwd": "--a--"}
        for name, value in scopes.items():
            self.history.final.append(FinalScope(names.get(name, f"--a--/{name}"), value, 1))

    def rules(self) -> dict[str, tuple[int, ...]]:
        """What the checker finds: rules, and the calls that they name."""
        found = check(self.history)
        for violation in found:
            assert violation.rule in RULES
            assert not is_explainable(self.history, violation.calls) or not violation.calls, told(
                violation, self.history
            )
            for number in violation.calls:
                assert is_explainable(self.history, set(violation.calls) - {number})
        return {violation.rule: violation.calls for violation in found}

    def names(self) -> set[str]:
        """The rules alone."""
        return {violation.rule for violation in check(self.history)}


def w(value: Any, key: str = "k") -> Json:
    """A patch, or a value, of one key of ``working``."""
    return {"working": {key: value}}
