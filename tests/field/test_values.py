"""Cases from the field: values of every kind are kept exactly, or refused by name before anything else runs."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import math
import struct
import uuid
from pathlib import Path
from typing import Any

import pytest

from kit.hand_stores import HandStore
from kit.runtimes import opened, refused, session_of, value
from strataflow import ReadError, StrataflowError


class Float64(float):
    """As the scalars of an array library: it behaves as a float and is none."""


class Int64:
    """As above; not even a subclass."""

    def __index__(self) -> int:
        return 7

    def __int__(self) -> int:
        return 7


class Choice(str, enum.Enum):  # noqa: UP042 the plain form is what people have
    ONE = "one"


def nested(depth: int) -> Any:
    found: Any = "bottom"
    for _ in range(depth):
        found = {"k": found}
    return found


REFUSED: dict[str, Any] = {
    "two-to-the-64": 2**64,
    "id-as-an-integer": uuid.UUID(int=2**127 + 1, version=4).int,
    "not-a-number": math.nan,
    "infinity": math.inf,
    "negative-infinity": -math.inf,
    "bytes": b"text",
    "date": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "decimal": decimal.Decimal("1.10"),
    "set": {1, 2},
    "frozen-set": frozenset({1}),
    "tuple": (1, 2),
    "float-of-an-array-library": Float64(1.5),
    "integer-of-an-array-library": Int64(),
    "enumeration": Choice.ONE,
    "ordered-dictionary": collections.OrderedDict(a=1),
    "lone-surrogate": "\ud800",
    "lone-surrogate-as-a-key": {"\udfff": 1},
    "number-as-a-key": {1: "one"},
    "depth-250": nested(250),
    "generator": (number for number in (1, 2)),
}
EXACT: dict[str, Any] = {
    "largest-integer": 2**63 - 1,
    "smallest-integer": -(2**63) + 1,
    "negative-zero": -0.0,
    "small-float": 5e-324,
    "float-that-is-whole": 1.0,
    "nul": "a\0b",
    "line-separators": "a\u2028b\u2029c\x85d\r\ne",
    "emoji": "\U0001f600\u200d",
    "one-name-in-two-forms": {"é": 1, "e\u0301": 2},
    "depth-150": nested(150),
    "nothing-in-it": {"list": [], "text": "", "zero": 0, "false": False},
    "one-and-true": [1, True, 1.0, "1"],
}


@pytest.mark.parametrize("name", REFUSED)
async def test_the_field_case_of_a_value_that_is_no_json_is_refused_by_name(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path / "state-flow") as runtime:
        session = await runtime.open_session("/project", "main", "active")
        await session.patch_state(cwd={"working": {"before": 1}})
        rows = runtime._world.journal.view(0).head
        with refused("E_JSON", "E_SHAPE") as caught:
            await session.patch_state(global_={"working": {"good": 1}}, cwd={"working": {"list": [0, REFUSED[name]]}})
        assert caught.value.data["pointer"].startswith("/cwd/working/list/1")
        assert len(str(caught.value)) < 600
        assert runtime._world.journal.view(0).head == rows
        assert await value(session, "global") == {}
        assert await value(session, "cwd.working") == {"before": 1}


@pytest.mark.parametrize("name", EXACT)
async def test_the_field_case_of_an_odd_value_is_the_same_after_files_and_a_restart(tmp_path: Path, name: str) -> None:
    given = EXACT[name]
    async with session_of(tmp_path / "state-flow") as session:
        await session.patch_state(cwd={"working": {"given": given}})
        assert exact(await value(session, "cwd.working.given")) == exact(given)
    for path in (tmp_path / "state-flow/.strataflow").glob("journal*"):
        path.unlink()
    async with session_of(tmp_path / "state-flow", mode="passive") as session:
        assert exact(await value(session, "cwd.working.given")) == exact(given)


def exact(found: Any) -> Any:
    """A value in which 1, 1.0 and True differ, and so do the two zeros."""
    if type(found) is dict:
        return {key: exact(item) for key, item in found.items()}
    if type(found) is list:
        return [exact(item) for item in found]
    return (type(found).__name__, struct.pack("<d", found) if type(found) is float else found)


@pytest.mark.parametrize(
    "text",
    [
        '{"working":{"a":123456789012345678901234567890}}',
        '{"working":{"a":1,"a":2}}',
        '{"working":{"a":NaN}}',
        '{"working":{"a":1e999}}',
        '{"working":{"a":"\\ud800"}}',
        '{"working":' + '{"a":' * 250 + "1" + "}" * 251,
    ],
    ids=["30-digits", "duplicate-keys", "nan", "too-large", "lone-surrogate", "depth-250"],
)
async def test_the_field_case_of_one_poisoned_stored_value_is_reported_and_blocks_nothing_else(
    tmp_path: Path, text: str
) -> None:
    store = HandStore(tmp_path).write({"working": {"g": 1}}, session={"working": {"s": 1}})
    path = store.put("cwd", "checkpoint.json", text + "\n")
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        with refused("E_CORRUPT") as caught:
            await value(session, "cwd.working.a")
        assert caught.value.data["path"] == str(path)
        assert len(str(caught.value)) < 700
        assert await value(session, "global.working.g") == 1
        assert await value(session, "session.working.s") == 1
        other = await runtime.open_session("/elsewhere", "s2", "active")
        assert (await other.patch_state(global_={"working": {"next": 1}})).changed


async def test_the_field_case_of_an_error_text_that_is_stored_again_and_again_does_not_grow(tmp_path: Path) -> None:
    """What an agent stores of an error must not make the next error longer."""
    async with session_of(tmp_path / "state-flow") as session:
        text = "\ud800" + "x" * 100_000
        lengths = []
        for _ in range(20):
            calls = (
                lambda text=text: session.patch_state(cwd={"working": {"a": "\ud800" + text, text: 1}}),
                lambda text=text: session.patch_state(cwd={text: {}}),
                lambda text=text: session.read_state(f"cwd.working.{text}"),
                lambda text=text: session.patch_state(cwd={"working": {"list": {f"[{text}]": 1}}}, global_={text: 1}),
            )
            for call in calls:
                try:
                    await call()
                except (StrataflowError, ReadError) as error:
                    text = str(error) + json.dumps(error.data, default=str)
                    lengths.append(len(str(error)))
        assert len(lengths) >= 60
        assert max(lengths) < 1_500
