"""Request ids without Python: the member beside ``call``, the call ``outcome``, and ``patch --request-id``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from kit.holds import holds
from kit.tool_process import held_turn, tool_process
from strataflow.runtime.surfaces.cli import main
from strataflow.runtime.surfaces.tool_request import Refusal, ToolRequest, parse_request

A = {"session": {"working": {"n": 1}}}
B = {"session": {"working": {"n": 2}}}


def line(**members: Any) -> bytes:
    return json.dumps({"id": 7, "call": "patch_state", "arguments": A, **members}).encode()


def test_a_request_may_have_a_request_id_beside_its_call() -> None:
    found = parse_request(line(request_id="r"))
    assert found == ToolRequest(7, "patch_state", A, None, None, None, "r")
    assert isinstance(parse_request(line()), ToolRequest)
    assert parse_request(line()).request_id is None  # type: ignore[union-attr]


@pytest.mark.parametrize("request_id", [3, None, True, ["r"], {}, "\ud800"])
def test_a_request_id_that_is_no_text_makes_no_request(request_id: Any) -> None:
    found = parse_request(line(request_id=request_id))
    assert isinstance(found, Refusal)
    assert found.error.code == "E_REQUEST"
    assert "request_id" in found.error.message


@holds("Ours-12")
@pytest.mark.slow
async def test_a_client_learns_from_the_next_host_what_became_of_its_requests(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        first = await host.ask("patch_state", A, request_id="r")
        assert first["ok"]
        answer = await host.ask("accept_response", {"text": "done"}, request_id="answer", session="other")
        assert answer["result"]["step"] == 1
        refusal = await host.ask("patch_state", {"session": {"notes": {}}}, request_id="no")
        assert refusal["error"]["code"] == "E_PLANE"
        assert (await host.ask("patch_state", A, request_id="no"))["error"] == refusal["error"]
        found = await host.ask("outcome", {"request_id": "no"})
        assert found["result"] == {"state": "refused", "error": refusal["error"]}
        host.process.kill()
    async with tool_process(tmp_path) as host:
        found = await host.ask("outcome", {"request_id": "r"}, session="never opened")
        assert found["result"] == {"state": "accepted", "receipt": first["result"]}
        for request_id in ("no", "never sent"):
            assert (await host.ask("outcome", {"request_id": request_id}))["result"] == {"state": "unseen"}
        assert await host.ask("patch_state", B, request_id="r") == first
        again = await host.ask("accept_response", {"text": "again"}, request_id="answer", session="other")
        assert again == answer
        assert (await host.ask("read_state", {"path": "session.working.n"}))["result"] == {"value": 1}
    assert not list(tmp_path.rglob("never opened"))


@holds("Ours-12")
@pytest.mark.slow
async def test_wrong_uses_of_request_ids_are_told_apart(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        for call in ("read_state", "status", "set_mode", "outcome"):
            answer = await host.ask(call, {}, id=1, request_id="r")
            assert (answer["id"], answer["error"]["code"]) == (1, "E_REQUEST")
        for request_id in ("", "x" * 201):
            answer = await host.ask("patch_state", A, id=2, request_id=request_id)
            assert (answer["id"], answer["error"]["code"]) == (2, "E_SHAPE")
            answer = await host.ask("outcome", {"request_id": request_id}, id=3)
            assert (answer["id"], answer["error"]["code"]) == (3, "E_SHAPE")
        for arguments in ({}, {"request_id": "r", "more": 1}, [], {"id": "r"}):
            answer = await host.ask("outcome", arguments, id=4)
            assert (answer["id"], answer["error"]["code"]) == (4, "E_REQUEST")
        assert (await host.ask("status"))["result"]["step"] == 0


@holds("Ours-12")
@pytest.mark.slow
async def test_a_withdrawn_request_was_never_seen_and_an_outcome_comes_in_its_place(tmp_path: Path) -> None:
    async with tool_process(tmp_path) as host:
        assert (await host.ask("status"))["ok"]
        with held_turn(tmp_path):
            await host.send("patch_state", A, id="a", request_id="r")
            await host.send("patch_state", B, id="b", request_id="s")
            await host.send("outcome", {"request_id": "r"}, id="c")
            await host.send("outcome", {"request_id": "s"}, id="d")
            answer = await host.ask("cancel", {"id": "a"}, id="e")
            withdrawn = await host.answer()
            if answer["id"] == "a":
                answer, withdrawn = withdrawn, answer
            assert answer["result"] == {"withdrawn": True}
            assert withdrawn["error"]["code"] == "E_ABORTED"
        answers = {item["id"]: item for item in [await host.answer() for _ in range(3)]}
        assert answers["b"]["ok"]
        assert answers["c"]["result"] == {"state": "unseen"}
        assert answers["d"]["result"] == {"state": "accepted", "receipt": answers["b"]["result"]}


@holds("Ours-12")
def test_a_patch_with_a_request_id_is_stored_once_and_answered_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def patch(document: Any, *options: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(document).encode())))
        command = ["patch", "--store", str(tmp_path / "s"), "--cwd", "/project", "--durability", "process", *options]
        code = main(command, "0")
        return code, capsys.readouterr().out

    first = patch(A, "--json", "--request-id", "r")
    assert first[0] == 0
    assert patch(B, "--json", "--request-id", "r", "--session", "other") == first
    assert json.loads(patch(B, "--json")[1])["step"] == 2
    for request_id in ("", "x" * 201, "\udcff"):
        with pytest.raises(SystemExit) as ended:
            patch(B, "--request-id", request_id)
        assert ended.value.code == 2
