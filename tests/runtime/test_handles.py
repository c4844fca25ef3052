"""The handles that a user holds, as they show themselves."""

from __future__ import annotations

from pathlib import Path

from kit.runtimes import opened


async def test_a_handle_names_itself_and_nothing_that_is_remembered(tmp_path: Path) -> None:
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await session.patch_state(session={"working": {"key": "a secret"}})
        assert repr(runtime) == f'<Runtime "{tmp_path}">'
        assert repr(session) == '<Session "s1" in "/project" active>'
        await session.aclose()
        assert repr(session) == '<Session "s1" in "/project" active closed>'
    assert repr(runtime) == f'<Runtime "{tmp_path}" closed>'
