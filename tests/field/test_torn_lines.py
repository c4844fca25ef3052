"""Cases from the field: a file of lines that ends in the middle, and other files that are not what they should be.

Canonical files are never appended to: each is replaced whole. So nothing can be glued to a torn line; a tail that can
not be read closes its scope, names the line and stays as it is, until somebody repairs it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.hand_stores import HandStore
from kit.runtimes import opened, refused, session_of, value

FIRST = '{"working":{"first":"ü"}}'
# What lies after the first line, and the line that the refusal names.
TORN: dict[str, tuple[bytes, int]] = {
    "in-the-middle-of-a-value": (b'{"working":{"sec', 2),
    "in-the-middle-of-a-character": ('{"working":{"second":"ü'.encode()[:-1], 2),
    "in-the-middle-of-a-number": (b'{"working":{"second":1', 2),
    "zeros-after-a-power-cut": (bytes(64), 2),
    "a-bad-row-in-the-middle": (b'nonsense\n{"working":{"third":1}}\n', 2),
    "two-values-glued-together": (b'{"working":{"a":1}}{"working":{"b":2}}\n', 2),
}


@pytest.mark.parametrize("name", TORN)
async def test_the_field_case_of_a_torn_line_closes_its_scope_before_anything_is_written(
    tmp_path: Path, name: str
) -> None:
    torn, line = TORN[name]
    store = HandStore(tmp_path).write({"working": {"g": 1}})
    store.write_scope("cwd", tail=[(2, {}), (3, {})])
    store.put("cwd", "patches.jsonl", f"{FIRST}\n".encode() + torn)
    before = store.bytes()
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        with refused("E_CORRUPT") as caught:
            await session.patch_state(cwd={"working": {"next": 1}})
        assert caught.value.data["path"] == str(store.path("cwd", "patches.jsonl"))
        assert caught.value.data["line"] == line
        assert await value(session, "global.working.g") == 1
        other = await runtime.open_session("/elsewhere", "s2", "active")
        assert (await other.patch_state(global_={"working": {"next": 1}})).changed
        await runtime.checkpoint()
    after = store.bytes()
    assert after["--project--/patches.jsonl"] == before["--project--/patches.jsonl"]
    # Repaired by hand, it serves again, and the next record is a line of its own.
    store.put("cwd", "patches.jsonl", f'{FIRST}\n{{"working":{{"second":2}}}}\n')
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"working": {"next": 1}})
        assert await value(session, "cwd.working") == {"first": "ü", "second": 2, "next": 1}
    assert len(store.path("cwd", "patches.jsonl").read_bytes().splitlines()) == 3


@pytest.mark.parametrize("end", ["", "\n\n", "\r\n", "\n \n"], ids=["no-newline", "blank-line", "crlf", "spaces"])
async def test_the_field_case_of_a_whole_last_line_with_an_odd_end_is_not_glued_to_the_next(
    tmp_path: Path, end: str
) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("cwd", tail=[(2, {}), (3, {})])
    store.put("cwd", "patches.jsonl", f'{FIRST}\n{{"working":{{"second":2}}}}{end}')
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"working": {"next": 1}})
        assert await value(session, "cwd.working") == {"first": "ü", "second": 2, "next": 1}
    lines = store.get("cwd", "patches.jsonl")
    assert lines[-1] == {"working": {"next": 1}}
    assert lines[-2] == {"working": {"second": 2}}


async def test_the_field_case_of_an_empty_tail_where_lines_should_be_is_refused(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("cwd", tail=[(2, {"working": {"a": 1}})])
    store.put("cwd", "patches.jsonl", b"")
    async with session_of(tmp_path) as session:
        with refused("E_CORRUPT"):
            await session.patch_state(cwd={"working": {"next": 1}})
    assert store.path("cwd", "patches.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", ["checkpoint.json", "meta.json", "config.json", "runtime.json"])
@pytest.mark.parametrize("text", ["[]", '"text"', "7", "null", "true"])
async def test_the_field_case_of_a_file_that_parses_but_is_no_object_fails_closed(
    tmp_path: Path, name: str, text: str
) -> None:
    store = HandStore(tmp_path).write({"working": {"g": 1}})
    store.put("session", name, text + "\n")
    before = store.bytes()
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        for scope in ("session", "global_"):
            with refused("E_CORRUPT", "E_UNSUPPORTED") as caught:
                await session.patch_state(**{scope: {"working": {"next": 1}}})
            assert caught.value.data["path"] == str(store.path("session", name))
        assert await value(session, "global.working.g") == 1
    assert store.bytes() == before
