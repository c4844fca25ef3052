"""History: limits, offsets, folding, floors, other writers (store 3.6, cases 74 to 84, Ours-4, Ours-15, Ours-16)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from kit.hand_stores import HandStore
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, value, values
from kit.stores import OpenedStore
from strataflow.runtime import Session
from strataflow.store import Draft


async def count_up(session: Session, times: int, first: int = 1, **scope: str) -> None:
    """Transitions T1, T2, … of the session scope, or of another: ``working.n`` counts."""
    name = scope.get("scope", "session")
    for number in range(first, first + times):
        await session.patch_state(**{name: {"working": {"n": number}}})


async def seen(session: Session, offset: int, scope: str = "session") -> Any:
    """``working.n`` at an offset; None at the origin."""
    return (await value(session, f"{scope}[{offset}]")).get("working", {}).get("n")


async def record(session: Session, path: str, projection: Literal["value", "patch"] = "value") -> Any:
    """The patch that a read answers with."""
    return (await session.read_state(path, projection=projection)).to_json()["patch"]


@holds("case store 74", "case store 75", "store 3.6.1", "store 3.6.2", "store 3.6.4", "Ours-4", "T41")
@pytest.mark.parametrize("times", [8, 40])
async def test_offsets_read_every_state_that_the_limit_leaves_visible(tmp_path: Path, times: int) -> None:
    store = HandStore(tmp_path)
    async with opened(tmp_path) as runtime:
        session = await runtime.open_session("/project", "s1", "active")
        await count_up(session, times)
        for _ in range(2):
            assert [await seen(session, offset) for offset in range(8)] == list(range(times, times - 8, -1))
            assert [await record(session, f"session.patches[{k}]") for k in range(7)] == [
                {"working": {"n": number}} for number in range(times, times - 7, -1)
            ]
            with refused("E_HISTORY_RANGE") as caught:
                await session.read_state("session[8]")
            assert "0 to 7" in caught.value.message
            await runtime.checkpoint()
        assert (await session.status())["revision"] == f"g0c0s{times}"
    # On disk the tail may be longer, but never longer than the format allows, and what a limit hid is folded.
    lines = store.get("session", "patches.jsonl")
    assert 7 <= len(lines) <= 100
    assert lines[-7:] == [{"working": {"n": number}} for number in range(times - 6, times + 1)]
    assert store.get("session", "meta.json")["temporal"]["revision"] == times
    assert len(store.get("session", "runtime.json")["lineage"]) == 8


@holds("case store 76", "store 3.6.3", "store 3.6.5", "Ours-16", "case agent 18")
async def test_at_limit_zero_only_the_present_exists(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path, history_limit=0) as session:
        await count_up(session, 2)
        assert await seen(session, 0) == 2
        with refused("E_HISTORY_RANGE") as caught:
            await session.read_state("session[1]")
        assert "0 to 0" in caught.value.message
        with refused("E_HISTORY_ORIGIN"):
            await session.read_state("session", projection="patch")
        with refused("E_HISTORY_ORIGIN", "E_HISTORY_RANGE"):
            await session.read_state("session.patches[0]")
    assert store.get("session", "patches.jsonl") == []
    assert len(store.get("session", "runtime.json")["lineage"]) == 1
    async with session_of(tmp_path) as session:
        with refused("E_HISTORY_ORIGIN"):
            await session.read_state("session[1]")


@holds("case store 77", "store 3.6.5")
async def test_at_limit_three_the_fourth_offset_is_out_of_range(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path, history_limit=3) as session:
        await count_up(session, 6)
        assert [await seen(session, offset) for offset in range(4)] == [6, 5, 4, 3]
        with refused("E_HISTORY_RANGE"):
            await session.read_state("session[4]")
        assert (await session.status())["history_depth"] == 3
    assert len(store.get("session", "runtime.json")["lineage"]) == 4


@holds("case store 78", "store 3.6.4", "T42")
async def test_a_scope_that_did_not_change_reads_the_same_at_several_offsets(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"working": {"t": 182}}, session={"working": {"t": 182}})
        await session.patch_state(global_={"working": {"t": 183}}, session={"working": {"t": 183}})
        receipt = await session.patch_state(cwd={"working": {"t": 184}}, session={"working": {"t": 184}})
        assert await values(session, "cwd.working.t", "cwd[1].working.t", "cwd[2].working.t") == [184, 182, 182]
        assert receipt.revision == "g1c2s3"


@holds("case store 79", "store 3.6.5", "case agent 17", "T41")
async def test_without_history_the_first_offset_predates_the_origin(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        with refused("E_HISTORY_ORIGIN"):
            await session.read_state("effective[1]")
        with refused("E_HISTORY_RANGE"):
            await session.read_state("effective[8]")
        for path in ("effective[-1]", "effective[1.5]"):
            with refused("E_PATH"):
                await session.read_state(path)


@holds("case store 80", "store 3.6.7", "Ours-4", "J12")
async def test_a_lowered_limit_hides_for_ever_and_a_raised_one_brings_nothing_back(tmp_path: Path) -> None:
    async with session_of(tmp_path, history_limit=12) as session:
        await count_up(session, 12)
    async with session_of(tmp_path, history_limit=1) as session:
        # Opening and reading moves no floor; an accepted change does.
        assert [await seen(session, 0), await seen(session, 1)] == [12, 11]
    async with session_of(tmp_path, history_limit=12) as session:
        assert [await seen(session, offset) for offset in (0, 5, 11)] == [12, 7, 1]
    async with session_of(tmp_path, history_limit=1) as session:
        await count_up(session, 1, 13)
    async with session_of(tmp_path, history_limit=12) as session:
        assert [await seen(session, 0), await seen(session, 1)] == [13, 12]
        with refused("E_HISTORY_ORIGIN"):
            await session.read_state("session[2]")
        assert (await session.status())["revision"] == "g0c0s13"
        await count_up(session, 1, 14)
        assert [await seen(session, offset) for offset in (0, 1, 2)] == [14, 13, 12]
    assert len(HandStore(tmp_path).get("session", "patches.jsonl")) <= 100


@holds("case store 81", "store 3.6.12", "P21", "case agent 73", "Ours-3")
def test_work_staged_before_a_value_went_away_and_came_back_is_refused(tmp_path: Path) -> None:
    with OpenedStore.open(tmp_path) as store, OpenedStore.open(tmp_path, "writer-2", session_id="other") as other:
        store.patch(cwd={"working": {"v": "A"}})
        store.follow()
        draft = Draft(store.memory, "power", 1, store.new_id)
        draft.stage_patch(store.default, {"cwd": {"working": {"w": 1}}})
        other.patch(cwd={"working": {"v": "B"}})
        other.patch(cwd={"working": {"v": "A"}})
        assert store.journal.append(draft.rows, head=store.memory.head) == "moved"
        store.follow()
        assert store.read("cwd.working") == {"v": "A"}
        assert store.read("cwd[1].working.v") == "B"


@holds("case store 83", "store 3.2.4", "store 6.2.6", "store 3.6.11", "Ours-15", "Ours-1")
async def test_a_stream_of_unknown_order_begins_history_anew(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path) as session:
        await count_up(session, 3, scope="global_")
    store.put("global", "patches.jsonl", '{"working":{"n":1}}\n{"working":{"n":2}}\n{"working":{"n":"foreign"}}\n')
    async with session_of(tmp_path) as session:
        status = await session.status()
        assert (status["revision"], status["history_depth"], status["step"]) == ("g3c0s0", 0, 3)
        assert await value(session, "global.working.n") == "foreign"
        with refused("E_HISTORY_ORIGIN"):
            await session.read_state("effective[1]")
        # Lines from before are still readable as records of their scope.
        assert await record(session, "global.patches[1]") == {"working": {"n": 2}}
        await count_up(session, 1, 7)
        assert await values(session, "effective[1].working.n", "effective.working.n") == ["foreign", 7]


@holds("case store 84", "store 3.6.6", "T43", "Ours-4", "Ours-9")
async def test_a_record_that_is_not_retained_is_told_from_one_out_of_range(tmp_path: Path) -> None:
    limit = 3
    async with session_of(tmp_path, history_limit=limit) as session:
        await count_up(session, limit + 1)
        assert await record(session, f"session.patches[{limit - 1}]") == {"working": {"n": 2}}
        with refused("E_HISTORY_ORIGIN"):
            await session.read_state(f"session.patches[{limit}]")
        with refused("E_HISTORY_RANGE"):
            await session.read_state(f"session.patches[{limit + 1}]")


@holds("Ours-15", "store 3.6.4", "store 1.7.2", "store 3.6.11")
async def test_history_goes_on_across_other_writers(tmp_path: Path) -> None:
    async with opened(tmp_path) as one, opened(tmp_path) as two:
        a = await one.open_session("/project", "a", "active")
        b = await two.open_session("/project", "b", "active")
        await a.patch_state(global_={"working": {"n": 1}}, session={"working": {"own": 1}})
        await b.patch_state(cwd={"working": {"n": 2}})
        await b.patch_state(session={"working": {"b": "private"}})
        await a.patch_state(session={"working": {"own": 2}})
        assert (await a.status())["step"] == 2
        assert await values(a, "effective[1].working", "effective[2].working", "effective[3]") == [
            {"n": 2, "own": 1},
            {"n": 1, "own": 1},
            {},
        ]
        assert (await b.status())["step"] == 2
    runtime = HandStore(tmp_path, session="a").get("session", "runtime.json")
    # A private change of the other stands in between, so only the end of the lineage is legal for Pi.
    positions = [entry["position"] for entry in runtime["lineage"]]
    assert positions == list(range(positions[0], positions[-1] + 1))
    assert runtime["lineage"][-1]["parent"] is not None
    async with session_of(tmp_path, "a", mode=None) as a:
        assert await values(a, "effective[2].working", "effective[3]") == [{"n": 1, "own": 1}, {}]


@holds("store 3.6.11", "Ours-15", "T16")
async def test_modes_restarts_and_no_ops_leave_history_as_it_is(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await count_up(session, 3)
    for mode in ("passive", "active"):
        async with session_of(tmp_path, mode=mode) as session:
            await session.patch_state(session={"working": {"n": 3}})
            assert [await seen(session, offset) for offset in range(4)] == [3, 2, 1, None]


@holds("Ours-16", "T52", "case agent 19", "case agent 22", "case agent 23")
async def test_what_is_not_retained_never_looks_empty(tmp_path: Path) -> None:
    async with session_of(tmp_path, history_limit=2) as session:
        origin = await session.read_state("effective", projection="patch")
        assert origin.to_json() == {"patch": {}}
        await count_up(session, 4)
        await session.patch_state(cwd={"working": {"c": 1}})
        assert await record(session, "session[1]", "patch") == {"working": {"n": 4}}
        # The oldest retained boundary: the scope still knows its record, the overlay does not know what was before.
        assert await record(session, "session[2]", "patch") == {"working": {"n": 3}}
        for path in ("effective[2]", "cwd[2]"):
            with refused("E_HISTORY_ORIGIN"):
                await session.read_state(path, projection="patch")


@holds("case agent 16", "case agent 24", "case agent 25", "T54", "T55", "P23")
async def test_history_reads_the_same_after_a_restart(tmp_path: Path) -> None:
    async with session_of(tmp_path) as session:
        await session.accept_response("Old")
        await session.accept_response("")
        await session.patch_state(cwd={"working": {"memory": ["a", "b"]}})
        await session.patch_state(cwd={"working": {"memory": {"[1]": "B"}}})
        before = [await session.call("read_state", {"path": f"effective[{n}]", "projection": p}) for n, p in HISTORY]
    async with session_of(tmp_path) as session:
        after = [await session.call("read_state", {"path": f"effective[{n}]", "projection": p}) for n, p in HISTORY]
        assert after == before
        assert await values(session, "session.response", "session[3].response") == [None, "Old"]
        patch = await session.read_state(paths=["effective[2].response", "cwd.working.memory[0:1]"], projection="patch")
        assert patch.to_json() == {"patch": [None, ["a"]]}


HISTORY = [(n, projection) for n in range(5) for projection in ("value", "patch")]


@holds("store 3.6.9", "Ours-15", "store 1.5.4")
async def test_no_position_ever_means_two_boundaries(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    # Another writer's session stands far ahead of what its scopes say.
    head = {"id": "start:x", "parent": None, "position": 40}
    store.edit("session", "runtime.json", lineage=[head])
    async with session_of(tmp_path) as session:
        await session.patch_state(global_={"working": {"a": 1}}, session={"working": {"a": 1}})
        second = await session.patch_state(session={"working": {"a": 2}})
        assert await values(session, "effective[2]", "effective[1].working.a") == [{}, 1]
    tail = store.get("session", "meta.json")["temporal"]["patches"]
    assert [entry["position"] for entry in tail] == [41, 42]
    assert [entry["parent"] for entry in tail] == ["start:x", tail[0]["id"]]
    assert tail[1]["id"] == second.transition_id
