"""Reading the present: paths, selections, keys (T33 to T51)."""

from __future__ import annotations

import copy

import pytest

from kit.holds import holds
from kit.pure_views import ORIGIN, ask, code, scope, view
from strataflow.store.algebra import ReadError, StoreError, View, parse_path, read, read_shared

MEMORY = {"memory": [1, 2, 3], "rule": "strict!", "enabled": True}


@holds("T39", "T41", "case agent 1", "case agent 2")
def test_a_session_value_reads_the_same_by_every_root_that_shows_it() -> None:
    seen = view(session={"working": {"a": "A"}})
    assert [ask(seen, path) for path in ("session.working.a", "working.a", "effective[0].working.a")] == [
        {"value": "A"}
    ] * 3


@holds("T46", "T48", "case agent 3", "case agent 4")
def test_empty_memory_reads_as_an_empty_root_and_absent_planes_as_null() -> None:
    assert ask(view(), "effective") == {"value": {}}
    assert ask(view(), "effective", "keys") == {"meta": {"type": "object", "size": 0}, "keys": {}}
    assert ask(view(), ["session.response", "cwd.lazy", "global.intents"]) == {"value": [None, None, None]}
    assert code(view(), "cwd.lazy", "keys") == "E_MISSING"


@holds("T48", "T54", "case agent 5")
def test_an_unknown_top_level_field_does_not_exist_for_readers() -> None:
    seen = view(global_={"foreign": {"x": 1}, "working": {"a": 1}})
    assert code(seen, "global.foreign") == "E_MISSING"
    assert ask(seen, "global") == {"value": {"working": {"a": 1}}}
    assert ask(seen, "global.foreign", "patch") == {"patch": {}}


@holds("T50", "T51", "case agent 6-8")
def test_keys_give_kinds_and_sizes_and_never_bodies() -> None:
    seen = view(cwd={"working": MEMORY})
    kinds = {"memory": "array", "rule": "string", "enabled": "boolean"}
    assert ask(seen, "cwd.working", "keys") == {"meta": {"type": "object", "size": 3}, "keys": kinds}
    assert ask(seen, "cwd.working.memory", "keys") == {"meta": {"type": "array", "length": 3}, "keys": []}
    assert ask(seen, "cwd.working.rule", "keys") == {"meta": {"type": "string", "length": 7}, "keys": []}
    assert ask(seen, "cwd.working.enabled", "keys") == {"meta": {"type": "boolean"}, "keys": []}


@holds("T44", "T45", "case agent 9-12")
def test_ranges_are_half_open_and_strict() -> None:
    seen = view(cwd={"working": MEMORY})
    assert ask(seen, ["cwd.working.memory[0:2]", "cwd.working.memory[0..2]"]) == {"value": [[1, 2], [1, 2]]}
    assert ask(seen, "cwd.working.memory[3:3]") == {"value": []}
    for bad in ("[0:4]", "[2:1]", "[3]", f"[{'9' * 5000}]"):
        assert code(seen, f"cwd.working.memory{bad}") == "E_RANGE"
    with pytest.raises(ReadError, match=r"range 0:4.*length 3"):
        ask(seen, "cwd.working.memory[0:4]")
    assert code(seen, "cwd.working[0]") == "E_KIND"
    assert code(seen, "effective.working.rule[0:1]") == "E_KIND"
    assert code(seen, "cwd.working.memory.length") == "E_MISSING"


@holds("T39", "T40", "case agent 12")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "state",
        "other.working",
        "effective[-1]",
        "effective[0.5]",
        "effective[0:1]",
        "effective[0][0]",
        "CWD",
        "cwd ",
        "cwd.working.m[0.2]",
        "cwd.working.план",
        "cwd.working.m[1:]",
        "cwd.working.m[*]",
        "working\n",
        "cwd.a\n",
        "cwd[٣]",
    ],
)
def test_a_malformed_path_is_refused_by_the_grammar(text: str) -> None:
    assert code(view(), text) == "E_PATH"


@holds("T40", "case agent 12")
def test_a_key_outside_the_grammar_is_answered_with_the_grammar() -> None:
    with pytest.raises(ReadError, match="A-Za-z_"):
        parse_path("cwd.working.план")


@holds("T39", "T40")
def test_a_bare_plane_takes_indexes_and_no_offset() -> None:
    path = parse_path("working[007].a")
    assert (path.root, path.offset, path.steps) == ("effective", 0, ("working", 7, "a"))
    assert parse_path("cwd[02]").offset == 2


@holds("T44", "Ours-9")
def test_an_error_names_the_place_that_was_reached() -> None:
    seen = view(cwd={"working": {"m": [[1, 2], 3]}})
    for path, place in (
        ("cwd[0].working.m[0:1][0].x", "cwd[0].working.m[0:1][0].x"),
        ("working.m[01].x.y", "working.m[1].x"),
        ("cwd.nothing.y", "cwd.nothing"),
        ("cwd.lazy.y", "cwd.lazy"),
        ("working.x.y", "working.x"),
    ):
        with pytest.raises(ReadError) as caught:
            ask(seen, path)
        assert (caught.value.code, caught.value.data["at"]) == ("E_MISSING", place)


@holds("T38", "case agent 13", "case agent 14")
def test_a_batch_keeps_the_request_order_and_fails_as_a_whole() -> None:
    seen = view(cwd={"working": MEMORY})
    paths = ["cwd.working.rule", "cwd.working.memory"]
    assert ask(seen, paths) == {"value": ["strict!", [1, 2, 3]]}
    assert [meta["type"] for meta in ask(seen, paths, "keys")["meta"]] == ["string", "array"]
    assert ask(seen, [paths[0], paths[0]]) == {"value": ["strict!", "strict!"]}
    assert ask(seen, [paths[0]]) == {"value": "strict!"}
    assert code(seen, [paths[0], "cwd.working.memory[3]"]) == "E_RANGE"
    assert code(seen, ["cwd.working.zz", "nope"]) == "E_PATH"


@holds("T49", "case agent 26")
def test_old_empty_objects_are_returned_as_they_are() -> None:
    seen = view(global_={"working": {"chain": {"empty": {}}}})
    assert ask(seen, ["global.working.chain", "global[0].working.chain"]) == {"value": [{"empty": {}}] * 2}


@holds("T46", "T47", "case agent 27", "case agent 28")
def test_lazy_is_read_by_its_name_and_never_with_a_root() -> None:
    seen = view(
        {"lazy": {"memory": ["g"], "rules": {"r": 1}}},
        {"lazy": {"memory": ["c"], "rules": {"p": 1}}},
        {"lazy": {"rules": {"s": 1}}},
    )
    assert ask(seen, "effective.lazy") == {"value": {"memory": ["c"], "rules": {"r": 1, "p": 1, "s": 1}}}
    assert ask(seen, ["effective", "cwd"]) == {"value": [{}, {}]}


@holds("P25", "Ours-6")
def test_a_narrower_plain_value_hides_objects_on_both_sides_of_it() -> None:
    seen = view({"working": {"v": {"a": 1}}}, {"working": {"v": [9]}}, {"working": {"v": {"b": 2}}})
    assert ask(seen, ["working.v", "working.v.b"]) == {"value": [{"b": 2}, 2]}
    assert code(seen, "working.v.a") == "E_MISSING"


@holds("P25", "store 1.4.8")
def test_an_old_response_of_a_broader_scope_shows_until_a_narrower_one_exists() -> None:
    assert ask(view(global_={"response": "old"}, session={"response": ""}), "response") == {"value": "old"}
    assert ask(view(global_={"response": "old"}, session={"response": "new"}), "effective") == {
        "value": {"response": "new"}
    }


@holds("T46", "A9")
def test_runtime_members_of_old_cards_are_stored_but_not_read() -> None:
    seen = view(
        global_={"artifacts": {"card": {"description": "d", "hash": "h"}}}, cwd={"artifacts": {"card": {"kind": "k"}}}
    )
    card = {"description": "d", "kind": "k"}
    assert ask(seen, ["effective", "effective.artifacts", "artifacts.card"]) == {
        "value": [{"artifacts": {"card": card}}, {"card": card}, card]
    }
    assert code(seen, "global.artifacts.card.hash") == "E_MISSING"
    assert seen.scopes["global"].value["artifacts"]["card"]["hash"] == "h"


@holds("T36")
def test_a_read_result_is_detached_and_leaves_the_state_alone() -> None:
    value = {"working": {"l": [1, {"a": 1}]}, "lazy": {"x": {}}}
    before = copy.deepcopy(value)
    seen = view(cwd=value)
    for path in ("cwd", "effective", "cwd.working.l", "effective.lazy"):
        answer = read(seen, {"path": path})
        assert answer.value == read_shared(seen, {"path": path}).value
        answer.value.clear()
    assert value == before


@holds("T35", "Ours-18")
def test_a_scope_that_cannot_be_read_fails_only_the_paths_that_need_it() -> None:
    reason = StoreError("E_CORRUPT", "session memory is damaged", file="checkpoint.json")
    blocked = View(
        {"global": scope({}), "cwd": scope({"working": {"a": 1}})}, lambda: (ORIGIN,), 7, {"session": reason}
    )
    assert ask(blocked, "cwd.working.a") == {"value": 1}
    for path in ("session", "effective", "working.a"):
        with pytest.raises(StoreError, match="damaged") as caught:
            ask(blocked, path)
        assert caught.value is not reason
        assert caught.value.data == reason.data
