"""The server of the how-to: its bug is found, its repaired form is clean, and other ways to spoil it are found too.

That the page's own commands do what it shows, is tested with the examples of all pages. Here it is its promises.
"""

from __future__ import annotations

import pytest

import strataflow.simulation  # noqa: F401  pytester forgets what a run inside of it has loaded: once is enough
from kit.doc_examples import examples, run
from kit.source_tree import ROOT

pytest_plugins = ["pytester"]

PAGE = "docs/how-to/test-your-agent-server.md"

STORE = "await session.transact(partial(remember, number=ticket.number, answer=answer))"
ONCE = '    if number not in working.get("answers", {}):\n        tx.patch'
KEEP = '    tx.patch(cwd={"working": {"answers": {number: answer}}})\n'
KEEP_ALONE = 'await session.patch_state(cwd={"working": {"answers": {ticket.number: answer}}})'

# Changes of the repaired server, and what the failure says then.
SPOILED = {
    "without a transaction": (
        [
            (STORE, "await remember(session, ticket.number, answer)"),
            ("def remember(tx: strataflow.Transaction,", "async def remember(session,"),
            ('tx.read("cwd.working").value', '(await session.read_state("cwd.working")).value'),
            ("tx.patch", "await session.patch_state"),
        ],
        r"assert \d == 12",
    ),
    "counted twice": ([(ONCE, "    if True:\n        tx.patch")], r"assert 1[3-9] == 12"),
    "in two patches": ([(KEEP, ""), (STORE, f"{STORE}\n            {KEEP_ALONE}")], r"assert 1[3-9] == 12"),
}


@pytest.fixture
def desk(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Desk(pytester)


class Desk:
    """The files of the page, and a way to change them."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        files = [example for example in examples(PAGE, (ROOT / PAGE).read_text(encoding="utf-8")) if example.file]
        for example in files:
            run(example, pytester.path)
        assert {example.file for example in files} == {"desk.py", "test_desk.py", "repair.diff"}

    def repair(self) -> None:
        self.pytester.run("git", "apply", "repair.diff")

    def change(self, before: str, after: str) -> None:
        file = self.pytester.path / "desk.py"
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))

    def test(self, *options: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess("-p", "strataflow.pytest_plugin", "-x", *options)


@pytest.mark.slow
def test_the_bug_of_the_page_is_found_within_twenty_seeds(desk: Desk) -> None:
    result = desk.test()
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.re_match_lines([r"VIOLATION assertion: .* was told 'Yes, says \w+.', but None is remembered"])
    result.stdout.re_match_lines([r"repeat: pytest 'test_desk.py::\w+\[seed(1?\d)\]' --strataflow-seed \1$"])


@pytest.mark.slow
def test_the_repaired_server_is_clean_in_its_worlds_and_more(desk: Desk) -> None:
    desk.repair()
    desk.test("--strataflow-seeds", "40").assert_outcomes(passed=40)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPOILED)
def test_each_way_to_spoil_the_repaired_server_is_found_within_twenty_seeds(name: str, desk: Desk) -> None:
    desk.repair()
    changes, text = SPOILED[name]
    for before, after in changes:
        desk.change(before, after)
    result = desk.test()
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.re_match_lines([rf".*{text}"])


@pytest.mark.slow
def test_what_only_crashes_bring_out_is_not_found_without_faults(desk: Desk) -> None:
    # So it is the faults that find it, and a lost update needs none.
    desk.test("--strataflow-faults", "none").assert_outcomes(passed=20)
    desk.repair()
    for before, after in SPOILED["without a transaction"][0]:
        desk.change(before, after)
    assert desk.test("--strataflow-faults", "none").parseoutcomes()["failed"] == 1
