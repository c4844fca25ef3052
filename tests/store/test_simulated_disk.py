"""What a simulated disk loses, keeps and tears, rule by rule; see ``runtime/simulation/inodes.py``."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.conformance_disk import refused
from strataflow.runtime.simulation import PowerCut, SimulatedDisk
from strataflow.runtime.simulation.inodes import FailedSync

ROOT = "/s"


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.plant(ROOT)
    return disk


def test_synced_content_under_a_synced_name_survives_every_cut() -> None:
    disk = new_disk()
    disk.write_new(f"{ROOT}/a", b"safe" * 300)
    disk.sync_file(f"{ROOT}/a")
    disk.sync_folder(ROOT)
    disk.append(f"{ROOT}/a", b"risky" * 300)
    lengths = set()
    for seed in range(100):
        content = disk.crash("torn", seed).read(f"{ROOT}/a")
        assert content is not None
        assert content.startswith(b"safe" * 300)
        lengths.add(len(content))
    assert {1200, 1536, 2048, 2560, 2700} <= lengths


def test_a_name_that_was_not_synced_may_come_or_go() -> None:
    disk = new_disk()
    disk.write_new(f"{ROOT}/a", b"x")
    disk.sync_file(f"{ROOT}/a")
    assert disk.crash("lose").read(f"{ROOT}/a") is None
    assert disk.crash("keep").read(f"{ROOT}/a") == b"x"
    assert {disk.crash("torn", seed).read(f"{ROOT}/a") for seed in range(40)} == {None, b"x"}


def test_a_rename_may_survive_without_the_content_of_its_file() -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/a", "file", b"old")
    disk.write_new(f"{ROOT}/tmp", b"new")
    disk.rename(f"{ROOT}/tmp", f"{ROOT}/a")
    found = {disk.crash("torn", seed).read(f"{ROOT}/a") for seed in range(80)}
    assert found == {b"old", b"new", b"", b"\0\0\0"}


def test_a_rename_of_synced_content_gives_old_or_new() -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/a", "file", b"old")
    disk.write_new(f"{ROOT}/tmp", b"new")
    disk.sync_file(f"{ROOT}/tmp")
    disk.rename(f"{ROOT}/tmp", f"{ROOT}/a")
    assert {disk.crash("torn", seed).read(f"{ROOT}/a") for seed in range(40)} == {b"old", b"new"}
    disk.sync_folder(ROOT)
    assert {disk.crash("torn", seed).read(f"{ROOT}/a") for seed in range(40)} == {b"new"}


def test_a_rename_between_folders_leaves_one_or_both_names() -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/from/a", "file", b"x")
    disk.plant(f"{ROOT}/to")
    disk.rename(f"{ROOT}/from/a", f"{ROOT}/to/a")
    found = {tuple(sorted(disk.crash("torn", seed).contents())) for seed in range(60)}
    assert found == {(f"{ROOT}/from/a",), (f"{ROOT}/to/a",), (f"{ROOT}/from/a", f"{ROOT}/to/a")}
    disk.sync_folder(f"{ROOT}/from")  # the removal is durable only with the new name
    assert set(disk.crash("lose").contents()) == {f"{ROOT}/to/a"}


def test_names_that_do_not_rest_on_each_other_survive_in_any_combination() -> None:
    disk = new_disk()
    for name in "abc":
        disk.write_new(f"{ROOT}/{name}", b"")
    found = {"".join(disk.crash("torn", seed).list(ROOT) or []) for seed in range(200)}
    assert found == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_changes_of_one_name_or_one_file_survive_in_their_order() -> None:
    disk = new_disk()
    disk.write_new(f"{ROOT}/a", b"")
    disk.link(f"{ROOT}/a", f"{ROOT}/b")
    disk.unlink(f"{ROOT}/a")
    disk.write_new(f"{ROOT}/a", b"")
    found = {"".join(disk.crash("torn", seed).list(ROOT) or []) for seed in range(400)}
    assert found == {"", "a", "ab", "b"}
    second = {disk.crash("torn", seed).identity(f"{ROOT}/a") == disk.identity(f"{ROOT}/a") for seed in range(100)}
    assert second == {True, False}


def test_content_and_names_of_different_things_survive_in_any_order() -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/log", "file", b"")
    disk.append(f"{ROOT}/log", b"first")
    disk.write_new(f"{ROOT}/then", b"")
    found = {tuple(sorted(disk.crash("torn", seed).contents().items())) for seed in range(300)}
    assert {len(files) for files in found} == {1, 2}
    for number in (1, 2):
        assert {dict(files)[f"{ROOT}/log"] for files in found if len(files) == number} >= {b"", b"first", bytes(5)}


def test_an_append_may_arrive_without_its_length_or_its_length_without_it() -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/a", "file", b"safe")
    disk.append(f"{ROOT}/a", b"one")
    disk.append(f"{ROOT}/a", b"two")
    found = {disk.crash("torn", seed).read(f"{ROOT}/a") for seed in range(400)}
    assert {b"safe", b"safeone", b"safeonetwo", b"safe" + bytes(3), b"safe" + bytes(6)} <= found


def test_a_block_that_did_not_arrive_may_show_bytes_of_another_file() -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/a", "file", b"safe")
    disk.append(f"{ROOT}/a", b"A" * 600)
    odd = 0
    for seed in range(300):
        content = disk.crash("torn", seed).read(f"{ROOT}/a") or b""
        assert content.startswith(b"safe")
        odd += not set(content[4:]) <= set(b"A\0")
    assert 10 < odd < 100


def test_a_removed_file_may_come_back_with_its_content() -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/a", "file", b"x")
    disk.unlink(f"{ROOT}/a")
    assert disk.crash("lose").read(f"{ROOT}/a") == b"x"
    disk.sync_folder(ROOT)
    assert disk.crash("lose").read(f"{ROOT}/a") is None


def test_a_folder_that_was_not_synced_above_is_lost_with_all_in_it() -> None:
    disk = new_disk()
    disk.make_folder(f"{ROOT}/f")
    disk.write_new(f"{ROOT}/f/a", b"x")
    disk.sync_file(f"{ROOT}/f/a")
    disk.sync_folder(f"{ROOT}/f")
    assert disk.crash("lose").list(ROOT) == []


def test_a_cut_stops_the_machine_before_the_planned_operation() -> None:
    disk = new_disk()
    disk.cut_power_before(2)
    disk.write_new(f"{ROOT}/a", b"x")
    with pytest.raises(PowerCut):
        disk.write_new(f"{ROOT}/b", b"x")
    with pytest.raises(PowerCut):  # what a dying program does in its clean-up changes nothing
        disk.unlink(f"{ROOT}/a")
    assert disk.crash("keep").list(ROOT) == ["a"]


def test_a_planned_fault_is_refused_and_changes_nothing() -> None:
    disk = new_disk()
    for number, code in ((1, errno.ENOSPC), (2, errno.EACCES), (3, errno.EIO)):
        disk.fail_operation(number, code)
        with refused("E_DISK", f"{ROOT}/a") as caught:
            disk.append(f"{ROOT}/a", b"x")
        assert caught.value.data["errno"] == errno.errorcode[code]
    disk.append(f"{ROOT}/a", b"x")
    assert (disk.operations, disk.read(f"{ROOT}/a")) == (4, b"x")


def test_the_hook_sees_each_operation_and_may_refuse_it() -> None:
    disk = new_disk()
    seen: list[tuple[str, str]] = []

    def hook(name: str, path: str) -> None:
        seen.append((name, path))
        if name == "unlink":
            raise OSError(errno.EROFS, "read-only")

    disk.before_operation = hook
    disk.write_new(f"{ROOT}/a", b"")
    disk.rename(f"{ROOT}/a", f"{ROOT}/b")
    with refused("E_DISK", f"{ROOT}/b"):
        disk.unlink(f"{ROOT}/b")
    assert seen == [("write_new", f"{ROOT}/a"), ("rename", f"{ROOT}/b"), ("unlink", f"{ROOT}/b")]


def test_what_a_failed_sync_should_have_saved_stays_at_risk() -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/a", "file", b"safe")
    disk.append(f"{ROOT}/a", b"doomed")
    disk.fail_operation(disk.operations + 1, errno.EIO)
    with refused("E_DISK", f"{ROOT}/a"):
        disk.sync_file(f"{ROOT}/a")
    disk.append(f"{ROOT}/a", b"later")
    disk.sync_file(f"{ROOT}/a")
    assert disk.crash("lose").read(f"{ROOT}/a") == b"safe" + bytes(6) + b"later"
    assert disk.crash("keep").read(f"{ROOT}/a") == b"safedoomedlater"


@pytest.mark.parametrize(
    "leaves, seen", [("stays", b"safedoomed"), ("reverts", b"safe"), ("zeros", b"safe" + bytes(6))]
)
def test_what_is_read_after_a_failed_sync_differs_between_systems(leaves: FailedSync, seen: bytes) -> None:
    disk = new_disk()
    disk.failed_sync = leaves
    disk.plant(f"{ROOT}/a", "file", b"safe")
    disk.append(f"{ROOT}/a", b"doomed")
    disk.fail_operation(disk.operations + 1, errno.EIO)
    with refused("E_DISK", f"{ROOT}/a"):
        disk.sync_file(f"{ROOT}/a")
    assert disk.read(f"{ROOT}/a") == seen
    disk.append(f"{ROOT}/a", b"later")
    disk.sync_file(f"{ROOT}/a")
    assert disk.crash("keep").read(f"{ROOT}/a") == seen + b"later"
    for seed in range(40):
        found = disk.crash("torn", seed).read(f"{ROOT}/a") or b""
        assert found.startswith(b"safe")
        assert found.endswith(b"later")
        assert len(found) == len(seen) + 5


def test_a_failed_sync_of_a_folder_leaves_its_names_at_risk_until_one_succeeds() -> None:
    disk = new_disk()
    disk.write_new(f"{ROOT}/a", b"")
    disk.fail_operation(disk.operations + 1, errno.EIO)
    with refused("E_DISK", ROOT):
        disk.sync_folder(ROOT)
    assert disk.crash("lose").list(ROOT) == []
    disk.sync_folder(ROOT)
    assert disk.crash("lose").list(ROOT) == ["a"]


def test_a_disk_that_went_read_only_is_read_and_takes_no_change() -> None:
    disk = new_disk()
    disk.write_new(f"{ROOT}/a", b"x")
    disk.is_read_only = True
    for call in (lambda: disk.append(f"{ROOT}/a", b"y"), lambda: disk.unlink(f"{ROOT}/a")):
        with refused("E_DISK", f"{ROOT}/a") as caught:
            call()
        assert caught.value.data["errno"] == "EROFS"
    assert (disk.read(f"{ROOT}/a"), disk.list(ROOT)) == (b"x", ["a"])
    disk.is_read_only = False
    disk.append(f"{ROOT}/a", b"y")


def test_a_twin_has_all_that_is_at_risk_and_a_future_of_its_own() -> None:
    disk = new_disk()
    disk.write_new(f"{ROOT}/a", b"first")
    twin = disk.twin()
    twin.append(f"{ROOT}/a", b"second")
    disk.sync_file(f"{ROOT}/a")
    disk.sync_folder(ROOT)
    assert (disk.read(f"{ROOT}/a"), twin.read(f"{ROOT}/a")) == (b"first", b"firstsecond")
    assert disk.crash("lose").contents() == {f"{ROOT}/a": b"first"}
    assert twin.crash("lose").contents() == {}


def test_what_no_name_can_ever_lead_to_again_is_not_kept() -> None:
    disk = new_disk()
    for number in range(50):
        disk.make_folder(f"{ROOT}/f{number}")
        disk.write_new(f"{ROOT}/f{number}/new", b"x" * 100)
        disk.rename(f"{ROOT}/f{number}/new", f"{ROOT}/a")
        disk.remove_folder(f"{ROOT}/f{number}")
        disk.sync_folder(ROOT)
    assert len(disk._files.inodes) < 6
    assert not disk._files.pending


@pytest.mark.parametrize("room", range(11))
def test_a_full_disk_refuses_at_every_byte(room: int) -> None:
    disk = new_disk()
    disk.plant(f"{ROOT}/log", "file", b"12345")
    disk.capacity_bytes = 5 + room
    with refused("E_DISK", f"{ROOT}/a") as caught:
        disk.write_new(f"{ROOT}/a", b"0123456789+")
    assert caught.value.data["errno"] == "ENOSPC"
    assert disk.list(ROOT) == ["log"]
    with refused("E_DISK", f"{ROOT}/log"):
        disk.append(f"{ROOT}/log", b"0123456789+")
    assert disk.read(f"{ROOT}/log") == b"12345" + b"0123456789+"[:room]
    disk.capacity_bytes = None
    disk.write_new(f"{ROOT}/a", b"0123456789+")


def test_the_same_seed_gives_the_same_fate() -> None:
    def fate(seed: int) -> dict[str, bytes]:
        disk = SimulatedDisk(seed)
        disk.plant(ROOT)
        for name in "abcdef":
            disk.write_new(f"{ROOT}/{name}", name.encode() * 2000)
        return disk.crash().contents()

    assert [fate(seed) for seed in range(5)] == [fate(seed) for seed in range(5)]
    assert fate(1) != fate(2)


STEPS = st.lists(
    st.tuples(st.sampled_from("append sync_file sync_folder rename unlink".split()), st.sampled_from("ab")), max_size=25
)


@given(steps=STEPS, seed=st.integers(0, 2**32))
@settings(max_examples=200, print_blob=True)
def test_a_cut_touches_only_what_was_not_synced(steps: list[tuple[str, str]], seed: int) -> None:
    """Each file's content is its synced part, then blocks in the place they had: as written, zeros or a stranger's."""
    disk = new_disk()
    written: dict[int, bytes] = {}
    synced: dict[int, int] = {}
    for number, (step, name) in enumerate(steps):
        path = f"{ROOT}/{name}"
        found = disk.stat(path)
        if step == "append":
            disk.append(path, bytes([65 + number]) * 700)
        elif step == "sync_folder":
            disk.sync_folder(ROOT)
        elif found is None:
            continue
        elif step == "sync_file":
            disk.sync_file(path)
            synced[found.inode] = found.size_bytes
        elif step == "rename":
            disk.rename(path, f"{ROOT}/{'b' if name == 'a' else 'a'}")
        else:
            disk.unlink(path)
        if (after := disk.stat(path)) is not None:
            written[after.inode] = disk.read(path) or b""
    names_before = disk.list(ROOT)
    after_cut = disk.crash("torn", seed)
    for name in after_cut.list(ROOT) or []:
        stat, content = after_cut.stat(f"{ROOT}/{name}"), after_cut.read(f"{ROOT}/{name}")
        assert stat is not None
        assert content is not None
        whole, safe = written[stat.inode], synced.get(stat.inode, 0)
        assert content[:safe] == whole[:safe]
        assert safe <= len(content) <= len(whole)
        for start in range(0, len(content), 512):
            fresh = slice(max(start, safe), max(safe, min(start + 512, len(content))))
            is_ours = set(content[fresh]) <= set(whole) | {0}
            assert content[fresh] in (whole[fresh], bytes(len(whole[fresh]))) or not is_ours
    if steps and steps[-1][0] == "sync_folder":
        assert after_cut.list(ROOT) == names_before
    assert after_cut.crash("lose").contents() == after_cut.contents()
