"""Case from the field: memory that looks like the program's own markers, tags, keys or lines is only data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.runtimes import opened, session_of, value

LOOKALIKES = [
    "[0]", "[-1]", "effective", "global", "cwd", "session", "global[1]", "working", "response", "__proto__", "$ref",
    "__class__", "missing", "sha256:0000", "E_CONFLICT", "superseded", "transition", "lifecycle", "absent",
    "patch:origin", "..", "/", "a.b", "a\\.b", "*", "", " ", "\n", '{"working":{}}', "null", "true", "<memory>",
    "</state>", "```json", "%s", "{0}", "'; drop table rows; --", "journal.db", "turn.lock", "\x1b[31m",
]  # fmt: skip


@pytest.mark.parametrize("where", ["cwd", "session"])
async def test_the_field_case_of_memory_that_looks_like_our_own_markers_is_only_data(
    tmp_path: Path, where: str
) -> None:
    keys: dict[str, Any] = {"plain": 1, **{key: f"value of {key}" for key in LOOKALIKES}}
    values = {f"n{number}": text for number, text in enumerate(LOOKALIKES)}
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(**{where: {"working": {"keys": keys, "values": values, "list": LOOKALIKES}}})
        for number in range(4):
            await session.patch_state(**{where: {"working": {"keys": {"[0]": f"again {number}"}}}})
            if number == 1:
                await runtime.checkpoint()
    keys["[0]"] = "again 3"
    for path in (tmp_path / "state-flow/.strataflow").glob("journal*"):
        path.unlink()
    async with session_of(tmp_path / "state-flow", "main") as session:
        found = await value(session, f"{where}.working")
        assert found == {"keys": keys, "values": values, "list": LOOKALIKES}
        await session.patch_state(**{where: {"working": {"keys": {key: None for key in LOOKALIKES}}}})  # noqa: C420
        assert await value(session, f"{where}.working.keys") == {"plain": 1}
