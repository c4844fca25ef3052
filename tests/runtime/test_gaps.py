"""A process that follows others never takes rows with a gap between them for all that happened (J1)."""

from __future__ import annotations

from pathlib import Path

from kit.holds import holds
from kit.runtimes import opened
from kit.stores import OpenedStore
from strataflow.store import Row


@holds("J1", "Ours-18")
async def test_rows_pruned_from_the_middle_are_read_from_the_files(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    async with opened(root) as idle, opened(root) as busy:
        reader = await idle.open_session("/project", "reader", mode="active")
        kept = await busy.open_session("/project", "kept", mode="active")
        pruned = await busy.open_session("/project", "pruned", mode="active")
        await reader.read_state("effective", fresh=True)
        await kept.patch_state(cwd={"working": {"kept": 1}})
        for number in range(150):
            await pruned.patch_state(global_={"working": {f"n{number}": number}})
        assert (await busy.checkpoint()).pruned_rows >= 40
        found = (await reader.read_state("effective.working", fresh=True)).value
        assert found == {"kept": 1, **{f"n{number}": number for number in range(150)}}
        receipt = await reader.patch_state(global_={"working": {"mine": 1}})
        assert receipt.revision == "g151c1s0"


@holds("J1", "J6")
async def test_a_process_that_missed_a_superseding_reads_the_bytes_that_won(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    async with opened(root, share_with_pi=True) as one, opened(root, share_with_pi=True) as other:
        first = await one.open_session("/project", "first", mode="active")
        second = await other.open_session("/project", "second", mode="active")
        await first.patch_state(global_={"working": {"a": 1}})
        await second.read_state("effective", fresh=True)
        for number in range(3):
            await first.patch_state(session={"working": {"n": number}})
            (root / "checkpoint.json").write_text(f'{{"working":{{"pi":{number}}}}}\n')
            await first.patch_state(session={"working": {"n": -number}})
            await first.patch_state(global_={"working": {"b": number}})
            found = (await second.read_state("global.working", fresh=True)).value
            assert found == {"pi": number, "a": 1, "b": number}
            await second.patch_state(global_={"working": {"c": number}})
            await second.patch_state(global_={"working": {"c": None}})


@holds("J1")
def test_a_row_is_missing_wherever_the_numbers_do_not_follow_each_other(tmp_path: Path) -> None:
    with OpenedStore.open(tmp_path / "state-flow") as store:
        store.set_mode("active")
        for number in range(5):
            store.patch(cwd={"working": {"n": number}})
        rows: list[Row] = store.journal.rows_since(0, 100)
        store.memory.head = 0
        assert store.memory.is_followed_by(rows)
        assert store.memory.is_followed_by([])
        for gone in range(len(rows) - 1):
            assert not store.memory.is_followed_by([*rows[:gone], *rows[gone + 1 :]])
        store.memory.head = rows[-1].seq


@holds("J1", "J6")
def test_the_row_of_a_superseded_scope_stays_among_the_newest(tmp_path: Path) -> None:
    root = tmp_path / "state-flow"
    with OpenedStore.open(root) as store:
        store.patch(global_={"working": {"ours": 1}})
        store.checkpoint()
        (root / "checkpoint.json").write_text('{"working":{"theirs":1}}\n')
        store.patch(global_={"working": {"ours": 2}})
        assert store.checkpoint().superseded == ("",)
        store.follow()
        store.session()
        store.patch(cwd={"working": {"later": 1}})
        store.checkpoint()
        assert [row.kind for row in store.journal.rows_since(0, 100)].count("superseded") == 1
