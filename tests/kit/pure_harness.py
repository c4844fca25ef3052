"""Many sessions over one memory, without files: just the algebra, and the calls of the tool protocol on top of it."""

from __future__ import annotations

from typing import Any

import attrs

from strataflow.store.algebra import (
    Boundary,
    Lineage,
    ScopeName,
    ScopeState,
    StagedCall,
    View,
    acknowledgement,
    check_patch_arguments,
    empty_scope,
    read,
    stage_patch,
    stage_response,
)

Json = dict[str, Any]
Key = tuple[str, str]


@attrs.define
class PureSession:
    """A session's place in history: its origin, and how many transitions it made itself."""

    cwd: str
    key: str
    lineage: Lineage
    step: int = 0


@attrs.define
class PureHarness:
    """Sessions open when they are first used. One counter gives positions to origins and transitions."""

    limit: int = 7
    position: int = 0
    scopes: dict[tuple[str, ...], ScopeState] = attrs.field(factory=dict)
    sessions: dict[Key, PureSession] = attrs.field(factory=dict)

    def session(self, cwd: str = "/project", key: str = "main") -> PureSession:
        """The session, opened if it is new."""
        if (cwd, key) not in self.sessions:
            self.position += 1
            origin = Boundary(f"origin:{self.position}", None, self.position)
            self.sessions[cwd, key] = PureSession(cwd, key, Lineage(known=(origin,), since=origin.position))
            for place in self._places(cwd, key).values():
                self.scopes.setdefault(place, empty_scope(origin))
        return self.sessions[cwd, key]

    def states(self, session: PureSession) -> dict[ScopeName, ScopeState]:
        """The three scopes of a session now."""
        return {name: self.scopes[place] for name, place in self._places(session.cwd, session.key).items()}

    def view(self, session: PureSession) -> View:
        """What the session can read now."""
        states = self.states(session)
        return View(states, lambda: session.lineage.boundaries(states.values(), self.limit), self.limit)

    def call(self, name: str, arguments: Json, cwd: str = "/project", session: str = "main") -> Json:
        """One call of the tool protocol; errors are raised."""
        opened = self.session(cwd, session)
        if name == "read_state":
            return read(self.view(opened), arguments).to_json()
        if name == "accept_response":
            return self._accepted(opened, stage_response(self.states(opened)["session"], arguments["text"]))
        assert name == "patch_state", name
        patches = check_patch_arguments(arguments)
        staged = stage_patch(self.states(opened), patches)
        answer = self._accepted(opened, staged)
        answer["scopes"] = list(patches)
        answer["missing_deletions"] = [missing.to_json() for missing in staged.missing_deletions]
        answer["cascaded"] = list(staged.cascaded)
        answer["text"] = acknowledgement(tuple(patches), staged.changed, staged.missing_deletions)
        return answer

    def _accepted(self, session: PureSession, staged: StagedCall) -> Json:
        if staged.changed:
            self.position += 1
            parent = session.lineage.head(self.states(session).values())
            boundary = Boundary(f"transition:{self.position}", parent.id, self.position)
            for name, place in self._places(session.cwd, session.key).items():
                if name in staged.records:
                    scope = attrs.evolve(
                        self.scopes[place], evidence=staged.evidence.get(name, self.scopes[place].evidence)
                    )
                    self.scopes[place] = scope.accept(boundary, staged.records[name], staged.values[name], self.limit)
            session.step += 1
        states = self.states(session)
        revision = f"g{states['global'].revision}c{states['cwd'].revision}s{states['session'].revision}"
        return {"changed": staged.changed, "step": session.step, "revision": revision}

    @staticmethod
    def _places(cwd: str, key: str) -> dict[ScopeName, tuple[str, ...]]:
        return {"global": (), "cwd": (cwd,), "session": (cwd, key)}
