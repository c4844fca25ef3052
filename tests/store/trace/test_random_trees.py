"""Random sessions: reopening gives the same tree, branch and context, and a naive model agrees with both."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.session_trees import FOLDER, assistant, ids, simulated_seams, simulated_tree, user
from strataflow.runtime.simulation import SimulatedDisk, SimulatedLocks
from strataflow.store.trace import TraceTree

PATH = f"{FOLDER}/s.jsonl"
Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            "user assistant custom level model label clear name compaction summary branch reset other reopen".split()
        ),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=60,
)


@attrs.define
class NaiveSession:
    """A session as a list of entries, all questions answered by looking at all of them."""

    entries: list[dict[str, Any]] = attrs.field(factory=list)
    leaf: str | None = None

    def take(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)
        self.leaf = entry["id"]

    def by_id(self, entry_id: str | None) -> dict[str, Any] | None:
        return next((entry for entry in self.entries if entry["id"] == entry_id), None)

    def branch(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        entry = self.by_id(self.leaf)
        while entry is not None:
            found.insert(0, entry)
            entry = self.by_id(entry["parentId"])
        return found

    def labels(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in self.entries:
            if entry["type"] == "label":
                found[entry["targetId"]] = entry.get("label", "")
        return {target: label for target, label in found.items() if label}

    def context_ids(self) -> list[str]:
        branch = self.branch()
        compactions = [place for place, entry in enumerate(branch) if entry["type"] == "compaction"]
        if not compactions:
            return ids(branch)
        last = compactions[-1]
        before = ids(branch[:last])
        first = branch[last]["firstKeptEntryId"]
        kept = before[before.index(first) :] if first in before else []
        return [branch[last]["id"], *kept, *ids(branch[last + 1 :])]

    def level(self) -> str:
        levels = [entry["thinkingLevel"] for entry in self.branch() if entry["type"] == "thinking_level_change"]
        return levels[-1] if levels else "off"


class Play:
    """Steps on a real tree and on the model; where a step needs an entry, its number chooses one."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.locks = SimulatedLocks(self.disk)
        self.tree = self.opened("one")
        self.model = NaiveSession()
        self._added(self.tree.append_message(assistant("begin")))

    def opened(self, process: str) -> TraceTree:
        return simulated_tree(simulated_seams(self.disk, process, self.locks))

    def _added(self, entry_id: str) -> None:
        entry = self.tree.get_entry(entry_id)
        assert entry is not None
        self.model.take(entry)

    def step(self, kind: str, number: int) -> None:
        tree, chosen = self.tree, self.model.entries[number % len(self.model.entries)]["id"]
        match kind:
            case "user":
                self._added(tree.append_message(user(f"u{number}")))
            case "assistant":
                self._added(tree.append_message(assistant(f"a{number}", model=f"m{number}")))
            case "custom":
                self._added(tree.append_custom_entry("x", {"n": number}))
            case "level":
                self._added(tree.append_thinking_level_change(f"level{number}"))
            case "model":
                self._added(tree.append_model_change("p", f"m{number}"))
            case "label":
                self._added(tree.append_label_change(chosen, f"label {number}"))
            case "clear":
                self._added(tree.append_label_change(chosen, "" if number % 2 else None))
            case "name":
                self._added(tree.append_session_info(f" name {number} " * (number % 2)))
            case "compaction":
                self._added(tree.append_compaction(f"S{number}", chosen, number))
            case "summary":
                self._added(tree.branch_with_summary(chosen if number % 4 else None, "left" * (number % 3)))
            case "branch":
                tree.branch(chosen)
                self.model.leaf = chosen
            case "reset":
                tree.reset_leaf()
                self.model.leaf = None
            case "other":
                self._beside(number)
            case _:
                self.tree = self.opened("one again")
                self.model.leaf = self.model.entries[-1]["id"]

    def _beside(self, number: int) -> None:
        was_at_end = self.model.leaf == self.model.entries[-1]["id"]
        other = self.opened(f"other {len(self.model.entries)}")
        entry = other.get_entry(other.append_message(user(f"other {number}")))
        assert entry is not None
        leaf = self.model.leaf
        self.model.take(entry)
        if not was_at_end:
            self.model.leaf = leaf
        assert self.tree.refresh() == 1

    def check(self, tree: TraceTree) -> None:
        model = self.model
        assert tree.get_entries() == model.entries
        assert tree.get_leaf_id() == model.leaf
        assert tree.get_branch() == model.branch()
        assert ids(tree.build_context_entries()) == model.context_ids()
        assert tree.build_session_context().thinking_level == model.level()
        labels = {each["id"]: tree.get_label(each["id"]) for each in model.entries}
        assert {key: label for key, label in labels.items() if label is not None} == model.labels()
        found, waiting = 0, list(tree.get_tree())
        while waiting:
            node = waiting.pop()
            waiting += node["children"]
            assert all(child["entry"]["parentId"] == node["entry"]["id"] for child in node["children"])
            assert node.get("label") == model.labels().get(node["entry"]["id"])
            found += 1
        assert found == len(model.entries)


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_random_sessions_are_what_a_naive_model_says_also_when_they_are_opened_again(steps: list[Step]) -> None:
    play = Play()
    for kind, number in steps:
        play.step(kind, number)
    play.check(play.tree)
    again = play.opened("again")
    play.model.leaf = play.model.entries[-1]["id"]
    play.check(again)
    assert again.build_session_context() == again.build_session_context(play.model.leaf)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_a_copied_path_says_what_the_path_has_said(steps: list[Step]) -> None:
    play = Play()
    for kind, number in steps:
        play.step(kind, number)
    tree, leaf = play.tree, play.tree.get_leaf_id()
    if leaf is None:
        return
    before = tree.build_session_context()
    wanted = [entry for entry in tree.get_branch() if entry["type"] != "label"]
    labels = {each["id"]: label for each in wanted if (label := tree.get_label(each["id"])) is not None}
    tree.create_branched_session(leaf)
    assert tree.build_session_context() == before
    branch = tree.get_branch()
    assert branch == tree.get_entries()
    assert [entry["id"] for entry in branch[: len(wanted)]] == ids(wanted)
    assert {entry["targetId"]: entry["label"] for entry in branch[len(wanted) :]} == labels
