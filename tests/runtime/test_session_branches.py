"""Branches, labels and copies of session trees: in memory where that is enough, else on real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.holds import holds
from kit.session_trees import assistant, ids, message_line, objects, session_file, texts, user
from strataflow import ReadError, SessionTree, StoreError


@pytest.fixture
def tree() -> SessionTree:
    return SessionTree.in_memory("/project")


@pytest.fixture
def stored(tmp_path: Path) -> SessionTree:
    return SessionTree.create("/project", str(tmp_path / "sessions"))


def say(tree: SessionTree, words: str) -> list[str]:
    """A message a word, the first of a user, then in turns; their ids."""
    made = (user, assistant)
    return [tree.append_message(made[number % 2](word)) for number, word in enumerate(words.split())]


@holds("case host 43", "case host 44", "case host 45", "case host 46", "host 2.4.4", "host 2.4.5", "host 2.6.1")
def test_a_branch_leaves_the_old_one_where_it_is(tree: SessionTree) -> None:
    a, b, c, d = say(tree, "A B C D")
    tree.branch(b)
    e, f = say(tree, "E F")
    assert ids(tree.get_branch()) == [a, b, e, f]
    assert ids(tree.get_branch(d)) == [a, b, c, d]
    assert ids(tree.get_children(b)) == [c, e]
    with pytest.raises(ReadError, match="Entry x not found"):
        tree.branch("x")
    assert tree.get_leaf_id() == f
    assert (tree.get_branch("x"), tree.get_children("x"), tree.get_entry("x"), tree.get_label("x")) == (
        [],
        [],
        None,
        None,
    )


@holds("case host 34", "host 1.8.4")
def test_a_branch_without_an_entry_is_forgotten_with_the_object(stored: SessionTree) -> None:
    a, _, c = say(stored, "A B C")
    stored.branch(a)
    assert SessionTree.open(str(stored.get_session_file())).get_leaf_id() == c


@holds("case host 47", "case host 84", "host 2.6.2", "host 2.5.2")
def test_before_all_entries_there_is_an_empty_context_and_the_next_is_a_root(tree: SessionTree) -> None:
    (a,) = say(tree, "A")
    tree.reset_leaf()
    assert (tree.get_leaf_id(), tree.get_leaf_entry(), tree.get_branch()) == (None, None, [])
    assert tree.build_session_context().to_json() == {"messages": [], "thinkingLevel": "off", "model": None}
    assert tree.build_context_entries() == []
    (b,) = say(tree, "B")
    assert ids(tree.get_children(None)) == [a, b]


@holds("case host 48", "case host 49", "case host 50", "host 2.4.6", "host 1.8.5")
def test_a_tree_has_orphans_as_roots_and_children_in_the_order_of_their_times(tmp_path: Path) -> None:
    path = session_file(
        tmp_path / "s.jsonl",
        message_line("root", None),
        message_line("late", "root", second=9),
        message_line("first", "root", second=3),
        message_line("second", "root", second=3),
        message_line("orphan", "missing0"),
        message_line("below", "orphan"),
        message_line("self", "self"),
    )
    roots = SessionTree.open(str(path)).get_tree()
    assert [node["entry"]["id"] for node in roots] == ["root", "orphan", "self"]
    assert [node["entry"]["id"] for node in roots[0]["children"]] == ["first", "second", "late"]
    assert [node["entry"]["id"] for node in roots[1]["children"]] == ["below"]
    assert set(roots[2]) == {"entry", "children"}


@holds("case host 51")
def test_a_chain_of_twenty_thousand_entries_is_walked_without_recursion(tmp_path: Path) -> None:
    lines = [message_line(f"{n:08x}", f"{n - 1:08x}" if n else None) for n in range(20_000)]
    tree = SessionTree.open(str(session_file(tmp_path / "s.jsonl", *lines)))
    assert len(tree.get_branch()) == 20_000
    depth, nodes = 0, tree.get_tree()
    while nodes:
        depth, nodes = depth + 1, nodes[0]["children"]
    assert depth == 20_000
    assert len(tree.build_session_context().messages) == 20_000


@holds("case host 52", "case host 53", "case host 54", "case host 55", "case host 56", "host 2.3.4", "host 2.3.2")
def test_the_last_label_of_an_entry_holds_on_every_branch(tree: SessionTree) -> None:
    a, b = say(tree, "A B")
    tree.append_label_change(b, "first")
    tree.append_label_change(b, "second", timestamp_ms=5000)
    tree.branch(a)
    assert tree.get_label(b) == "second"
    node = tree.get_tree()[0]["children"][0]
    assert (node["label"], node["labelTimestamp"]) == ("second", "1970-01-01T00:00:05.000Z")
    assert len(tree.build_session_context().messages) == 1
    tree.append_label_change(b, " spaced ")
    assert tree.get_label(b) == " spaced "
    for clear in (None, ""):
        tree.append_label_change(b, "x")
        tree.append_label_change(b, clear)
        assert tree.get_label(b) is None
    before = tree.get_entries()
    with pytest.raises(ReadError, match="Entry nope1234 not found"):
        tree.append_label_change("nope1234", "x")
    assert tree.get_entries() == before


@holds("case host 57", "case host 58", "case host 59", "case host 60", "host 2.6.3", "host 1.4.3")
def test_a_summary_of_the_branch_that_is_left_begins_the_new_one(tree: SessionTree) -> None:
    a, b, c = say(tree, "A B C")
    summary = tree.branch_with_summary(b, "tried", {"readFiles": ["x"], "modifiedFiles": []}, False)
    found = tree.get_entry(summary)
    assert found is not None
    assert list(found)[4:] == ["fromId", "summary", "details", "fromHook"]
    assert (found["parentId"], found["fromId"], found["fromHook"], tree.get_leaf_id()) == (b, c, False, summary)
    assert [message["role"] for message in tree.build_session_context().messages][-1] == "branchSummary"
    with pytest.raises(ReadError, match="Entry missing1 not found"):
        tree.branch_with_summary("missing1", "x")
    assert tree.get_leaf_id() == summary
    at_root = tree.get_entry(tree.branch_with_summary(None, "text"))
    assert at_root is not None
    assert (at_root["parentId"], at_root["fromId"]) == (None, summary)
    tree.reset_leaf()
    first = tree.get_entry(tree.branch_with_summary(a, ""))
    assert first is not None
    assert first["fromId"] == "root"
    assert texts(tree.build_session_context().messages) == ["A"]


@holds("case host 61", "host 2.6.4", "host 2.6.5")
def test_a_path_becomes_a_session_with_the_labels_on_it(stored: SessionTree) -> None:
    a, b = say(stored, "A B")
    (c,) = say(stored, "C")
    stored.branch(b)
    (f,) = say(stored, "F")
    stored.append_label_change(a, "on the path", timestamp_ms=7000)
    stored.append_label_change(c, "off it")
    old, before = Path(str(stored.get_session_file())), Path(str(stored.get_session_file())).read_bytes()
    path = stored.create_branched_session(f)
    assert path == stored.get_session_file() != str(old)
    header, *entries = objects(str(path))
    assert (header["parentSession"], header["id"]) == (str(old), stored.get_session_id())
    assert ids(entries)[:3] == [a, b, f]
    (label,) = entries[3:]
    assert (label["targetId"], label["label"], label["parentId"]) == (a, "on the path", f)
    assert label["timestamp"] == "1970-01-01T00:00:07.000Z"
    assert (stored.get_leaf_id(), stored.get_label(a)) == (label["id"], "on the path")
    assert old.read_bytes() == before
    with pytest.raises(ReadError, match="Entry nope not found"):
        stored.create_branched_session("nope")


@holds("case host 62")
def test_a_path_without_an_answer_becomes_a_file_with_the_first_one(stored: SessionTree) -> None:
    first, _ = say(stored, "A B")
    path = Path(str(stored.create_branched_session(first)))
    assert not path.exists()
    stored.append_custom_entry("x")
    assert not path.exists()
    stored.append_message(assistant("now"))
    header, *entries = objects(path)
    assert [header["type"], *(entry["type"] for entry in entries)] == ["session", "message", "custom", "message"]
    assert len(set(ids(entries))) == 3


@holds("case host 63", "host 2.1.4")
def test_in_memory_the_path_alone_is_left(tree: SessionTree) -> None:
    a, b, _ = say(tree, "A B C")
    assert tree.create_branched_session(b) is None
    assert (ids(tree.get_entries()), tree.get_leaf_id()) == ([a, b], b)
    assert (tree.get_session_file(), tree.get_session_dir(), tree.is_persisted()) == (None, "", False)
    assert "parentSession" not in tree.get_header()


@holds("case host 64", "host 2.6.6")
def test_what_followed_a_label_follows_what_stood_before_it(stored: SessionTree) -> None:
    a, b = say(stored, "A B")
    label = stored.append_label_change(b, "here")
    c, d = say(stored, "C D")
    stored.append_compaction("S", label, 1)
    compaction = stored.get_leaf_id()
    assert compaction is not None
    stored.create_branched_session(compaction)
    entries = stored.get_branch()
    assert ids(entries)[:5] == [a, b, c, d, compaction]
    assert [entry["type"] for entry in entries] == ["message"] * 4 + ["compaction", "label"]
    assert entries[4]["firstKeptEntryId"] == c
    assert ids(stored.get_entries()) == ids(entries)
    assert texts(stored.build_session_context().messages) == ["S", "C", "D"]


@holds("case host 65", "host 2.1.5")
def test_a_fork_has_every_branch_and_a_header_of_its_own(stored: SessionTree, tmp_path: Path) -> None:
    a, *_ = say(stored, "A B C")
    stored.branch(a)
    say(stored, "E F")
    source = str(stored.get_session_file())
    fork = SessionTree.fork_from(source, "/other/project", str(tmp_path / "forks"))
    header, *entries = objects(str(fork.get_session_file()))
    assert entries == stored.get_entries() == fork.get_entries()
    assert (header["cwd"], header["parentSession"]) == ("/other/project", source)
    assert header["id"] == fork.get_session_id() != stored.get_session_id()
    again = SessionTree.fork_from(str(fork.get_session_file()), "/third", str(tmp_path / "forks"))
    again.append_message(user("only here"))
    assert len(fork.get_entries()) == len(again.get_entries()) - 1


@holds("case host 66")
@pytest.mark.parametrize("content", [None, "", "{}\n", "nothing\n"])
def test_what_is_no_session_can_not_be_forked(tmp_path: Path, content: str | None) -> None:
    source = tmp_path / "none.jsonl"
    if content is not None:
        source.write_text(content)
    with pytest.raises(StoreError) as refused:
        SessionTree.fork_from(str(source), "/project", str(tmp_path / "forks"))
    assert refused.value.message == f"Cannot fork: source session file is empty or invalid: {source}"
    assert not (tmp_path / "forks").exists() or list((tmp_path / "forks").iterdir()) == []


@holds("case host 67", "host 1.9.5")
def test_a_fork_of_an_old_file_is_of_the_present_version(tmp_path: Path) -> None:
    old = Path(__file__).parents[1] / "conformance" / "pi" / "sessions" / "v1-old.jsonl"
    before = old.read_bytes()
    fork = SessionTree.fork_from(str(old), "/project", str(tmp_path))
    header, *entries = objects(str(fork.get_session_file()))
    assert header["version"] == 3
    assert len(set(ids(entries))) == len(entries) == 8
    assert old.read_bytes() == before


@holds("host 2.6.7")
def test_a_branch_is_exported_as_one_chain(stored: SessionTree, tmp_path: Path) -> None:
    a, b, *_ = say(stored, "A B C D")
    stored.branch(b)
    (e,) = say(stored, "E")
    target = tmp_path / "out" / "branch.jsonl"
    assert stored.export_branch(str(target), timestamp_ms=0) == 3
    header, *entries = objects(target)
    assert header == {**stored.get_header(), "timestamp": "1970-01-01T00:00:00.000Z"}
    assert [(entry["id"], entry["parentId"]) for entry in entries] == [(a, None), (b, a), (e, b)]
    with pytest.raises(StoreError, match="exists already"):
        stored.export_branch(str(target))


@holds("host 2.3.3", "host 2.4.2")
def test_what_goes_in_and_what_comes_out_is_the_callers_own(tree: SessionTree) -> None:
    message = user("A")
    entry_id = tree.append_message(message)
    message["content"] = "changed"
    found = tree.get_entry(entry_id)
    assert found is not None
    assert found["message"]["content"] == "A"
    found["message"]["content"] = "changed"
    tree.build_session_context().messages[0]["content"] = "changed"
    tree.get_header()["id"] = "changed"
    assert texts(tree.build_session_context().messages) == ["A"]
    assert tree.get_session_id() != "changed"


@holds("case host 87", "case host 26")
def test_the_context_of_an_orphan_begins_with_it(tmp_path: Path) -> None:
    path = session_file(
        tmp_path / "s.jsonl",
        message_line("a", None),
        message_line("orphan", "lost", "here"),
        message_line("c", "orphan"),
    )
    tree = SessionTree.open(str(path))
    assert texts(tree.build_session_context().messages) == ["here", "x"]
    assert ids(tree.get_branch("orphan")) == ["orphan"]
