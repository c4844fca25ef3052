"""Sessions that the original program wrote: every file, every entry as leaf, and every line written again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.holds import holds
from strataflow import SessionTree, StoreError
from strataflow.store.trace import build_context_entries, build_session_context, line_of, parse_line

SESSIONS = Path(__file__).parent / "pi" / "sessions"
E2E = Path(__file__).parent / "pi" / "e2e"
# What is refused or read otherwise here than there, on purpose; each has a test of its own.
REFUSED = {"no-header", "json-null-line"}
OPENED = sorted(path.stem for path in SESSIONS.glob("*.jsonl") if "." not in path.stem and path.stem not in REFUSED)
# One file is empty: nothing was said in that session.
WHOLE = sorted(path for path in E2E.glob("*.jsonl") if path.stat().st_size)
FILES = sorted([*SESSIONS.glob("*.jsonl"), *WHOLE])


def expected(name: str) -> Any:
    return json.loads((SESSIONS / f"{name}.expected.json").read_text())


@pytest.fixture(params=OPENED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tree(name: str, tmp_path: Path) -> SessionTree:
    return SessionTree.open(str(shutil.copy(SESSIONS / f"{name}.jsonl", tmp_path)), durability="process")


@pytest.fixture
def same(name: str, tree: SessionTree) -> Callable[[Any], Any]:
    """Expected values with the ids that this opening has drawn: those of a version 1 file are random."""
    opened = expected(name)["opened"]
    drawn = dict(zip(opened["entryIds"], [entry["id"] for entry in tree.get_entries()], strict=True))

    def translated(value: Any) -> Any:
        if isinstance(value, dict):
            return {drawn.get(key, key): translated(member) for key, member in value.items()}
        if isinstance(value, list):
            return [translated(item) for item in value]
        return drawn.get(value, value) if isinstance(value, str) else value

    return translated


def as_node(node: dict[str, Any]) -> dict[str, Any]:
    more = {key: node[key] for key in ("label", "labelTimestamp") if key in node}
    entry = node["entry"]
    return {"id": entry["id"], "type": entry["type"], **more, "children": [as_node(each) for each in node["children"]]}


def in_short(context: dict[str, Any]) -> dict[str, Any]:
    """A context as the tables tell it: long texts cut, other blocks named, and JavaScript's word for a missing text."""

    def told(block: dict[str, Any]) -> str:
        if block["type"] == "text":
            return str(block["text"])
        return f"<call {block['name']}>" if block["type"] == "toolCall" else f"<{block['type']}>"

    def text(message: dict[str, Any]) -> str:
        content = message.get("content", message.get("summary", message.get("command", "undefined")))
        whole = content if isinstance(content, str) else "|".join(map(told, content))
        return whole if len(whole) < 1000 else f"{whole[:60]}...({len(whole)})"

    return {
        "roles": [message["role"] for message in context["messages"]],
        "thinkingLevel": context["thinkingLevel"],
        "model": context["model"],
        "texts": [text(message) for message in context["messages"]],
    }


@holds(
    "case host 24",
    "case host 33",
    "case host 30",
    "case host 31",
    "case host 32",
    "case host 40",
    "host 1.2.1",
    "host 1.8.2",
    "host 1.8.3",
    "host 1.8.6",
    "host 1.4.7",
    "host 2.4.1",
    "host 2.4.3",
)
def test_header_name_and_entries_are_as_the_original_reads_them(name: str, tree: SessionTree, same: Any) -> None:
    opened = expected(name)["opened"]
    assert tree.get_header() == opened["header"]
    assert (tree.get_session_id(), tree.get_cwd(), tree.get_session_name()) == (
        opened["sessionId"],
        opened["cwd"],
        opened["sessionName"],
    )
    assert tree.get_leaf_id() == same(opened["leafId"])
    assert [entry["type"] for entry in tree.get_entries()] == opened["entryTypes"]


@holds("case host 26", "case host 43", "case host 48", "case host 49", "case host 52")
def test_branches_children_labels_and_tree_are_as_the_original_has_them(
    name: str, tree: SessionTree, same: Any
) -> None:
    opened = expected(name)["opened"]
    assert [entry["id"] for entry in tree.get_branch()] == same(opened["branch"])
    assert tree.get_branch_ids() == same(opened["branch"])
    assert {key: [child["id"] for child in tree.get_children(key)] for key in same(opened["children"])} == same(
        opened["children"]
    )
    assert [child["id"] for child in tree.get_children(None)] == same(opened["rootChildren"])
    ids = {entry["id"] for entry in tree.get_entries()}
    assert {key: label for key in ids if (label := tree.get_label(key)) is not None} == same(opened["labels"])
    assert [as_node(node) for node in tree.get_tree()] == same(opened["tree"])
    assert tree.get_branch("nope1234") == opened["branchUnknownId"] == []


@holds("case host 34", "case host 44", "case host 83", "case host 84", "case host 87")
def test_every_entry_as_leaf_gives_the_branch_and_context_of_the_original(
    name: str, tree: SessionTree, same: Any
) -> None:
    opened = expected(name)["opened"]
    entries = tree.get_entries()
    assert tree.build_session_context().to_json() == same(opened["context"])
    assert in_short(build_session_context(entries, None).to_json()) == opened["contextNullLeaf"]
    assert in_short(build_session_context(entries, "nope1234").to_json()) == same(opened["contextUnknownLeaf"])
    assert in_short(build_session_context(entries).to_json()) == same(opened["contextUnknownLeaf"])
    for leaf, context in same(opened["contextByLeaf"]).items():
        assert in_short(tree.build_session_context(leaf).to_json()) == context, leaf
        assert in_short(build_session_context(entries, leaf).to_json()) == context, leaf
    for leaf, branch in same(opened["branchByLeaf"]).items():
        assert tree.get_branch_ids(leaf) == branch, leaf


@holds("case host 85", "case host 86")
def test_the_entries_that_count_are_those_of_the_later_original(name: str, tree: SessionTree, same: Any) -> None:
    found = expected("context-entries")["sessions"].get(name)
    if found is None:
        assert name == "malformed-lines", "each other session is in that table"
        return
    wanted = {"drawn": found["byLeaf"], "default": found["leafDefault"]}
    if name.startswith("v1-"):
        assert len(wanted["default"]) == len(tree.build_context_entries())
        return
    assert [entry["id"] for entry in tree.build_context_entries()] == wanted["default"]
    for leaf, ids in wanted["drawn"].items():
        assert [entry["id"] for entry in tree.build_context_entries(leaf)] == ids, leaf
        assert [entry["id"] for entry in build_context_entries(tree.get_entries(), leaf)] == ids, leaf
    assert build_context_entries(tree.get_entries(), None) == found["leafNull"]


@holds("case host 25", "case host 39")
def test_opening_changes_no_file_of_the_present_version(name: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(SESSIONS / f"{name}.jsonl", tmp_path))
    before = path.read_bytes()
    SessionTree.open(str(path), durability="process")
    assert (path.read_bytes() == before) is not expected(name)["fileChangedByOpening"]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@holds("case host 35", "case host 36", "case host 37", "host 1.9.1", "host 1.9.2")
@pytest.mark.parametrize("name", ["v1-old", "v1-index-at-header"])
def test_an_old_file_becomes_what_the_original_makes_of_it(name: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(SESSIONS / f"{name}.jsonl", tmp_path))
    SessionTree.open(str(path))

    def shape(text: str) -> list[Any]:
        ids: dict[str, int] = {}
        lines = [json.loads(line) for line in text.split("\n") if line]
        for number, line in enumerate(lines):
            ids.setdefault(line["id"], number)
        return [
            {key: ids.get(value, value) if isinstance(value, str) else value for key, value in line.items()}
            for line in lines
        ]

    assert shape(path.read_text()) == shape((SESSIONS / f"{name}.after-open.jsonl").read_text())
    for line in path.read_text().split("\n")[1:-1]:
        assert len(json.loads(line)["id"]) == 8


@holds(
    "case host 16",
    "case host 12",
    "case host 13",
    "case host 14",
    "case host 15",
    "host 1.1.1",
    "host 1.1.5",
    "host 1.3.1",
    "host 1.3.4",
    "host 1.5.1-1.5.6",
    "host 1.5.7",
)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_line_written_again_is_the_same_line(path: Path) -> None:
    lines = [line.strip() for line in path.read_bytes().split(b"\n")]
    parsed = [(line, parse_line(line)) for line in lines]
    assert any(found for _, found in parsed)
    for line, found in parsed:
        if found is not None:
            assert line_of(found) == line


@holds("case host 27", "case host 28")
def test_a_file_without_a_header_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = Path(shutil.copy(SESSIONS / "no-header.jsonl", tmp_path))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is no session") as refused:
        SessionTree.open(str(path))
    assert refused.value.code == "E_CORRUPT"
    assert path.read_bytes() == before


@holds("case host 41")
def test_a_line_that_is_no_object_is_passed_over(tmp_path: Path) -> None:
    path = Path(shutil.copy(SESSIONS / "json-null-line.jsonl", tmp_path))
    with path.open("a") as file:
        file.write('5\n"text"\n[]\n{"type":5}\n')
    tree = SessionTree.open(str(path), durability="process")
    entries = [line for line in path.read_text().split("\n") if '"type":"message"' in line]
    assert [entry["id"] for entry in tree.get_entries()] == [json.loads(line)["id"] for line in entries]


@holds("case host 89", "case host 90", "case host 91")
def test_a_folder_is_listed_as_the_original_lists_it(tmp_path: Path) -> None:
    table = expected("list")
    there = [name for name in table["files"] if (SESSIONS / name).exists()]
    for name in there:
        shutil.copy(SESSIONS / name, tmp_path)
    told: list[tuple[int, int]] = []
    found = SessionTree.list("/project", str(tmp_path), lambda done, total: told.append((done, total)))
    wanted = [record for record in table["sessions"] if record["file"] in there]
    assert [Path(info.path).name for info in found] == [record["file"] for record in wanted]
    for info, record in zip(found, wanted, strict=True):
        assert (info.id, info.cwd, info.name, info.parent_session_path) == (
            record["id"],
            record["cwd"],
            record["name"],
            record["parentSessionPath"],
        )
        assert (info.message_count, info.first_message) == (record["messageCount"], record["firstMessage"])
        assert len(info.all_messages_text.encode("utf-16-le", "surrogatepass")) // 2 == record["allMessagesTextLength"]
        assert info.all_messages_text.startswith(record["allMessagesTextStart"][:50])
    assert told == [(done, len(there)) for done in range(1, len(there) + 1)]


@holds("case host 88", "host 2.5.10")
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_a_whole_session_of_the_application_is_read_as_it_reads_it(path: Path, tmp_path: Path) -> None:
    table = json.loads(path.with_suffix("").with_suffix(".expected.json").read_text())
    tree = SessionTree.open(str(shutil.copy(path, tmp_path)), read_only=True)
    types = [
        f"message:{entry['message']['role']}" if entry["type"] == "message" else entry["type"]
        for entry in tree.get_entries()
    ]
    assert types == table["entryTypes"]
    context = tree.build_session_context()
    assert [message["role"] for message in context.messages] == table["contextRoles"]
    assert (context.thinking_level, context.model) == (table["thinkingLevel"], table["model"])
