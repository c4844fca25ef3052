"""What every bell of a journal must do, whether it rings or leaves all to its beat."""

from __future__ import annotations

from typing import Any, Protocol

import trio

from strataflow.actors import JournalBell

PATIENCE_S = 30.0  # only reached when a check fails


class BellWorld(Protocol):
    """A store whose journal somebody else can write to. ``open_files`` counts what this process has open."""

    def open_bell(self) -> JournalBell: ...

    def append(self) -> None: ...

    def appended(self) -> int:
        """How many rows are to be seen, found out without touching the journal that is listened to."""

    def open_files(self) -> list[str]: ...


class BellConformance:
    """Subclasses give a fixture ``world``."""

    async def test_who_looks_at_rings_and_beats_sees_every_append(self, world: Any) -> None:
        bell = world.open_bell()
        for count in range(1, 6):
            world.append()
            with trio.fail_after(PATIENCE_S):
                while world.appended() < count:
                    await self.rung_or_beat(bell)
        bell.close()

    async def test_a_cancelled_listener_misses_no_ring(self, world: Any) -> None:
        bell = world.open_bell()
        with trio.CancelScope() as scope:
            scope.cancel()
            await bell.wait_rung()
        assert scope.cancelled_caught
        world.append()
        with trio.CancelScope() as scope:
            scope.cancel()
            await bell.wait_rung()
        assert scope.cancelled_caught
        with trio.fail_after(PATIENCE_S):
            await self.rung_or_beat(bell)
        bell.close()

    async def test_a_bell_opens_no_file_of_the_journal_and_gives_back_what_it_opened(self, world: Any) -> None:
        before = world.open_files()
        bells = [world.open_bell() for _ in range(3)]
        new = [name for name in world.open_files() if name not in before]
        assert not any("journal.db" in name for name in new)
        for bell in bells:
            bell.close()
            bell.close()
        assert world.open_files() == before

    async def test_a_working_bell_has_no_trouble_to_tell_of(self, world: Any) -> None:
        bell = world.open_bell()
        assert bell.trouble == ""
        assert 0 < bell.beat_s <= 5
        bell.close()

    async def rung_or_beat(self, bell: JournalBell) -> None:
        """Wait as the tick does."""
        with trio.move_on_after(bell.beat_s):
            await bell.wait_rung()
