"""Backups from an asyncio program, into a real repository."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kit.git_repositories import store_repository
from strataflow import aio


def test_an_asyncio_program_backs_up_and_waits_for_the_push(tmp_path: Path) -> None:
    made = store_repository(tmp_path).with_remote()

    async def main() -> None:
        async with aio.open_runtime(store=str(made.root), durability="process") as runtime:
            session = await runtime.open_session("/project", "s1", "active")
            await session.patch_state(session={"working": {"a": 1}})
            report = await runtime.backups.now()
            pushed = await runtime.backups.wait_pushed()
            assert pushed is not None
            assert (pushed.outcome, report.head) == ("pushed", made.head())
            assert not (await runtime.backups.status()).is_due

    asyncio.run(main())
    assert made.remote_head() == made.head()
