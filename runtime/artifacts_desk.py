"""What the sessions of one runtime do about the sources of their cards: look, read, tell (A16, A18 to A29)."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import attrs
import trio

from ..actors import ActorRef, HashSource, Inspect, SessionCell, Sources
from ..store import CallError, shown
from ..store.artifacts import Invalidation, Judgement, Seen, resolved


@final
@attrs.frozen(eq=False)
class ArtifactsDesk:
    """One per runtime. ``report``: of its events."""

    compiler: ActorRef
    sources: Sources
    report: Callable[..., None] = lambda name, **data: None

    async def refresh(self, cell: SessionCell) -> None:
        """Look at all sources of a session's cards. Nothing is asked, and there is no checkpoint, if it has none.

        If it raises Cancelled, the looks before stay in force.
        """
        scopes = cell.scopes()
        paths = cell.artifacts.paths(scopes) if scopes is not None else ()
        cell.artifacts.note_seen(paths, await self.compiler.ask(Inspect(paths)) if paths else {})

    def judged(self, cell: SessionCell) -> Judgement:
        """What is to be told of the cards as they are now. It is what reads count for from here on."""
        scopes = cell.scopes()
        judgement = cell.artifacts.judge(scopes)
        # While memory can not be read nobody knows what is listed; what was before stays so.
        if scopes is not None and cell.artifacts.report(judgement):
            self.report(
                "artifacts-invalidated",
                cwd=cell.cwd,
                session=cell.session_id,
                invalidations=[item.to_json() for item in judgement.invalidations],
            )
        return judgement

    async def invalidations(self, cell: SessionCell) -> list[Invalidation]:
        """See ``Session.invalidations``."""
        cell.readable()
        await trio.lowlevel.checkpoint()
        await self.refresh(cell)
        return [*self.judged(cell).invalidations]

    async def note_read(self, cell: SessionCell, path: str, call_id: str) -> str | None:
        """See ``Run.note_read``."""
        for name, value in (("path", path), ("call_id", call_id)):
            if type(value) is not str or not value:
                raise CallError("E_SHAPE", f"{name} is a string that is not empty, not {shown(value)}")
        await trio.lowlevel.checkpoint()
        artifacts, source = cell.artifacts, resolved(cell.cwd, path)
        read = artifacts.begun(call_id, source) if cell.mode == "active" else None
        if cell.mode != "active" or (read is None and artifacts.scope_of(source) is None):
            artifacts.forget(call_id)
            return None
        if read is None:
            artifacts.begin(call_id, source, None)
            begun = artifacts.begun(call_id, source)
            assert begun is not None
            begun.before = await self._look(source)
            return None
        if read.is_skill:
            digest = await self.compiler.ask(HashSource(source))
            return artifacts.count_skill(read, digest, cell.scopes()) if artifacts.holds(read) else None
        after, again = await self._look(source), await self._look(source)
        if artifacts.holds(read):
            artifacts.count(read, after, again)
        return None

    async def _look(self, path: str) -> Seen | None:
        return (await self.compiler.ask(Inspect((path,)))).get(path)
