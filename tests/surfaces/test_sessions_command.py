"""``strataflow sessions``: what it prints, that it only writes new files, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.session_trees import HEADER, assistant, message_line, objects, session_file, user
from kit.stores import all_bytes
from strataflow import SessionTree
from strataflow.runtime.surfaces.cli import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("STRATAFLOW_DIR", str(tmp_path / "agent"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(["sessions", *arguments], "1.2.3")
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def tree(tmp_path: Path, command: Command) -> SessionTree:
    """A session of the current folder with a fork, a label and a name."""
    tree = SessionTree.create(str(tmp_path), session_id="abc-1")
    first = tree.append_message(user("Fix the test"), entry_id="first")
    tree.append_message(assistant("Done", model="m"), entry_id="second")
    tree.append_label_change(first, "start", entry_id="third")
    tree.branch(first)
    tree.append_message(assistant("Another way"), entry_id="other")
    tree.append_session_info("My session", entry_id="named")
    return tree


def test_sessions_of_the_working_directory_are_listed(tree: SessionTree, command: Command) -> None:
    code, out, _ = command("list")
    assert code == 0
    assert out.split()[2:] == ["abc-1", "3", "messages", "My", "session"]
    code, out, _ = command("list", "--json")
    found = json.loads(out)
    assert (found["id"], found["name"], found["message_count"]) == ("abc-1", "My session", 3)
    assert found["path"] == tree.get_session_file()
    assert command("list", "--cwd", "/elsewhere") == (0, "", "")


def test_a_session_is_shown_as_a_model_would_see_it(tree: SessionTree, command: Command) -> None:
    code, out, _ = command("show", "abc")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["user", "Fix", "the", "test"],
        ["assistant", "Another", "way"],
        ["2", "messages,", "thinking", "off,", "model", "faux/faux-1"],
    ]
    code, out, _ = command("show", "abc-1", "--leaf", "second", "--json")
    assert json.loads(out) == tree.build_session_context("second").to_json()
    code, _, error = command("show", "abc-1", "--leaf", "nowhere")
    assert (code, "Entry nowhere not found" in error) == (1, True)


def test_a_tree_is_drawn_with_its_forks_and_its_leaf(tree: SessionTree, command: Command) -> None:
    code, out, _ = command("tree", str(tree.get_session_file()))
    assert code == 0
    assert out.splitlines() == [
        "| first user [start] Fix the test",
        "    second assistant Done",
        "    third label first start",
        "|   other assistant Another way",
        "*   named session_info My session",
    ]
    code, out, _ = command("tree", "abc-1", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["id"] for row in rows if row["is_leaf"]] == ["named"]


def test_a_branch_is_exported_and_taken_in_elsewhere(tree: SessionTree, command: Command, tmp_path: Path) -> None:
    code, out, _ = command("export", "abc-1", "out.jsonl", "--leaf", "second", "--json")
    assert (code, json.loads(out)) == (0, {"path": str(tmp_path / "out.jsonl"), "entries": 2})
    assert command("export", "abc-1", "out.jsonl")[0] == 1
    code, out, _ = command("import", "out.jsonl", "--session-dir", "other", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["id"] == "abc-1"
    assert objects(found["path"])[1:] == objects(tmp_path / "out.jsonl")[1:]
    code, _, error = command("import", "out.jsonl", "--session-dir", "other")
    assert (code, "is in" in error) == (1, True)
    assert len(list((tmp_path / "other").iterdir())) == 1


def test_damage_is_checked_and_repaired_in_a_new_file(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    path = session_file(folder / "s.jsonl", message_line("a", None), "{bad", message_line("c", "lost"))
    session_file(folder / "good.jsonl", message_line("a", None))
    before = all_bytes(folder)
    code, out, _ = command("check", "--session-dir", str(folder))
    assert code == 3
    assert "bad-line" in out
    assert "orphan" in out
    assert "2 problems" in out
    assert command("check", str(folder / "good.jsonl"))[0] == 0
    code, out, _ = command("repair", str(path), "better.jsonl", "--json")
    assert (code, json.loads(out)["entries"]) == (0, 2)
    assert command("check", str(tmp_path / "better.jsonl"))[0] == 0
    assert all_bytes(folder) == before


def test_looking_at_an_old_file_does_not_change_it(command: Command, tmp_path: Path) -> None:
    head = HEADER.replace('"version":3', '"version":2')
    path = session_file(tmp_path / "old.jsonl", message_line("a", None, role="hookMessage"), header=head)
    before = path.read_bytes()
    for action in ("show", "tree", "check"):
        assert command(action, str(path))[0] == 0
    assert command("export", str(path), "new.jsonl")[0] == 0
    assert objects(tmp_path / "new.jsonl")[0]["version"] == 3
    assert path.read_bytes() == before
    assert not (tmp_path / "agent").exists()


@pytest.mark.parametrize("name", ["nothing", "", "s"])
def test_a_name_that_means_no_session_or_several_is_refused(command: Command, tmp_path: Path, name: str) -> None:
    for number in (1, 2):
        session_file(tmp_path / f"2025_s{number}.jsonl")
    code, _, error = command("show", name, "--session-dir", str(tmp_path))
    assert code == 1
    assert "strataflow sessions list" in error


def test_a_command_without_an_action_is_wrong_usage(command: Command) -> None:
    assert command()[0] == 2
