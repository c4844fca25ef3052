"""What is broken in a session file is named by its line, and a repaired copy is in order and loses nothing readable."""

from __future__ import annotations

import json
import random

import pytest

from kit.session_trees import FOLDER, HEADER, message_line, simulated_seams, simulated_tree
from strataflow.runtime.simulation import SimulatedDisk
from strataflow.store import StoreError
from strataflow.store.trace import FINDING_CODES, Mended, check_session, mend_session

PATH = f"{FOLDER}/s.jsonl"
TARGET = f"{FOLDER}/repaired/s.jsonl"


def call(entry_id: str, parent: str | None, *calls: str) -> str:
    blocks = [{"type": "toolCall", "id": each, "name": "bash", "arguments": {}} for each in calls]
    base = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": "2025-01-01T00:00:00.000Z"}
    return json.dumps({**base, "message": {"role": "assistant", "content": blocks}})


def result(entry_id: str, parent: str | None, call_id: str) -> str:
    base = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": "2025-01-01T00:00:00.000Z"}
    return json.dumps({**base, "message": {"role": "toolResult", "toolCallId": call_id, "content": []}})


def disk_with(*lines: str, header: str = HEADER, end: str = "\n") -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.plant(PATH, "file", ("\n".join([header, *lines]) + end).encode())
    return disk


def found(disk: SimulatedDisk, path: str = PATH) -> list[tuple[str, str]]:
    """Code and beginning of each finding."""
    return [(finding.code, finding.words.partition(":")[0]) for finding in check_session(simulated_seams(disk), path)]


def mended(disk: SimulatedDisk) -> Mended:
    before = disk.contents()[PATH]
    done = mend_session(simulated_seams(disk), PATH, TARGET)
    assert disk.contents()[PATH] == before
    assert done.path == TARGET
    return done


A, B = message_line("a", None), message_line("b", "a")


@pytest.mark.parametrize(
    "lines, wanted",
    [
        ([A, B], []),
        ([A, "{bad", B], [("bad-line", "line 3")]),
        ([A, "", "  ", B], []),
        ([A, message_line("c", "lost")], [("orphan", "line 3")]),
        ([A, message_line("a", None, "again")], [("double-id", "line 3")]),
        ([message_line("x", "y"), message_line("y", "x"), message_line("z", "y")], [("cycle", "line 2")]),
        ([message_line("x", "x")], [("cycle", "line 2")]),
        ([A, HEADER], [("second-header", "line 3")]),
        ([A, '{"type":"custom"}'], [("no-id", "line 3")]),
        ([A, call("c", "a", "1", "2"), result("r", "c", "1")], [("call-without-result", "line 3")]),
        ([A, call("c", "a", "1").replace('"role"', '"stopReason":"aborted","role"')], []),
        ([A, call("c", "a", "1"), result("r", "c", "1"), result("s", "r", "1")], [("result-without-call", "line 5")]),
        ([A, result("r", "a", "1")], [("result-without-call", "line 3")]),
        (
            [A, result("r", "a", "1"), call("c", "r", "1")],
            [("result-without-call", "line 3"), ("call-without-result", "line 4")],
        ),
        ([A, '{"type":"label","id":"l","parentId":"a","targetId":"q","label":"x"}'], [("unknown-target", "line 3")]),
        ([A, '{"type":"compaction","id":"l","parentId":"a","firstKeptEntryId":"q"}'], [("unknown-target", "line 3")]),
    ],
)
def test_each_kind_of_damage_is_named_by_its_line(lines: list[str], wanted: list[tuple[str, str]]) -> None:
    assert found(disk_with(*lines)) == wanted
    assert {code for code, _ in wanted} <= set(FINDING_CODES)


def test_a_call_that_is_answered_on_two_branches_is_answered() -> None:
    lines = [call("c", None, "1", "2"), result("r1", "c", "1"), result("r2", "r1", "2"), message_line("d", "r1")]
    again = [result("s1", "c", "1"), result("s2", "s1", "2")]  # it was called again on a branch of its own
    assert found(disk_with(*lines, *again)) == []


@pytest.mark.parametrize("reason", ["aborted", "error"])
def test_calls_of_an_answer_that_did_not_end_need_no_result(reason: str) -> None:
    answer = json.loads(call("c", "a", "1"))
    answer["message"]["stopReason"] = reason
    disk = disk_with(A, json.dumps(answer))
    assert found(disk) == []
    assert mended(disk).changes == ()


def test_a_call_without_a_result_is_repaired_by_one_that_says_so_right_behind_it() -> None:
    lines = [call("c", "a", "1", "2"), result("r", "c", "1"), message_line("u", "r"), call("d", "u", "3")]
    disk = disk_with(A, *lines)
    assert [code for code, _ in found(disk)] == ["call-without-result"] * 2
    done = mended(disk)
    assert found(disk, TARGET) == []
    branch = simulated_tree(simulated_seams(disk), TARGET).get_branch()
    roles = [entry["message"]["role"] for entry in branch]
    assert roles == ["user", "assistant", "toolResult", "toolResult", "user", "assistant", "toolResult"]
    made = branch[2], branch[6]
    assert [entry["message"]["toolCallId"] for entry in made] == ["2", "3"]
    assert all(entry["message"]["isError"] and entry["message"]["toolName"] == "bash" for entry in made)
    assert (branch[3]["id"], branch[3]["parentId"], branch[4]["parentId"]) == ("r", made[0]["id"], "r")
    assert (done.entries, len(done.changes)) == (7, 2)
    written = disk.contents()[TARGET].decode().splitlines()
    assert [written[1], written[5]] == [A, lines[2]]  # what did not have to change is as it was


def test_ends_and_beginnings_of_files_are_looked_at_too() -> None:
    assert found(disk_with(A, B, end="")) == [("no-newline", "line 3")]
    assert found(disk_with(A, '{"type":"mess', end="")) == [("torn-line", "line 3")]
    assert found(disk_with(B, header=A)) == [("no-header", "line 1")]
    assert [code for code, _ in found(disk_with(header="nothing"))] == ["bad-line", "no-header"]
    assert found(disk_with(), f"{FOLDER}/nowhere.jsonl") == [("damaged", "is no session")]
    disk = disk_with(A, "{half", end="")
    simulated_tree(simulated_seams(disk)).append_custom_entry("x")
    assert [code for code, _ in found(disk)] == ["torn-aside"]


def test_a_file_of_version_one_is_in_order_without_ids() -> None:
    head = '{"type":"session","id":"s","timestamp":"2024-11-01T10:00:00.000Z","cwd":"/project"}'
    assert found(disk_with('{"type":"message","message":{"role":"user","content":"x"}}', header=head)) == []


@pytest.mark.parametrize(
    "lines, ids",
    [
        ([A, "{bad", message_line("c", "lost"), message_line("d", "c")], ["a", "c", "d"]),
        ([A, A, B], ["a", "b"]),
        ([message_line("x", "y"), message_line("y", "x"), message_line("z", "y")], ["x", "y", "z"]),
        ([A, HEADER, B], ["a", "b"]),
        ([message_line("first", "gone"), message_line("b", "first")], ["first", "b"]),
    ],
)
def test_a_repaired_file_is_in_order_and_one_branch_again(lines: list[str], ids: list[str]) -> None:
    disk = disk_with(*lines)
    done = mended(disk)
    assert found(disk, TARGET) == []
    tree = simulated_tree(simulated_seams(disk), TARGET)
    assert [entry["id"] for entry in tree.get_entries()] == ids
    assert len(tree.get_branch()) == len(ids) == done.entries
    assert done.changes


def test_of_two_entries_with_one_id_both_stay_and_the_later_keeps_it() -> None:
    disk = disk_with(A, message_line("a", None, "again"), B)
    done = mended(disk)
    first, second, third = simulated_tree(simulated_seams(disk), TARGET).get_entries()
    assert (second["id"], third["parentId"], second["message"]["content"]) == ("a", "a", "again")
    assert first["id"] not in ("a", "b")
    assert first["message"]["content"] == "x"
    assert done.changes == (f"line 2: a is now {first['id']}: a later line has that id",)


def test_what_was_in_order_is_copied_byte_by_byte_and_headers_are_made_where_none_is() -> None:
    odd = '{ "type" : "custom", "id":"b",  "parentId":"a", "n": 1.0 }'
    disk = disk_with(A, odd)
    assert mended(disk).changes == ()
    assert disk.contents()[TARGET] == disk.contents()[PATH]
    disk = disk_with(B, header=A)
    mended(disk)
    assert found(disk, TARGET) == []
    assert disk.contents()[TARGET].split(b"\n")[1:] == f"{A}\n{B}\n".encode().split(b"\n")


def test_what_is_left_of_a_header_without_an_id_goes_into_the_new_one() -> None:
    disk = disk_with(A, '{"type":"session"}', B, header=HEADER.replace('"id":"s"', '"id":7'))
    assert [code for code, _ in found(disk)] == ["no-header", "second-header"]
    done = mended(disk)
    assert found(disk, TARGET) == []
    tree = simulated_tree(simulated_seams(disk), TARGET)
    old, new = json.loads(HEADER), tree.get_header()
    assert ({**new, "id": "s"}, len(new["id"])) == (old, 36)
    assert (tree.get_branch_ids(), done.entries) == (["a", "b"], 2)


def test_nothing_readable_and_an_existing_target_are_refused() -> None:
    with pytest.raises(StoreError, match="nothing can be repaired"):
        mended(disk_with(header="{bad"))
    disk = disk_with(A)
    disk.plant(TARGET, "file", b"mine")
    with pytest.raises(StoreError, match="exists already"):
        mended(disk)
    assert disk.contents()[TARGET] == b"mine"


@pytest.mark.parametrize("seed", range(60))
def test_a_file_damaged_at_random_is_repaired_to_one_without_a_problem(seed: int) -> None:
    chance = random.Random(seed)
    lines = [message_line("0", None)]
    lines += [message_line(str(n), str(chance.randrange(n))) for n in range(1, 40)]
    damages = [
        lambda line: line[: chance.randrange(1, len(line))],
        lambda line: "\x00" * 30,
        lambda line: HEADER,
        lambda line: line.replace('"id"', '"ID"'),
        lambda line: message_line(str(chance.randrange(40)), str(chance.randrange(60)), "other"),
        lambda line: line + line,
    ]
    for _ in range(8):
        place = chance.randrange(len(lines))
        lines[place] = chance.choice(damages)(lines[place])
    disk = disk_with(*lines, end=chance.choice(["\n", "", "\r\n"]))
    done = mended(disk)
    left = [code for code, _ in found(disk, TARGET)]
    assert left == [], seed
    assert len(simulated_tree(simulated_seams(disk), TARGET).get_entries()) == done.entries
