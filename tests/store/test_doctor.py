"""The doctor: what it says of sound and of damaged stores, and that it changes nothing."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from kit.holds import holds
from kit.stores import KnownProcesses, OpenedStore, all_bytes, as_stranger, reachable_folder, reader_of
from strataflow.store import Disk, RealDisk
from strataflow.store.doctor import Diagnosis, diagnose

PRIVATE = ".strataflow"
PI_LOCK = ".state-flow-publication.lock"
CWD, SESSION = "--project--", "--project--/main"
ORIGINALS = Path(__file__).parents[1] / "conformance" / "stores"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state-flow"


@pytest.fixture
def filled(root: Path) -> Path:
    """A closed store in which all three scopes hold something."""
    with OpenedStore.open(root) as store:
        store.set_mode("active")
        store.patch(global_={"contract": {"c": 1}}, cwd={"working": {"n": 1}}, session={"intents": {"i": "x"}})
        store.respond("Done.")
    return root


def examine(root: Path, table: KnownProcesses | None = None, disk: Disk | None = None) -> Diagnosis:
    """A diagnosis in which no kernel lock is held; nothing may change by it."""
    reader = reader_of(root, root.parent / "scratch", table)
    ground = attrs.evolve(reader.ground, disk=disk or reader.ground.disk)
    before = all_bytes(root)
    found = diagnose(ground, reader.journal, lambda _device, _inode: None)
    after = all_bytes(root)
    assert {name for name in after if after[name] != before.get(name)} <= {f"{PRIVATE}/journal.db-shm"}
    assert json.loads(json.dumps(found.to_json()))["clean"] is found.is_clean
    assert len(found.lines()) == len(found.findings) + 1
    return found


def worse_than_notes(found: Diagnosis) -> list[str]:
    return sorted(item.code for item in found.findings if item.severity in ("warning", "problem"))


# -- sound stores -----------------------------------------------------------------------------------------------


def test_a_store_that_does_not_exist_is_clean(root: Path) -> None:
    found = examine(root)
    assert found.is_clean
    assert [item.code for item in found.findings] == ["store"]


def test_a_closed_store_is_clean_without_even_a_note(filled: Path) -> None:
    found = examine(filled)
    assert {item.severity for item in found.findings} == {"ok"}
    assert found.of("scopes")[0].words.startswith("3 scopes")
    assert found.lines()[-1].endswith("nothing is wrong")


def test_an_open_store_is_clean_and_names_who_has_it_open(filled: Path) -> None:
    with OpenedStore.open(filled) as store:
        store.patch(cwd={"working": {"n": 2}})
        found = examine(filled)
    assert found.is_clean
    assert len(found.of("open")) == 1
    assert "keeps Pi out" in found.of("pi-lock")[0].words
    assert "1 change wait" in found.of("rows-waiting")[0].words


@pytest.mark.parametrize("name", sorted(path.name for path in ORIGINALS.iterdir() if path.is_dir()))
def test_a_store_of_the_original_program_is_clean(name: str, root: Path) -> None:
    shutil.copytree(ORIGINALS / name, root)
    found = examine(root)
    assert worse_than_notes(found) == []
    assert found.of("scopes")[0].words.startswith("3 scopes")


def test_many_sessions_and_folded_histories_are_clean(root: Path) -> None:
    with OpenedStore.open(root, history_limit=2) as store:
        addresses = [store.session(name, cwd) for name in ("a", "b") for cwd in ("/project", "/other")]
        for number in range(5):
            for address in addresses:
                store.patch(address, global_={"working": {"n": number}}, session={"working": {address.key: number}})
            store.checkpoint()
        assert examine(root).is_clean
    assert examine(root).is_clean


# -- files ------------------------------------------------------------------------------------------------------


def replace(name: str, data: bytes) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        (root / name).write_bytes(data)

    return act


def remove(*names: str) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        for name in names:
            (root / name).unlink()

    return act


def link(name: str) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(root.parent / "elsewhere")

    return act


def swap(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Change a text in a file, where no journal knows better."""

    def act(root: Path) -> None:
        shutil.rmtree(root / PRIVATE)
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new))

    return act


DAMAGES: list[tuple[str, Callable[[Path], None], list[str]]] = [
    ("torn tail line", replace(f"{CWD}/patches.jsonl", b'{"working":'), ["damaged"]),
    ("checkpoint without patches", remove(f"{CWD}/patches.jsonl"), ["damaged"]),
    ("session without runtime", remove(f"{SESSION}/runtime.json"), ["damaged"]),
    ("unknown mode", replace(f"{SESSION}/config.json", b'{"mode":"on"}\n'), ["damaged"]),
    ("meta without history", replace(f"{CWD}/meta.json", b'{"version":2}\n'), ["unsupported"]),
    ("meta of a later version", swap("meta.json", '"version":2', '"version":3'), ["unsupported"]),
    ("owner missing", swap(f"{CWD}/meta.json", '"owner":{"cwd":"/project"},', ""), ["owner"]),
    ("owner whose folder is another", swap(f"{CWD}/meta.json", '"/project"', '"/projects"'), ["owner", "owner"]),
    ("chain broken", swap(f"{SESSION}/meta.json", '"position":3', '"position":2'), ["damaged"]),
    ("global pair lost", remove("checkpoint.json", "patches.jsonl"), ["foreign-bytes", "global-missing"]),
    ("foreign bytes", replace(f"{CWD}/checkpoint.json", b'{"working":{"x":1}}\n'), ["foreign-bytes"]),
    ("symlink for a file", link("meta.json"), ["wrong-kind"]),
    ("symlink for a session", link(f"{CWD}/other"), ["wrong-kind"]),
    ("file for a directory", replace("--other--", b""), ["wrong-kind"]),
    ("old format", replace(f"{CWD}/state.json", b"{}"), ["old-format"]),
    ("temporary file", replace(f"{SESSION}/.meta.json.12.0f3c7a52-6d1e.tmp", b"{}"), ["temporary-left"]),
    ("settings", replace("config.json", b'{"mode":"maybe"}'), ["settings"]),
]


@pytest.mark.parametrize("damage, codes", [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES])
def test_a_damage_is_found_and_nothing_else_beside_it(
    filled: Path, damage: Callable[[Path], None], codes: list[str]
) -> None:
    damage(filled)
    found = examine(filled)
    assert worse_than_notes(found) == codes
    assert not found.is_clean


def test_a_lineage_that_can_not_have_been_is_found_without_a_journal(filled: Path) -> None:
    shutil.rmtree(filled / PRIVATE)
    runtime = json.loads((filled / SESSION / "runtime.json").read_text())
    lineage = runtime["lineage"]
    lineage.append({"id": "ghost", "parent": lineage[-1]["id"], "position": lineage[-1]["position"] + 1})
    (filled / SESSION / "runtime.json").write_text(json.dumps(runtime))
    assert worse_than_notes(examine(filled)) == ["lineage"]


def test_what_is_not_part_of_a_store_is_only_noted(filled: Path) -> None:
    (filled / "notes.md").write_text("mine")
    (filled / ".git").mkdir()
    (filled / CWD / "notes.md").write_text("mine")
    (filled / CWD / "hashed.d.").mkdir()
    (filled / PRIVATE / "mine").write_text("mine")
    found = examine(filled)
    assert found.is_clean
    assert sorted(Path(item.path).name for item in found.of("unknown-name")) == [
        "hashed.d.",
        "mine",
        "notes.md",
        "notes.md",
    ]


@holds("Ours-14")
def test_permissions_that_are_too_wide_are_named(filled: Path) -> None:
    (filled / "meta.json").chmod(0o644)
    (filled / CWD / "meta.json").chmod(0o664)
    (filled / CWD).chmod(0o777)
    found = examine(filled)
    assert [Path(item.path).name for item in found.of("readable-by-others")] == ["meta.json"]
    assert {Path(item.path).name for item in found.of("writable-by-others")} == {"meta.json", CWD}


def test_an_unreadable_file_is_a_problem_and_never_missing() -> None:
    with reachable_folder() as folder:
        root = folder / "state-flow"
        with OpenedStore.open(root) as store:
            store.patch(cwd={"working": {"n": 1}})
        reader = reader_of(root, folder / "scratch")
        with as_stranger(root, hidden=[root / CWD / "patches.jsonl", root / SESSION]):
            found = diagnose(reader.ground, reader.journal, lambda _device, _inode: None)
    assert {Path(item.path).name for item in found.of("unreadable")} >= {"patches.jsonl", "main"}


def test_network_and_user_space_file_systems_are_warned_of(filled: Path) -> None:
    class Elsewhere(RealDisk):  # type: ignore[misc]
        kind = "nfs4"

        def file_system_type(self, path: str) -> str:
            return self.kind

    for kind in ("nfs4", "fuse.sshfs", "9p"):
        Elsewhere.kind = kind
        assert worse_than_notes(examine(filled, disk=Elsewhere())) == ["file-system"]


# -- the journal ------------------------------------------------------------------------------------------------


def change(root: Path, *statements: str) -> None:
    """Change a closed journal behind our back."""
    database = sqlite3.connect(root / PRIVATE / "journal.db")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "statement, codes",
    [
        ("delete from rows where seq = 2", ["sequence-gap"]),
        ("update facts set value = 99 where name = 'checkpointed_through'", ["counters"]),
        ("update facts set value = 3 where name = 'pruned_through'", []),
        ("update rows set position = 50 where seq = 1", ["row-order"]),
        ("update rows set body = '{' where seq = 2", ["rows-unreadable"]),
        ("update rows set body = '[]' where seq = 2", ["rows-unreadable"]),
        ("update bases set identity = 'x'", ["journal-damaged"]),
    ],
)
def test_a_journal_that_contradicts_itself_is_found(filled: Path, statement: str, codes: list[str]) -> None:
    change(filled, statement)
    # Scopes whose base can not be read are named besides.
    assert [code for code in worse_than_notes(examine(filled)) if code != "damaged"] == codes


def test_rows_that_do_not_follow_on_the_files_are_found(filled: Path) -> None:
    store = OpenedStore.open(filled)
    store.patch(cwd={"working": {"n": 2}})
    store.patch(cwd={"working": {"n": 3}})
    store.abandon()
    change(filled, """update rows set body = replace(body, '"revision":3', '"revision":7')""")
    assert "rows-do-not-follow" in worse_than_notes(examine(filled))


@pytest.mark.parametrize("data", [b"x" * 5_000, b"SQLite format 3\0" + b"x" * 5_000])
def test_a_damaged_journal_is_named_and_the_files_are_still_checked(filled: Path, data: bytes) -> None:
    (filled / PRIVATE / "journal.db").write_bytes(data)
    found = examine(filled)
    assert worse_than_notes(found) == ["damaged"]
    assert "rebuild" in found.of("damaged")[0].words
    assert found.of("scopes")[0].words.startswith("3 scopes")


def test_a_journal_of_a_newer_program_is_named_unsupported(filled: Path) -> None:
    change(filled, "pragma user_version = 99")
    assert worse_than_notes(examine(filled)) == ["unsupported"]


def test_a_prepared_checkpoint_is_noted_and_a_missing_staged_copy_is_a_problem(filled: Path) -> None:
    store = OpenedStore.open(filled)
    store.patch(global_={"contract": {"c": 2}}, cwd={"working": {"n": 2}})
    prepared = store.die_in_checkpoint(2)
    found = examine(filled)
    assert found.of("checkpoint-prepared")
    assert [item.code for item in found.findings if item.severity == "problem"] == []
    (filled / PRIVATE / "staged" / prepared.moves[-1].staged).unlink()
    assert "staged-missing" in worse_than_notes(examine(filled))


def test_staged_files_without_a_list_are_only_noted(filled: Path) -> None:
    (filled / PRIVATE / "staged" / "left-0").write_bytes(b"{}")
    found = examine(filled)
    assert found.is_clean
    assert found.of("staged-left")


def test_what_gave_way_to_foreign_bytes_is_named_with_its_file(filled: Path) -> None:
    store = OpenedStore.open(filled)
    store.patch(cwd={"working": {"n": 2}})
    (filled / CWD / "checkpoint.json").write_bytes(b'{"working":{"theirs":1}}\n')
    assert "1 change not in them" in examine(filled).of("foreign-bytes")[0].words
    store.close()
    found = examine(filled)
    assert found.is_clean
    assert "1 change that gave way" in found.of("superseded")[0].words
    kept = next((filled / PRIVATE / "superseded").iterdir())
    kept.write_bytes(b'{"half')
    assert worse_than_notes(examine(filled)) == ["superseded"]


def test_a_copied_store_is_noted_as_a_copy(filled: Path, tmp_path: Path) -> None:
    shutil.copytree(filled, tmp_path / "copy")
    found = examine(tmp_path / "copy")
    assert found.is_clean
    assert found.of("copied-store")


# -- locks ------------------------------------------------------------------------------------------------------


def test_a_dead_process_of_ours_is_told_from_a_living_one(filled: Path) -> None:
    OpenedStore.open(filled, table=KnownProcesses()).abandon()
    alive = examine(filled, KnownProcesses())
    assert alive.is_clean
    assert alive.of("open")
    dead = examine(filled, KnownProcesses(living=(1,), own_pid=1))
    assert dead.of("open-dead")
    assert worse_than_notes(dead) == ["pi-lock-left"]


def test_the_id_of_a_dead_process_that_was_used_again_does_not_count_as_alive(filled: Path) -> None:
    class Reused(KnownProcesses):
        def is_alive(self, process: object) -> bool:
            return False

    OpenedStore.open(filled, table=KnownProcesses()).abandon()
    found = examine(filled, Reused())
    assert found.of("open-dead")
    assert not found.of("open")


@pytest.mark.parametrize(
    "content, code",
    [(b"77\n", "pi-lock-dead"), (b"nonsense", "pi-lock-dead"), (b"", "pi-lock-pending")],
)
def test_a_lock_of_another_program_is_judged_without_touching_it(filled: Path, content: bytes, code: str) -> None:
    (filled / PI_LOCK).write_bytes(content)
    assert worse_than_notes(examine(filled, KnownProcesses())) == [code]


def test_a_living_program_that_uses_the_store_is_no_trouble(filled: Path) -> None:
    (filled / PI_LOCK).write_bytes(b"77\n")
    found = examine(filled, KnownProcesses(living=(77, 1000)))
    assert found.is_clean
    assert "77" in found.of("pi-lock")[0].words


def test_a_missing_lock_towards_pi_beside_a_living_process_is_a_problem(filled: Path) -> None:
    with OpenedStore.open(filled) as store:
        (filled / PI_LOCK).unlink()
        assert worse_than_notes(examine(filled)) == ["pi-lock-missing"]
        store.abandon()
    with OpenedStore.open(filled, share_with_pi=True):
        assert examine(filled).is_clean


@pytest.mark.parametrize("name", ["open.lock", "turn.lock", "checkpoint.lock", "queue.lock"])
def test_the_holder_of_a_kernel_lock_is_named_by_its_process(filled: Path, name: str) -> None:
    reader = reader_of(filled, filled.parent / "scratch")
    lock = filled / PRIVATE / name
    lock.touch()
    inode = lock.stat().st_ino
    found = diagnose(reader.ground, reader.journal, lambda _device, asked: 4711 if asked == inode else None)
    assert "4711" in found.of("lock-held")[0].words
