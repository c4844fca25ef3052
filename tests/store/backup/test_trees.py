"""Trees of the next commit, held against Git itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.git_repositories import git
from strataflow.store.backup import branch_of, changed_files, new_trees, packed_oid_of, parse_listing, quoted_path

NAMES = st.sampled_from(["a", "a.b", "a-b", "b", "--x--", "s 1", "z[1]"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(PATHS, st.sampled_from(["1", "2", "3"]), max_size=8)


def consistent(files: dict[str, str]) -> dict[str, str]:
    """Without files that stand where a folder is."""
    folders = {path.rsplit("/", n)[0] for path in files for n in range(1, path.count("/") + 1)}
    return {path: text for path, text in files.items() if path not in folders}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES.map(consistent), FILES.map(consistent))
def test_the_computed_root_is_the_tree_that_git_writes(
    tmp_path: Path, old: dict[str, str], new: dict[str, str]
) -> None:
    if not (tmp_path / ".git").exists():
        git(tmp_path, "init", "-q", "-b", "main")
    oids = {text: blob(tmp_path, text) for text in "123"}
    listing = parse_listing(git(tmp_path, "ls-tree", "-r", "-t", "-z", written(tmp_path, old, oids)).encode())
    wanted: dict[str, str | None] = {path: None for path in old if path not in new}
    wanted |= {path: oids[text] for path, text in new.items()}
    changes = changed_files(listing, wanted)
    if not changes:
        assert old == new
        return
    found = new_trees(listing, changes, oid_chars=40)
    assert found.oids[-1] == written(tmp_path, new, oids)
    assert len(set(found.oids)) <= len(found.oids) == found.text.count(b"\0\0") + found.text.startswith(b"\0")


def blob(folder: Path, text: str) -> str:
    (folder / "blob").write_text(text)
    return git(folder, "hash-object", "-w", "blob").strip()


def written(folder: Path, files: dict[str, str], oids: dict[str, str]) -> str:
    """The tree of these files, as Git writes it by way of an index."""
    git(folder, "read-tree", "--empty")
    for path, text in files.items():
        git(folder, "update-index", "--add", "--cacheinfo", f"100644,{oids[text]},{path}")
    return git(folder, "write-tree").strip()


def test_names_that_need_it_are_quoted_as_git_reads_them(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("plain [1]", 'qu"o\\te', "line\nbreak", "grüße"):
        (tmp_path / name).write_text(name)
        asked = ["git", "hash-object", "--stdin-paths"]
        line = quoted_path(name) + b"\n"
        done = subprocess.run(asked, input=line, capture_output=True, check=True, cwd=tmp_path, timeout=30)
        assert done.stdout.decode() == git(tmp_path, "hash-object", "--", name)


def test_a_head_that_is_no_branch_is_none() -> None:
    assert branch_of(b"ref: refs/heads/a/b c\n") == "refs/heads/a/b c"
    assert branch_of(b"0123456789012345678901234567890123456789\n") is None
    assert branch_of(b"ref: refs/heads/.invalid\n") is None
    assert branch_of(b"ref: refs/tags/x\n") is None
    oid = "a" * 40
    packed = f"# pack-refs with: peeled\n{oid} refs/heads/main\n^{'b' * 40}\n".encode()
    assert packed_oid_of(packed, "refs/heads/main") == oid
    assert packed_oid_of(packed, "refs/heads/mai") is None
