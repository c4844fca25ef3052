"""Session files: when they are written, what stands in them, and how old and odd ones are read. On real files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from kit.holds import holds
from kit.session_trees import HEADER, assistant, ids, message_line, objects, session_file, user
from strataflow import CallError, SessionTree, StoreError
from strataflow.store.trace import SessionInfo


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "sessions")


@pytest.fixture
def tree(folder: str) -> SessionTree:
    return SessionTree.create("/project", folder)


def written(tree: SessionTree) -> Path:
    path = tree.get_session_file()
    assert path is not None
    return Path(path)


@holds("case host 1", "case host 2", "host 1.6.3", "host 1.6.4", "host 1.7.1", "host 2.1.1", "host 1.2.2")
def test_a_new_session_has_a_folder_a_path_and_no_file(folder: str) -> None:
    tree = SessionTree.create("/project", folder, timestamp_ms=1737417601000)
    assert Path(folder).is_dir()
    assert list(Path(folder).iterdir()) == []
    name = written(tree).name
    assert name == f"2025-01-21T00-00-01-000Z_{tree.get_session_id()}.jsonl"
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", tree.get_session_id())
    assert (tree.get_leaf_id(), tree.get_entries(), tree.get_session_dir()) == (None, [], folder)


@holds("case host 3", "case host 4", "case host 5", "host 1.7.2", "host 1.7.3", "host 1.7.4")
def test_the_first_answer_writes_everything_and_later_entries_one_line_each(tree: SessionTree) -> None:
    first = [
        tree.append_model_change("faux", "faux-1"),
        tree.append_thinking_level_change("high"),
        tree.append_message(user("Hello")),
        tree.append_custom_entry("todo", {"n": 1}),
    ]
    path = written(tree)
    assert not path.exists()
    answer = tree.append_message(assistant("Hi"))
    lines = objects(path)
    assert [line["id"] for line in lines] == [tree.get_session_id(), *first, answer]
    before = path.read_bytes()
    tree.append_message(user("Again"))
    assert len(objects(path)) == 7
    tree.append_label_change(answer, "here")
    assert len(objects(path)) == 8
    assert path.read_bytes().startswith(before)


@holds("case host 6", "host 1.7.5")
def test_a_failed_answer_writes_the_file_and_a_first_prompt_does_where_it_was_chosen(folder: str) -> None:
    tree = SessionTree.create("/project", folder)
    tree.append_message(assistant("", stopReason="error"))
    assert len(objects(written(tree))) == 2
    eager = SessionTree.create("/project", folder, first_write="user")
    eager.append_thinking_level_change("off")
    assert not written(eager).exists()
    eager.append_message(user("Keep this"))
    assert len(objects(written(eager))) == 3


@holds("case host 7", "case host 8", "case host 9", "host 1.6.1", "host 1.6.2")
@pytest.mark.parametrize(
    "cwd, name",
    [
        ("/project", "--project--"),
        ("/home/ann/my app", "--home-ann-my app--"),
        ("/home/ann/a-b", "--home-ann-a-b--"),
        ("/home/ann/a/b", "--home-ann-a-b--"),
        ("/", "----"),
        ("C:\\Users\\ann\\proj", "--C--Users-ann-proj--"),
        ("/a/b:c", "--a-b-c--"),
        ("relative/dir", "--relative-dir--"),
        ("//double", "---double--"),
        ("/трек/дело", "--трек-дело--"),
    ],
)
def test_each_working_directory_has_a_folder_by_its_name(cwd: str, name: str, tmp_path: Path) -> None:
    agent = str(tmp_path / "agent")
    assert SessionTree.default_dir(cwd, agent) == f"{agent}/sessions/{name}"
    assert SessionTree.create(cwd, agent_dir=agent).get_session_dir() == f"{agent}/sessions/{name}"


@holds("case host 10", "case host 11", "host 1.3.2", "host 1.3.3")
def test_ids_are_short_and_each_entry_follows_the_one_before(tree: SessionTree) -> None:
    found = [tree.append_custom_entry("x", n) for n in range(50)]
    assert len(set(found)) == 50
    assert all(re.fullmatch("[0-9a-f]{8}", each) for each in found)
    entries = tree.get_entries()
    assert [entry["parentId"] for entry in entries] == [None, *found[:-1]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["timestamp"]) for entry in entries)


@holds("case host 12", "case host 13", "case host 14", "case host 15")
def test_any_text_comes_back_from_the_file_as_it_was(tree: SessionTree) -> None:
    said = ["Grüße, 世界, 👩‍👩‍👧‍👦", "half \ud83d", "a\u2028b\u2029c\x85d\x0be", "x" * 150_001, "\x00\r\n", ""]
    tree.append_message(assistant("begin"))
    for text in said:
        tree.append_message(user(text))
    again = SessionTree.open(str(written(tree)))
    assert [entry["message"]["content"] for entry in again.get_entries()[1:]] == said
    data = written(tree).read_bytes()
    assert "Grüße, 世界, 👩‍👩‍👧‍👦".encode() in data
    assert b"half \\ud83d" in data
    assert data.count(b"\n") == len(said) + 2


@holds(
    "case host 17",
    "case host 18",
    "case host 19",
    "case host 20",
    "host 1.4.2",
    "host 1.4.4",
    "host 1.4.5",
    "host 2.3.1",
)
def test_members_stand_in_their_order_and_what_is_not_given_is_left_out(tree: SessionTree) -> None:
    def last() -> list[tuple[str, Any]]:
        entry = tree.get_leaf_entry()
        assert entry is not None
        return [(key, value) for key, value in entry.items() if key not in ("id", "parentId", "timestamp", "type")]

    base = ["type", "id", "parentId", "timestamp"]
    first = tree.append_custom_entry("no-data")
    assert list(tree.get_entry(first) or {}) == ["type", "customType", "id", "parentId", "timestamp"]
    tree.append_custom_entry("null", None)
    assert last() == [("customType", "null"), ("data", None)]
    compacted = tree.append_compaction("S", "x", 1)
    assert list(tree.get_entry(compacted) or {}) == [*base, "summary", "firstKeptEntryId", "tokensBefore"]
    tree.append_compaction("S", "x", 1, {"readFiles": []}, False, {"input": 1})
    assert [key for key, _ in last()][3:] == ["details", "fromHook", "usage"]
    tree.append_custom_message_entry("policy", "text", False)
    assert last() == [("customType", "policy"), ("content", "text"), ("display", False)]
    tree.append_session_info("  Second\r\nname \n")
    assert last() == [("name", "Second name")]
    tree.append_label_change(first, "here")
    assert last() == [("targetId", first), ("label", "here")]
    tree.append_label_change(first)
    assert last() == [("targetId", first)]
    tree.append_label_change(first, "")
    assert last() == [("targetId", first), ("label", "")]


@holds("case host 21", "host 1.7.6")
def test_a_file_without_an_answer_gets_only_what_it_lacks(tmp_path: Path) -> None:
    path = session_file(tmp_path / "s.jsonl", message_line("aaaa0001", None))
    tree = SessionTree.open(str(path))
    tree.append_message(user("more"))
    tree.append_message(assistant("answer"))
    assert [line["type"] for line in objects(path)] == ["session", "message", "message", "message"]
    assert len(SessionTree.open(str(path)).get_branch()) == 3


@holds("case host 22", "case host 30", "host 1.7.7")
@pytest.mark.parametrize("ending", ["", "\r"])
def test_an_entry_is_never_glued_to_a_line_without_its_end(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f"{HEADER}{ending}\n{message_line('aaaa0001', None)}{ending}")
    tree = SessionTree.open(str(path))
    tree.append_message(user("next"))
    tree.append_message(user("last"))
    assert len(SessionTree.open(str(path)).get_branch()) == 3
    assert not path.with_suffix(".jsonl.torn").exists()


@holds("case host 23", "host 2.1.6")
def test_a_new_session_of_the_same_object_gets_a_file_of_its_own(tree: SessionTree) -> None:
    tree.append_message(assistant("one"))
    tree.append_label_change(tree.get_entries()[0]["id"], "kept")
    old, before = written(tree), written(tree).read_bytes()
    path = tree.new_session("my-id", "/sessions/previous.jsonl")
    assert (path, tree.get_session_id(), tree.get_leaf_id()) == (str(written(tree)), "my-id", None)
    assert tree.get_label(objects(old)[1]["id"]) is None
    assert not written(tree).exists()
    tree.append_message(assistant("two"))
    assert objects(written(tree))[0]["parentSession"] == "/sessions/previous.jsonl"
    assert old.read_bytes() == before


@holds("case host 29", "host 1.8.7")
def test_an_empty_file_is_begun_and_a_missing_one_is_kept_in_mind(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    tree = SessionTree.open(str(empty))
    assert [line["type"] for line in objects(empty)] == ["session"]
    tree.append_message(user("now"))
    assert len(objects(empty)) == 2
    missing = tmp_path / "deep" / "missing.jsonl"
    later = SessionTree.open(str(missing))
    assert (later.get_session_file(), later.get_leaf_id(), missing.exists()) == (str(missing), None, False)
    later.append_message(assistant("hello"))
    assert len(objects(missing)) == 2


@pytest.mark.parametrize("content", ["log line\n", "\n", "{}\n", '{"type":"session"}\n', "[1]\n", "{cut"])
@holds("case host 27", "case host 28")
def test_a_file_that_is_no_session_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(content)
    with pytest.raises(StoreError, match=re.escape(str(path))) as refused:
        SessionTree.open(str(path))
    assert refused.value.code == "E_CORRUPT"
    assert path.read_text() == content


@holds("case host 38", "host 1.9.3", "host 1.9.4", "host 1.2.3")
def test_a_file_of_version_two_gets_new_roles_and_keeps_the_rest(tmp_path: Path) -> None:
    head = '{"type":"session","version":2,"id":"s","timestamp":"2025-01-01T00:00:00.000Z","branchedFrom":"x"}'
    path = session_file(
        tmp_path / "s.jsonl",
        message_line("aaaa0001", None, role="hookMessage"),
        message_line("b", "aaaa0001"),
        header=head,
    )
    path.chmod(0o640)
    only_read = SessionTree.open(str(path), read_only=True)
    assert only_read.get_entries()[0]["message"]["role"] == "custom"
    assert path.read_text().startswith(head)
    with pytest.raises(StoreError, match="for reading only"):
        only_read.append_message(user("x"))
    tree = SessionTree.open(str(path))
    assert (tree.get_header()["version"], tree.get_header()["branchedFrom"]) == (3, "x")
    assert [line.get("id") for line in objects(path)] == ["s", "aaaa0001", "b"]
    assert objects(path)[1]["message"]["role"] == "custom"
    assert path.stat().st_mode & 0o777 == 0o640
    data = path.read_bytes()
    SessionTree.open(str(path))
    assert path.read_bytes() == data
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]


@holds("case host 42", "case host 50", "host 1.8.9")
def test_entries_that_are_their_own_ancestors_end_every_walk(tmp_path: Path) -> None:
    path = session_file(
        tmp_path / "s.jsonl", message_line("a", "b"), message_line("b", "a"), message_line("self", "self")
    )
    tree = SessionTree.open(str(path))
    assert ids(tree.get_branch("a")) == ["b", "a"]
    assert ids(tree.get_branch("b")) == ["a", "b"]
    assert [node["entry"]["id"] for node in tree.get_tree()] == ["self"]
    assert len(tree.build_session_context("a").messages) == 2


@holds("case host 92", "host 2.2.5", "host 2.4.7")
def test_the_last_name_of_any_branch_is_the_name(tree: SessionTree) -> None:
    tree.append_message(assistant("x"))
    names = []
    for name in ("First name", "Second name", "  ", "Final"):
        tree.append_session_info(name)
        (info,) = SessionTree.list("/project", tree.get_session_dir())
        names.append((tree.get_session_name(), info.name))
    assert names == [(name, name) for name in ("First name", "Second name", None, "Final")]


@holds("case host 90", "case host 91", "host 2.2.2", "host 2.2.3", "host 2.2.4", "host 2.2.6")
def test_a_listing_goes_by_the_last_message_and_never_by_the_file(tmp_path: Path) -> None:
    old = session_file(tmp_path / "old.jsonl", message_line("a", None, "  hello", second=5), message_line("b", "a"))
    session_file(tmp_path / "silent.jsonl", '{"type":"custom","customType":"x","id":"c","parentId":null}')
    (tmp_path / "no.jsonl").write_text('{"type":"message"}\n')
    (tmp_path / "notes.txt").write_text("x")
    old.touch()
    found = SessionTree.list("/project", str(tmp_path))
    assert [Path(info.path).name for info in found] == ["old.jsonl", "silent.jsonl"]
    first, silent = found
    assert (first.modified_ms, first.message_count, first.first_message) == (1735689605000, 2, "  hello")
    assert first.all_messages_text == "  hello x"
    assert (silent.modified_ms, silent.created_ms, silent.first_message) == (
        1735689600000,
        1735689600000,
        "(no messages)",
    )
    assert SessionTree.list("/project", str(tmp_path / "nowhere")) == []


def test_a_file_that_cannot_be_read_is_listed_with_its_trouble(tmp_path: Path) -> None:
    session_file(tmp_path / "good.jsonl")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "good.jsonl")
    good, link = SessionTree.list("/project", str(tmp_path))
    assert (good.id, good.trouble) == ("s", None)
    assert isinstance(link, SessionInfo)
    assert "symlink" in str(link.trouble)


@holds("host 2.2.1")
def test_all_folders_are_listed_together(tmp_path: Path) -> None:
    agent = str(tmp_path)
    for cwd in ("/a", "/b"):
        SessionTree.create(cwd, agent_dir=agent).append_message(assistant(cwd))
    told: list[tuple[int, int]] = []
    found = SessionTree.list_all(lambda done, total: told.append((done, total)), agent_dir=agent)
    assert sorted(info.cwd for info in found) == ["/a", "/b"]
    assert told == [(1, 2), (2, 2)]
    assert SessionTree.list_all(agent_dir=f"{agent}/nowhere") == []


@holds("case host 93", "case host 94", "host 2.1.3", "host 1.8.10")
def test_the_session_whose_file_changed_last_is_continued(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    new = SessionTree.continue_recent("/now", str(folder))
    assert (new.get_cwd(), new.get_leaf_id(), list(folder.iterdir())) == ("/now", None, [])
    header = HEADER.replace('"s"', '"old"')
    for name, at, head in (
        ("old", 1000, header),
        ("new", 2000, HEADER.replace("/project", "/" + "d" * 2000)),
        ("invalid", 3000, "{}"),
    ):
        path = session_file(folder / f"{name}.jsonl", header=head)
        os.utime(path, (at, at))
    recent = SessionTree.continue_recent("/now", str(folder))
    assert (recent.get_session_file(), recent.get_cwd()) == (str(folder / "new.jsonl"), "/now")


@holds("host 2.1.2")
def test_a_working_directory_given_at_opening_does_not_change_the_header(tmp_path: Path) -> None:
    path = session_file(tmp_path / "s.jsonl")
    tree = SessionTree.open(str(path), cwd="/now/here")
    assert (tree.get_cwd(), tree.get_header()["cwd"], tree.get_session_dir()) == (
        "/now/here",
        "/project",
        str(tmp_path),
    )
    assert SessionTree.open(str(path), str(tmp_path / "other")).get_session_dir() == str(tmp_path / "other")
    without = session_file(tmp_path / "t.jsonl", header='{"type":"session","version":3,"id":"s"}')
    assert SessionTree.open(str(without)).get_cwd() == str(Path.cwd())


@holds("host 2.1.7")
def test_a_tree_goes_on_with_another_file_and_keeps_its_place(tree: SessionTree, tmp_path: Path) -> None:
    path = session_file(tmp_path / "other.jsonl", message_line("a", None))
    before = tree.get_session_dir()
    tree.set_session_file(str(path))
    assert (tree.get_session_file(), tree.get_leaf_id(), tree.get_session_dir()) == (str(path), "a", before)
    tree.append_message(user("more"))
    assert len(objects(path)) == 3
    path.with_name("bad.jsonl").write_text("bad\n")
    with pytest.raises(StoreError):
        tree.set_session_file(str(path.with_name("bad.jsonl")))
    assert (tree.get_session_file(), tree.get_cwd()) == (str(path), "/project")


@pytest.mark.parametrize("chosen", ["", "a/b", "..", "a b", "-a", "a.", "x" * 129, 5])
def test_an_id_that_cannot_be_part_of_a_name_is_refused(folder: str, chosen: Any) -> None:
    with pytest.raises(CallError) as refused:
        SessionTree.create("/project", folder, session_id=chosen)
    assert refused.value.code == "E_SHAPE"


def test_a_session_goes_on_with_ids_and_times_that_were_given(folder: str) -> None:
    tree = SessionTree.create("/project", folder, session_id="chosen", timestamp_ms=0)
    given = tree.append_message(assistant("x"), entry_id="0193-own", timestamp_ms=1)
    entry = tree.get_entry(given)
    assert entry is not None
    assert (given, entry["timestamp"]) == ("0193-own", "1970-01-01T00:00:00.001Z")
    assert written(tree).name == "1970-01-01T00-00-00-000Z_chosen.jsonl"
    for taken in ("0193-own", "", 5):
        with pytest.raises(CallError):
            tree.append_message(user("y"), entry_id=taken)  # type: ignore[arg-type]
    assert len(tree.get_entries()) == len(objects(written(tree))) - 1 == 1
