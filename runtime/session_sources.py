"""A session's part in what a host does about files: Skills it has, cards it shows, what must be compiled anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from ..store import CallError, ScopeName
from ..store.artifacts import ArtifactCard, Invalidation, Match, RegisteredSkill, check_tags, list_cards, skills_from
from .call_arguments import members, no_members, only_member
from .session_reports import SessionReports


@attrs.frozen(eq=False, repr=False)
class SessionSources(SessionReports):
    """What ``Session`` offers to a host that knows of files."""

    def registered_skills(self, inventory: Iterable[RegisteredSkill | Mapping[str, Any]]) -> dict[str, ScopeName]:
        """Say which Skills the host has now; it replaces what was said before. Gives the scope of each one's card.

        Entries are ``RegisteredSkill``, or objects ``{path, provenance}`` with a provenance of user (global), project
        (cwd) or temporary (session), such as a host's list of commands, of which only those of ``source`` skill count.
        A path that is registered for several owners is left out. Nothing is looked at.

        Raises:
          CallError: E_SHAPE for an entry of another shape; then what was said before holds.
          StoreError: E_CLOSED.
        """
        self._check()
        skills = skills_from(inventory, self.cwd)
        if skills != self._cell.artifacts.skills:
            self._cell.artifacts.skills = skills
        return dict(skills)

    async def invalidations(self) -> list[Invalidation]:
        """The cards of this session that must be compiled anew, by path, after a look at their sources now.

        Requests do the same by themselves. Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          CallError: E_OFF.
          StoreError: E_CLOSED.
        """
        self._check()
        return await self._lifetime.prompts.artifacts.invalidations(self._cell)

    async def artifacts(self, *tags: str, match: Match = "all") -> list[ArtifactCard]:
        """The cards of this session's three scopes, those with all, or any, of ``tags``, after a look at their sources.

        Always a checkpoint. It changes nothing, so Cancelled loses nothing.

        Raises:
          CallError: E_OFF; E_SHAPE for what can be no tag.
          StoreError: the reason why a scope can not be read; E_CLOSED.
        """
        if tags:
            check_tags(tags, match)
        await self._before_reading(False)
        cell = self._cell
        view = self._state.view(cell.readable())
        for error in view.unreadable.values():
            raise type(error)(error.code, error.message, **error.data)
        await self._lifetime.prompts.artifacts.refresh(cell)
        return list_cards(cell.scopes() or view.scopes, cell.artifacts.seen, tags, match)

    async def _call_sources(self, name: str, arguments: Any) -> Any:
        """The calls of the tool protocol that belong to files."""
        if name == "note_read":
            path, call_id = members(arguments, "path", "call_id")
            return {"note": await self._lifetime.prompts.artifacts.note_read(self._cell, path, call_id)}
        if name == "registered_skills":
            given = only_member(arguments, "skills")
            if type(given) is not list:
                raise CallError("E_SHAPE", "skills are a list of objects with path and provenance")
            return {"skills": self.registered_skills(given)}
        no_members(arguments)
        return {"invalidations": [item.to_json() for item in await self.invalidations()]}
