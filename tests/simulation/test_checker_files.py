"""Histories in files: two halves of a call in two lines, a line that a kill cut off, and the rest of what is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strataflow.runtime.simulation.checker import check, check_files, history_from_files
from strataflow.runtime.simulation.history import FinalScope, Life, PowerCut, Superseded


def write(path: Path, *lines: object, cut: str = "") -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + cut, encoding="utf-8")
    return path


CALL = {
    "number": 2,
    "process": "p1",
    "cwd": "/a",
    "session": "s",
    "kind": "patch",
    "begun_s": 3.0,
    "patches": {"global": {"working": {"k": 1}}},
    "request_id": "r",
}
ANSWER = {"number": 2, "ended_s": 4.0, "ending": "ok", "changed": True, "seq": 1, "transition_id": "t"}


def test_a_later_line_completes_the_call_and_a_cut_one_never_happened(tmp_path: Path) -> None:
    first = write(tmp_path / "a", CALL, ANSWER, cut='{"number": 3, "proc')
    read = {**CALL, "number": 1, "begun_s": 1.0, "kind": "read", "patches": {}, "request_id": None}
    steps = [{"read": {"path": "cwd", "found": {}}}, {"patch": {"cwd": {}}}]
    second = write(tmp_path / "b", {**read, "steps": steps, "ended_s": 2.0, "ending": "ok"})
    history = history_from_files([first, second])
    assert [call.number for call in history.calls] == [1, 2]
    assert [call.ending for call in history.calls] == ["ok", "ok"]
    assert check(history) == []


def test_other_lines_add_up_to_the_rest_of_a_history(tmp_path: Path) -> None:
    history = history_from_files(
        [
            write(tmp_path / "a", {"outcomes": {"r": 1}, "lives": [{"process": "p1", "begun_s": 0.0}]}),
            write(tmp_path / "b", {"outcomes": {"q": None}, "cuts": [{"at_s": 5.0, "head": 1}], "may_lose_tail": True}),
            write(tmp_path / "c", {"superseded": [{"seq": 2, "scope": "", "value": {}}]}),
            write(tmp_path / "d", {"final": [{"scope": "", "value": {}, "revision": 0}], "may_lose_tail": False}),
        ]
    )
    assert history.outcomes == {"r": 1, "q": None}
    assert history.lives == [Life("p1", 0.0)]
    assert history.cuts == [PowerCut(5.0, 1)]
    assert history.may_lose_tail
    assert history.superseded == [Superseded(2, "", {})]
    assert history.final == [FinalScope("", {}, 0)]


def test_files_are_judged_as_the_history_in_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a", CALL, ANSWER, {"final": [{"scope": "", "value": {}, "revision": 0}]})
    assert [(violation.rule, violation.calls) for violation in check_files([path])] == [("lost-write", (2,))]


def test_a_line_that_is_nothing_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no member"):
        history_from_files([write(tmp_path / "a", {"else": 1})])
