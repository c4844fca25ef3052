"""Every statement of the specification that is in force has a test, and the list of them is up to date."""

from __future__ import annotations

from kit.acceptance_map import DOCUMENT, collected, document, expanded, markers, missing, unknown
from kit.source_tree import read


def test_every_statement_in_force_is_held_by_a_test() -> None:
    assert missing(collected()) == []


def test_no_marker_names_a_statement_that_does_not_exist() -> None:
    assert unknown(collected()) == []


def test_the_list_of_statements_and_tests_is_up_to_date() -> None:
    assert read(DOCUMENT) == document(collected()), "write it anew with: make acceptance"


def test_every_marked_function_is_a_test() -> None:
    assert [entry for entries in collected().values() for entry in entries if not entry[1].startswith("test_")] == []


def test_ranges_and_markers_are_read_as_written() -> None:
    assert expanded("T56-T58") == ["T56", "T57", "T58"]
    assert expanded("case store 3-5") == ["case store 3", "case store 4", "case store 5"]
    assert expanded("store 1.4.8-1.4.9") == ["store 1.4.8", "store 1.4.9"]
    assert expanded("Ours-7") == ["Ours-7"]
    source = "class S:\n    @holds('P1', 'O2')\n    @holds('T3')\n    def test_x(self): pass\n"
    assert sorted(markers(source)) == [("test_x", "O2"), ("test_x", "P1"), ("test_x", "T3")]
