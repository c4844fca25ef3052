"""The tools that a host offers to a model: which, when, with what guidance, and how a call is shown (T1 to T6, T20)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.hand_stores import CWD
from kit.holds import holds
from kit.runtimes import opened, refused, session_of
from strataflow.runtime import MEMORY_TOOLS, Mode, active_tools, shown_call

PATCH, READ = MEMORY_TOOLS


@holds("T1")
def test_there_are_two_tools_whatever_the_mode() -> None:
    assert [tool.name for tool in MEMORY_TOOLS] == ["patch_state", "read_state"]
    assert list(PATCH.parameters["properties"]) == ["global", "cwd", "session"]
    planes = PATCH.parameters["properties"]["cwd"]
    assert list(planes["properties"]) == ["intents", "contract", "working", "artifacts", "lazy"]
    assert planes["additionalProperties"] is PATCH.parameters["additionalProperties"] is False
    assert list(READ.parameters["properties"]) == ["path", "paths", "projection"]


@holds("T2")
@pytest.mark.parametrize("mode", ["active", "passive"])
def test_active_and_passive_add_both_tools_and_leave_the_others(mode: Mode) -> None:
    assert active_tools(["bash", "read"], mode) == ["bash", "read", "patch_state", "read_state"]
    assert active_tools(["read_state", "bash"], mode) == ["read_state", "bash", "patch_state"]
    complete = ["patch_state", "bash", "read_state"]
    assert active_tools(complete, mode) is complete


@holds("T2")
def test_off_takes_both_tools_away_and_rewrites_nothing_else() -> None:
    assert active_tools(["patch_state", "bash", "read_state"], "off") == ["bash"]
    others = ["bash", "read"]
    assert active_tools(others, "off") is others


@holds("T3")
async def test_a_call_that_arrives_after_the_switch_to_off_fails(tmp_path: Path) -> None:
    async with session_of(tmp_path / "s") as session:
        await session.set_mode("off")
        for name, arguments in (("patch_state", {"session": {"working": {"a": 1}}}), ("read_state", {"path": "cwd"})):
            with refused("E_OFF"):
                await session.call(name, arguments)


@holds("T4")
async def test_passive_declares_tools_that_can_not_be_used_yet(tmp_path: Path) -> None:
    root = tmp_path / "s"
    async with session_of(root, "main") as session:
        await session.patch_state(session={"working": {"a": 1}})
    (damaged,) = root.glob("*/main/config.json")
    damaged.write_text("{broken")
    async with opened(root) as runtime:
        session = await runtime.open_session(CWD, "main", "passive")
        assert active_tools([], session.mode) == ["patch_state", "read_state"]
        with refused("E_CORRUPT"):
            await session.call("patch_state", {"session": {"working": {"a": 2}}})
        nobody = await runtime.open_session(CWD, "nobody", "passive")
        assert active_tools([], nobody.mode) == ["patch_state", "read_state"]
        assert list(root.glob("*/nobody")) == []


@holds("T5")
def test_a_patch_never_runs_beside_another_tool_of_its_response() -> None:
    assert PATCH.is_sequential
    assert not READ.is_sequential


@holds("T6")
def test_the_guidance_says_what_a_patch_is_for_and_what_it_is_not() -> None:
    text = PATCH.description
    for duty in ("Never patch response", "not even to clear it", "stored by itself", "material, durable changes"):
        assert duty in text
    for duty in ("no closing call", "instead of appending notes", "narrowest scope", "remove what is finished"):
        assert duty in text
    assert "Call it alone in a response; after its result everything is allowed again." in text
    assert all("ASCII object keys" in tool.description for tool in MEMORY_TOOLS)


@holds("T20")
def test_arguments_are_shown_with_an_empty_line_between_scopes_and_planes() -> None:
    call = {"cwd": {"intents": {"ship": {"why": "é"}}, "working": {"list": [1]}}, "session": {"lazy": {}}}
    assert shown_call(call) == (
        "{\n"
        '  "cwd": {\n'
        '    "intents": {\n'
        '      "ship": {\n'
        '        "why": "é"\n'
        "      }\n"
        "    },\n"
        "\n"
        '    "working": {\n'
        '      "list": [\n'
        "        1\n"
        "      ]\n"
        "    }\n"
        "  },\n"
        "\n"
        '  "session": {\n'
        '    "lazy": {}\n'
        "  }\n"
        "}"
    )
    assert shown_call({}) == "{}"
    assert shown_call({"cwd": {}, "extra": [None]}) == '{\n  "cwd": {},\n\n  "extra": [\n    null\n  ]\n}'


@holds("T20")
def test_arguments_of_an_accepted_call_can_be_hidden_and_those_of_a_refused_one_not() -> None:
    call = {"cwd": {"working": {"a": 1}}}
    assert shown_call(call, shows_accepted=False) is None
    assert shown_call(call, shows_accepted=False, has_failed=True) == shown_call(call)
