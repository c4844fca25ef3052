"""The state of one session as ``strataflow status`` and ``Session.inspect`` show it: data, and lines for a person.

Nothing is read, hashed or changed here (L38): a status is made of what a reader saw or an open store has in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from .algebra import (
    PLANES,
    SCOPES,
    Boundary,
    Json,
    ScopeName,
    ScopeState,
    StrataflowError,
    overlay,
    owned_targets,
)
from .artifacts import Invalidation
from .codec import compact, pretty
from .documents import Mode, RunRecord
from .image import ScopeImage, revision_text
from .layout import SessionAddress, cwd_key
from .memory_store import MemoryStore
from .reader import StoreLook

_OWNABLE = ("working", "lazy")


@attrs.frozen
class ScopeMemory:
    """What one scope holds.

    Attributes:
      size_bytes: UTF-8 bytes of the compact JSON of each plane that is not empty.
      owned: for ``working`` and ``lazy``, if they have keys: how many of them an intent of this scope owns, and all.
      artifacts: registered artifact cards.
    """

    size_bytes: Mapping[str, int]
    owned: Mapping[str, tuple[int, int]]
    artifacts: int

    def line(self, name: str) -> str:
        """``cwd: intents 137 B, working 32 B; intent-owned working 1/2``."""
        text = f"{name}: " + ", ".join(f"{plane} {size} B" for plane, size in self.size_bytes.items())
        if self.owned:
            text += "; intent-owned " + ", ".join(
                f"{plane} {mine}/{all_}" for plane, (mine, all_) in self.owned.items()
            )
        return text


@attrs.frozen
class Status:
    """One session, or a directory alone, at one moment.

    Attributes:
      run: mode, step and unfinished prompt as they are stored; None for a session that has no private memory.
      depth: the greatest offset that can be read; None if history is unavailable, for the reason in ``trouble``.
      scopes: every scope that exists and can be read.
      errors: the scopes that can not, with the reason.
      effective: the three scopes laid over each other, ``lazy`` and ``response`` included; None if one is unreadable.
      rows_unwritten: accepted rows that are not in the canonical files yet.
      mode: the mode that holds; None for a session that has no private memory and is not open here.
      pending: the mode that is being selected, while that waits.
      blocked: why a session in active mode does not reach its model.
      paused: why nothing can be written although the session can be read.
      invalidations: the cards that must be compiled anew, as far as their sources were looked at; None if none was.
    """

    root: str
    cwd: str
    session_id: str | None
    session_key: str | None
    run: RunRecord | None
    revision: str
    depth: int | None
    history_limit: int
    scopes: Mapping[ScopeName, ScopeMemory]
    errors: Mapping[ScopeName, StrataflowError]
    effective: Json | None
    rows_unwritten: int
    trouble: StrataflowError | None = None
    mode: Mode | None = None
    pending: Mode | None = None
    blocked: str | None = None
    paused: str | None = None
    invalidations: Sequence[Invalidation] | None = None

    def to_json(self) -> Json:
        """The status as one object."""
        return {
            "store": self.root,
            "cwd": self.cwd,
            "session": self.session_id,
            "keys": {"cwd": cwd_key(self.cwd), "session": self.session_key},
            "mode": self.mode,
            "pending": self.pending,
            "blocked": self.blocked,
            "paused": self.paused,
            "step": self.run.step if self.run else 0,
            "bootstrap": self.run.bootstrap if self.run else False,
            "specification": self.run.specification if self.run else None,
            "revision": self.revision,
            "depth": self.depth,
            "history_limit": self.history_limit,
            "scopes": {
                name: {
                    "bytes": dict(memory.size_bytes),
                    "owned": {plane: {"owned": mine, "keys": keys} for plane, (mine, keys) in memory.owned.items()},
                    "artifacts": memory.artifacts,
                }
                for name, memory in self.scopes.items()
            },
            "errors": {name: {"code": error.code, "message": error.message} for name, error in self.errors.items()},
            "rows_unwritten": self.rows_unwritten,
            "invalidations": None if self.invalidations is None else [item.to_json() for item in self.invalidations],
            "effective": self.effective,
        }

    def lines(self) -> list[str]:
        """The lines of L35, in their order."""
        run = self.run
        pending = f" ({self.pending} is being selected)" if self.pending else ""
        lines = [f"Mode: {self.mode or 'no memory of its own'}{pending}"]
        if self.blocked is not None:
            lines.append(f"Blocked: {_one_line(self.blocked)}")
        else:
            lines += [f"Blocked: {name} can not be read: {_one_line(error)}" for name, error in self.errors.items()]
        lines.append(f"Repository: {self.root}")
        lines.append(f"Scope keys: CWD {cwd_key(self.cwd)}; session {self.session_key or 'none'}")
        if self.trouble is None and not self.errors:
            lines.append(f"Scope revisions: {self.revision}")
            bootstrap = "; bootstrap" if run and run.bootstrap else ""
            lines.append(f"Runtime metadata: step #{run.step if run else 0}{bootstrap}")
            lines.append(f"Hot history: offsets 0..{self.depth}; maximum depth {self.history_limit}")
        else:
            cause = self.trouble or next(iter(self.errors.values()))
            lines.append(f"Temporal materialization unavailable: {_one_line(cause)}")
            lines.append(f"Hot history: unavailable; configured maximum depth {self.history_limit}")
        if self.paused is not None:
            lines.append(f"Memory writes paused after mode change: {_one_line(self.paused)}")
        counts = {name: memory.artifacts for name, memory in self.scopes.items()}
        if any(counts.values()):
            shown = [f"{label} {counts.get(name, 0)}" for name, label in zip(SCOPES, _LABELS, strict=True)]
            if self.invalidations is not None:
                shown.append(f"pending invalidations {len(self.invalidations)}")
            lines.append(f"Artifacts: {'; '.join(shown)}")
        if self.invalidations:
            lines.append("Pending artifact invalidations:")
            lines += [f"- [{item.scope}] {item.path} — {item.reason}" for item in self.invalidations]
        if self.rows_unwritten:
            lines.append(f"Journal: {self.rows_unwritten} changes are not in the canonical files yet")
        stored = [f"- {memory.line(name)}" for name, memory in self.scopes.items() if memory.size_bytes]
        if stored and not self.errors:
            lines += ["Scope memory:", *stored]
        return [*lines, *self._effective_lines()]

    def _effective_lines(self) -> list[str]:
        if self.effective is None:
            return ["Effective memory: unavailable"]
        planes = [pretty({plane: value})[2:-2] for plane, value in self.effective.items()]
        if not planes:
            return ["Effective memory:", "", "{}"]
        return ["Effective memory:", "", *("{\n" + ",\n\n".join(planes) + "\n}").split("\n")]


_LABELS = ("global", "CWD", "session")


def status_of(look: StoreLook) -> Status:
    """The status of what a reader saw."""
    rows = sum(bool(row.touches()) for row in look.journal.rows)
    return _status(
        look.layout.root, look.cwd, look.address, look.images, look.errors, look.boundaries, look.history_limit, rows
    )


def status_in(state: MemoryStore, root: str, address: SessionAddress) -> Status:
    """The status of a session that is open in this process, as its memory stands. Looks at no file."""
    errors = {name: state.errors[scope] for name, scope in address.scopes() if scope in state.errors}
    images, limit, rows = state.trio(address), state.history_limit, len(state.pending)
    return _status(root, address.cwd, address, images, errors, lambda: state.boundaries(address), limit, rows)


def _status(
    root: str,
    cwd: str,
    address: SessionAddress | None,
    images: tuple[ScopeImage, ScopeImage, ScopeImage],
    errors: Mapping[ScopeName, StrataflowError],
    boundaries: Callable[[], Sequence[Boundary]],
    history_limit: int,
    rows_unwritten: int,
) -> Status:
    depth, trouble = None, None
    if not errors:
        try:
            depth = len(boundaries()) - 1
        except StrataflowError as error:
            trouble = error
    states = {name: image.state for name, image in zip(SCOPES, images, strict=True) if image.state}
    effective = None
    if not errors:
        laid = overlay(*(states[name].value if name in states else {} for name in SCOPES))
        effective = {plane: laid[plane] for plane in PLANES if plane in laid}
    run = images[2].run
    return Status(
        root=root,
        cwd=cwd,
        session_id=address.session_id if address else None,
        session_key=address.key if address else None,
        run=run,
        revision=revision_text(images),
        depth=depth,
        history_limit=history_limit,
        scopes={name: _memory(name, state) for name, state in states.items()},
        errors=errors,
        effective=effective,
        rows_unwritten=rows_unwritten,
        trouble=trouble,
        mode=run.mode if run else None,
    )


def plane_sizes(state: ScopeState | None) -> dict[str, int]:
    """UTF-8 bytes of the compact JSON of each plane that is not empty."""
    value = state.value if state else {}
    return {plane: len(compact(value[plane]).encode()) for plane in PLANES if value.get(plane)}


def _memory(name: ScopeName, state: ScopeState) -> ScopeMemory:
    value = state.value
    targets = {target[:2] for target in owned_targets(value.get("intents", {}).values(), name)}
    owned = {
        plane: (sum((plane, key) in targets for key in value[plane]), len(value[plane]))
        for plane in _OWNABLE
        if value.get(plane)
    }
    return ScopeMemory(plane_sizes(state), owned, len(value.get("artifacts", {})))


def _one_line(reason: StrataflowError | str) -> str:
    return " ".join(str(reason).split())
