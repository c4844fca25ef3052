"""The files of a scope: what is read, what is written, what is kept (store 1.3 to 1.9, cases 10 to 30)."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from kit.hand_stores import EMPTY, ORIGIN, PRIVATE_FILES, HandStore, boundary, canonical, write_example
from kit.holds import holds
from kit.runtimes import opened, refused, session_of, value, values
from strataflow.store.codec import canonical as canonical_bytes
from strataflow.store.codec import identity


@holds("store 1.3.1", "store 1.3.2", "case store 10")
async def test_equal_memory_is_written_as_equal_sorted_bytes(tmp_path: Path) -> None:
    texts = []
    for order in (1, -1):
        store = HandStore(tmp_path / str(order))
        async with session_of(store.root) as session:
            await session.patch_state(session={"working": dict([("z", 1), ("a", 2), ("ü𝄞", "é")][::order])})
            await session.accept_response("Done")
        texts.append(store.path("session", "patches.jsonl").read_bytes())
    assert texts[0] == texts[1] == '{"working":{"a":2,"z":1,"ü𝄞":"é"}}\n{"response":"Done"}\n'.encode()
    for name in PRIVATE_FILES:
        text = store.path("session", name).read_text(encoding="utf-8")
        assert text == "".join(canonical(json.loads(line)) for line in text.splitlines())


@holds("store 1.3.3", "store 1.3.4", "Ours-5", "P15")
async def test_a_number_keeps_its_spelling_until_it_changes(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    store.write()
    store.put("cwd", "checkpoint.json", '{"working":{"a":1.0,"b":1e3,"c":true}}\n')
    async with session_of(store.root) as session:
        receipt = await session.patch_state(cwd={"working": {"a": 1, "b": 1000}})
        assert not receipt.changed
        receipt = await session.patch_state(cwd={"working": {"c": 1}})
        assert receipt.changed
        assert repr(await value(session, "cwd.working")) == "{'a': 1.0, 'b': 1000.0, 'c': 1}"


@holds("store 1.3.5", "store 1.4.6", "case store 11", "case store 12", "T48", "case agent 5")
async def test_unknown_fields_are_invisible_and_go_with_the_next_write(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    text = '{ "extra": {"y": 2},\n  "contract": {"x": 1, "more": {"kept": []}} }'
    store.put("global", "checkpoint.json", text)
    before = store.bytes()
    async with session_of(tmp_path) as session:
        with refused("E_MISSING"):
            await session.read_state("global.extra")
        assert await value(session, "global") == {"contract": {"x": 1, "more": {"kept": []}}}
        await session.patch_state(session={"working": {"a": 1}})
    assert store.path("global", "checkpoint.json").read_bytes() == before["checkpoint.json"] == text.encode()
    async with session_of(tmp_path) as session:
        await session.patch_state(global_={"contract": {"x": 2}})
    assert store.get("global", "checkpoint.json") == {"contract": {"x": 1, "more": {"kept": []}}}
    assert store.get("global", "patches.jsonl") == [{"contract": {"x": 2}}]


@holds("store 1.4.6")
async def test_a_patch_of_unknown_fields_alone_keeps_its_place_in_history(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("session", tail=[(2, {"extra": 1}), (3, {"working": {"a": 1}})])
    store.write_run([2, 3])
    async with session_of(tmp_path) as session:
        assert await values(session, "session[0]", "session[1]", "session[2]") == [{"working": {"a": 1}}, {}, {}]
        assert (await session.read_state("session.patches[1]")).to_json() == {"patch": {}}
        assert (await session.read_state("session.patches[1]")).transition_id == "T2"


@holds("store 1.4.1", "case store 13")
async def test_an_empty_session_inherits_and_shows_no_empty_planes(tmp_path: Path) -> None:
    HandStore(tmp_path).write(global_={"contract": {"x": 1}}, cwd={"working": {"y": 2}})
    async with session_of(tmp_path) as session:
        assert await values(session, "session", "effective") == [{}, {"contract": {"x": 1}, "working": {"y": 2}}]


@holds("store 1.4.2", "store 1.4.3", "store 1.4.4")
async def test_a_new_scope_is_an_empty_object_with_an_empty_tail(tmp_path: Path) -> None:
    store = HandStore(tmp_path)
    async with session_of(tmp_path):
        pass
    for scope in ("global", "cwd", "session"):
        assert store.path(scope, "checkpoint.json").read_bytes() == b"{}\n"
        assert store.path(scope, "patches.jsonl").read_bytes() == b""
    assert identity(b"{}\n") == "sha256:ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"
    assert store.get("cwd", "meta.json")["owner"] == {"cwd": "/project"}
    assert "owner" not in store.get("global", "meta.json") | store.get("session", "meta.json")


@holds("store 1.4.5", "store 1.4.8", "P25")
async def test_a_stored_patch_may_remove_a_plane_and_hold_an_empty_answer(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("session", {"response": "Old", "lazy": {"a": 1}}, [(2, {"lazy": None}), (3, {"response": ""})])
    store.write_scope("global", {"response": "shared"})
    store.write_run([2, 3])
    async with session_of(tmp_path) as session:
        assert await values(session, "session", "session.response", "session[1].response") == [{}, None, "Old"]
        # A checkpoint of a broader scope may hold an old answer; it shows while the session has none.
        assert await value(session, "effective.response") == "shared"
        assert await values(session, "session[2].lazy", "session[1].lazy") == [{"a": 1}, None]


@holds("store 1.5.3", "case store 20")
async def test_a_missing_revision_is_the_number_of_lines_and_stored_next(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("cwd", tail=[(n, {"working": {"n": n}}) for n in (2, 3, 4)])
    meta = store.get("cwd", "meta.json")
    del meta["temporal"]["revision"]
    store.put("cwd", "meta.json", meta | {"version": 1})
    store.write_run([2, 3, 4])
    async with session_of(tmp_path) as session:
        assert (await session.status())["revision"] == "g0c3s0"
        await session.patch_state(cwd={"working": {"n": 5}})
    meta = store.get("cwd", "meta.json")
    assert (meta["version"], meta["temporal"]["revision"]) == (2, 4)


@holds("store 1.5.7", "case store 23")
async def test_foreign_members_of_meta_survive_and_old_ones_of_a_session_go(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    foreign = {"foreign": {"keep": [True, None]}, "step": 3, "identity": {}}
    for scope in ("global", "cwd", "session"):
        store.edit(scope, "meta.json", **foreign)
    store.edit("global", "meta.json", owner="nobody's business")
    async with session_of(tmp_path) as session:
        await session.patch_state(
            global_={"working": {"a": 1}}, cwd={"working": {"a": 1}}, session={"working": {"a": 1}}
        )
    assert store.get("session", "meta.json").keys() == {"foreign", "artifacts", "temporal", "version"}
    for scope in ("global", "cwd"):
        meta = store.get(scope, "meta.json")
        assert {name: meta[name] for name in foreign} == foreign
    assert store.get("global", "meta.json")["owner"] == "nobody's business"


@holds("store 1.5.6", "store 1.5.8", "A8")
async def test_malformed_evidence_is_dropped_alone_and_evidence_goes_with_its_card(tmp_path: Path) -> None:
    cards = {path: {"description": "d"} for path in ("/good", "/bad", "/gone")}
    good = {"sourceFingerprint": {"size": 3, "mtimeNs": "-12"}, "compilerRevision": "artifact-v1"}
    store = HandStore(tmp_path).write(cwd={"artifacts": cards})
    store.edit("cwd", "meta.json", artifacts={"/good": good, "/bad": {"unknown": 1}, "/gone": good, "/text": "x"})
    async with session_of(tmp_path) as session:
        await session.patch_state(cwd={"artifacts": {"/gone": None}})
    assert store.get("cwd", "meta.json")["artifacts"] == {"/good": good}


@holds("store 1.5.8")
async def test_a_change_of_mode_prunes_no_evidence(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.edit("session", "meta.json", artifacts={"/stale": {"compilerRevision": "artifact-v1"}})
    before = store.path("session", "meta.json").read_bytes()
    async with session_of(tmp_path, mode="passive") as session:
        await session.set_mode("active")
        await session.set_mode("passive")
    assert store.path("session", "meta.json").read_bytes() == before


@holds("store 1.6.1", "store 1.6.2", "case store 25")
@pytest.mark.parametrize(
    "config, mode",
    [
        ('{"enabled":true}', "active"),
        ('{ "enabled" : false }\n', "passive"),
        ('{"mode":"active"}\n', "active"),
        ('{"mode":"passive"}\n', "passive"),
        ('{"mode":"off"}\n', "off"),
    ],
)
async def test_a_stored_mode_is_taken_also_in_its_old_form(tmp_path: Path, config: str, mode: str) -> None:
    store = HandStore(tmp_path).write()
    store.put("session", "config.json", config)
    async with session_of(tmp_path, mode=None) as session:
        assert session.mode == mode
    assert store.path("session", "config.json").read_text() == config
    async with session_of(tmp_path, mode="active") as session:
        await session.patch_state(session={"working": {"a": 1}})
    assert store.path("session", "config.json").read_text() == '{"mode":"active"}\n'


@holds("store 1.7.4", "store 1.7.5")
async def test_unknown_members_of_the_run_record_are_lost_with_its_next_write(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    old = {"attempt": 7, "error": "e", "instruction": "i"}
    store.write_run(specification="do it", artifacts={}, temporal=[], mine=1, validation=old)
    async with session_of(tmp_path, mode="passive") as session:
        await session.patch_state(session={"working": {"a": 1}})
    runtime = store.get("session", "runtime.json")
    assert runtime.keys() == {"bootstrap", "identity", "lineage", "specification", "step", "version"}
    assert (runtime["specification"], runtime["step"]) == ("do it", 1)


@holds("store 1.8", "store 1.9.5", "store 1.9.6", "store 1.1.1")
async def test_the_worked_example_opens_and_is_what_we_would_write(tmp_path: Path) -> None:
    store = write_example(tmp_path)
    before = store.bytes()
    async with session_of(tmp_path, "demo", cwd=store.cwd, mode=None) as session:
        status = await session.status()
        assert (status["mode"], status["revision"], status["step"], status["history_depth"]) == (
            "active",
            "g0c1s2",
            2,
            2,
        )
        assert await value(session, "effective") == {
            "intents": {"ship": "publish 1.2"},
            "working": {"build": "green"},
            "response": "Done.",
        }
        assert await values(session, "effective[1].response", "effective[2]") == [None, {}]
    assert store.bytes() == before


@holds("store 1.8", "store 1.4.3", "store 1.7.2", "store 1.9.4", "Ours-15", "store 3.1.7")
async def test_the_worked_example_comes_out_of_its_own_calls(tmp_path: Path) -> None:
    store = HandStore(tmp_path, "/srv/app/demo", "demo")
    async with session_of(tmp_path, "demo", cwd=store.cwd) as session:
        await session.patch_state(cwd={"working": {"build": "green"}}, session={"intents": {"ship": "publish 1.2"}})
        await session.accept_response("Done.")
    runtime = store.get("session", "runtime.json")
    origin, first, second = runtime["lineage"]
    assert origin["id"].startswith("patch:")
    assert (origin["parent"], origin["position"], runtime["step"], runtime["bootstrap"]) == (None, 1, 2, False)
    assert (first["parent"], first["position"]) == (origin["id"], 2)
    assert (second["parent"], second["position"]) == (first["id"], 3)
    assert len({origin["id"], first["id"], second["id"]}) == 3
    expected = {
        "global": ([], [], 0),
        "cwd": ([{"working": {"build": "green"}}], [first], 1),
        "session": ([{"intents": {"ship": "publish 1.2"}}, {"response": "Done."}], [first, second], 2),
    }
    for scope, (lines, boundaries, revision) in expected.items():
        base = {"id": f"{origin['id']}:empty", "parent": None, "position": 0}
        assert store.get(scope, "checkpoint.json") == {}
        assert store.get(scope, "patches.jsonl") == lines
        assert store.get(scope, "meta.json")["temporal"] == {
            "checkpoint": base,
            "patches": boundaries,
            "revision": revision,
        }
    # Nothing of the runtime is a Git id, a receipt or a policy.
    assert runtime.keys() == {"bootstrap", "identity", "lineage", "step", "version"}


@holds("store 1.9.1")
def test_a_file_is_identified_by_the_hash_of_its_raw_bytes() -> None:
    assert identity(None) == "missing"
    assert identity(b"\xff") == "sha256:" + hashlib.sha256(b"\xff").hexdigest()
    assert canonical_bytes({"b": [1], "a": "é"}) == '{"a":"é","b":[1]}\n'.encode()


@holds("store 1.9.2", "case store 30", "J9")
async def test_a_store_copied_elsewhere_is_another_store(tmp_path: Path) -> None:
    first = HandStore(tmp_path / "first").write(global_={"working": {"a": 1}})
    async with opened(first.root) as runtime:
        original = await runtime.open_session("/project", "s1", "active")
        await runtime.checkpoint()
        shutil.copytree(first.root, tmp_path / "second")
        # The copy carries the lock and the list of participants of the original, and opens all the same.
        async with session_of(tmp_path / "second") as copy:
            await copy.patch_state(global_={"working": {"a": 2}})
        assert await value(original, "global.working.a") == 1
        await original.patch_state(global_={"working": {"b": 1}})
    second = HandStore(tmp_path / "second")
    assert first.get("global", "patches.jsonl") == [{"working": {"b": 1}}]
    assert second.get("global", "patches.jsonl") == [{"working": {"a": 2}}]


@holds("store 1.4.4", "Ours-13")
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n  \n", ""])
async def test_lines_end_in_any_way_that_the_format_allows(tmp_path: Path, ending: str) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("session", tail=[(2, {"working": {"a": 1}}), (3, {"working": {"b": 2}})])
    separator = ending or "\n"
    text = f'{{"working":{{"a":1}}}}{separator}{{"working":{{"b":2}}}}{ending}'
    store.put("session", "patches.jsonl", text)
    store.write_run([2, 3])
    async with session_of(tmp_path) as session:
        assert await value(session, "session.working") == {"a": 1, "b": 2}
    assert store.path("session", "patches.jsonl").read_bytes() == text.encode()


@holds("store 1.5.4")
async def test_gaps_in_a_chain_are_legal_and_ids_are_opaque(tmp_path: Path) -> None:
    store = HandStore(tmp_path).write()
    store.write_scope("session", tail=[(2, {"working": {"a": 1}}), (4, {"working": {"b": 2}})])
    store.write_scope("cwd", tail=[(3, {"working": {"c": 3}})])
    store.write_run([2, 3, 4])
    async with session_of(tmp_path) as session:
        assert await values(session, "working", "effective[2].working") == [{"c": 3, "a": 1, "b": 2}, {"a": 1}]
    assert store.get("session", "runtime.json")["lineage"] == [ORIGIN, *(boundary(n) for n in (2, 3, 4))]
    assert store.get("session", "meta.json")["temporal"]["checkpoint"] == EMPTY
