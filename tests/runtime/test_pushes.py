"""Pushes that end by themselves: where they go, what is told of them, and that no secret is."""

from __future__ import annotations

import base64
import http.server
import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from kit.git_repositories import CWD, StoreRepository, backed, events, git, store_repository
from kit.holds import holds
from strataflow import Runtime, Session, open_runtime
from strataflow.runtime.surfaces.cli import main

# With everything in it that is written in another way for URLs, shells, JSON and base64.
CANARY = "c4n@ry$t0k3n'x/+%"


@pytest.fixture
def made(tmp_path: Path) -> StoreRepository:
    return store_repository(tmp_path)


async def settle(session: Session, runtime: Runtime, text: str) -> str:
    """An answer, its backup and its push; how the push ended."""
    await session.accept_response(text)
    found = await runtime.backups.wait_pushed()
    return found.outcome if found else "none"


@holds("store 5.4.1", "store 5.1.1")
async def test_an_answer_is_committed_and_pushed_without_anybody_waiting(made: StoreRepository) -> None:
    made.with_remote()
    async with backed(made) as (runtime, session):
        assert await settle(session, runtime, "done") == "pushed"
        assert made.remote_head() == made.head()
        status = await runtime.backups.status()
        assert status.record.last_push is not None
        assert status.record.last_push.what == made.head()
        assert not status.is_due
        await session.patch_state(session={"working": {"a": 1}})
        assert (await runtime.backups.status()).is_due


@holds("store 5.1.1", "store 5.1.2", "store 5.1.3")
async def test_patches_and_passive_sessions_make_a_backup_due_and_trigger_none(made: StoreRepository) -> None:
    async with backed(made) as (runtime, session):
        await session.patch_state(session={"working": {"a": 1}})
        passive = await runtime.open_session(CWD, "s2", "passive")
        await passive.patch_state(session={"working": {"a": 1}})
        await runtime.backups.wait_pushed()
        assert made.head() is None
        await settle(session, runtime, "done")
        assert made.count() == 1
        assert {"--project--/s1/runtime.json", "--project--/s2/runtime.json"} <= made.files()


@holds("case store 116", "store 5.4.2")
async def test_a_branch_without_a_remote_stays_here_silently(made: StoreRepository) -> None:
    made.with_remote()
    made.git("config", "--unset", "branch.main.remote")
    async with backed(made) as (runtime, session):
        assert await settle(session, runtime, "done") == "nowhere"
        assert events(runtime, "push-failed", "push-skipped") == []
    assert made.remote_head() is None
    assert made.count() == 1


@holds("store 5.4.2")
async def test_the_configured_reference_is_pushed_to_and_the_remote_dot_is_an_error(made: StoreRepository) -> None:
    made.with_remote()
    made.git("config", "branch.main.merge", "refs/heads/backups/mine")
    async with backed(made) as (runtime, session):
        assert await settle(session, runtime, "one") == "pushed"
        assert git(made.remote, "rev-parse", "backups/mine").strip() == made.head()
        made.git("config", "--unset", "branch.main.merge")
        assert await settle(session, runtime, "two") == "pushed"
        assert made.remote_head() == made.head()
        made.git("config", "branch.main.remote", ".")
        assert await settle(session, runtime, "three") == "failed"
        assert len(events(runtime, "push-failed")) == 1


@holds("case store 117", "store 5.4.3")
async def test_a_diverged_remote_refuses_and_is_left_alone(made: StoreRepository, tmp_path: Path) -> None:
    made.with_remote()
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(made.remote), str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "elsewhere")
    git(other, "push", "-q", "origin", "HEAD:main")
    theirs = made.remote_head()
    async with backed(made) as (runtime, session):
        assert await settle(session, runtime, "done") == "failed"
        assert made.remote_head() == theirs
        assert made.count() == 1
        ((_, data),) = events(runtime, "push-failed")
        assert "diagnostics log" in data["error"]


def log_of(folder: Path) -> list[dict[str, Any]]:
    file = folder / "logs/strataflow.jsonl"
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


@holds("case store 120", "store 5.4.7", "store 4.3.5")
async def test_failures_in_a_row_are_one_warning_and_as_many_records(made: StoreRepository) -> None:
    made.with_remote()
    async with open_runtime(str(made.folder), durability="process") as runtime:
        session = await runtime.open_session(CWD, "s1", "active")
        for outcome in ("failed", "failed", "pushed", "failed"):
            made.hook("pre-receive", "exit 1" if outcome == "failed" else "exit 0")
            assert await settle(session, runtime, f"{outcome} {made.count()}") == outcome
        assert len(events(runtime, "push-failed")) == 2
    records = log_of(made.folder)
    assert [record["category"] for record in records] == ["publication-conflict"] * 3
    assert {(record["cwd"], record["sessionId"]) for record in records} == {(CWD, "s1")}
    assert all("pre-receive hook declined" in record["error"] for record in records)


@holds("case store 121", "store 5.4.7")
async def test_without_a_place_for_the_log_the_one_warning_tells_all(made: StoreRepository) -> None:
    made.with_remote()
    made.hook("pre-receive", "exit 1")
    (made.folder / "agent").symlink_to(made.root)
    async with open_runtime(str(made.root), store=str(made.root), durability="process") as runtime:
        session = await runtime.open_session(CWD, "s1", "active")
        for text in ("one", "two"):
            assert await settle(session, runtime, text) == "failed"
        ((_, data),) = events(runtime, "push-failed")
        assert "declined" in data["error"]
    assert not (made.root / "logs").exists()


@contextmanager
def refusing_server(status: int) -> Iterator[int]:
    """An HTTP server that answers everything with one status, and repeats what it was asked; gives its port."""

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"asked for {self.path} with {self.headers.items()}".encode()
            self.send_response(status)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def forms(secret: str) -> set[str]:
    """How a secret may be written."""
    plain = {secret, quote(secret, safe=""), shlex.quote(secret), json.dumps(secret)[1:-1]}
    pair = {base64.b64encode(f"{user}{secret}".encode()).decode() for user in ("", "u:", "user:", "x")}
    return plain | pair


def assert_hidden(secret: str, *texts: str) -> None:
    for text in texts:
        for form in forms(secret):
            assert form not in text, f"{form!r} is in {text!r}"


def everything_kept(made: StoreRepository) -> str:
    """All that was written: notes, logs, the store's files, without Git's own configuration."""
    files = [path for path in made.folder.rglob("*") if path.is_file() and path.name != "config"]
    return "\0".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@holds("case store 122", "store 5.4.6")
@pytest.mark.parametrize("place", ["url", "query", "header", "basic header", "token as user", "said by the remote"])
@pytest.mark.parametrize("status", [401, 500])
async def test_a_secret_of_the_remote_is_in_nothing_that_is_kept_or_told(
    made: StoreRepository, place: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing_server(status) as port:
        base = f"127.0.0.1:{port}/repository"
        urls = {
            "url": f"http://user:{quote(CANARY, safe='')}@{base}",
            "query": f"http://{base}?access_token={quote(CANARY, safe='')}",
            "token as user": f"http://{quote(CANARY, safe='')}@{base}",
        }
        made.with_remote(urls.get(place, f"http://{base}"))
        if place == "header":
            made.git("config", "http.extraheader", f"X-Token: {CANARY}")
        elif place == "basic header":
            pair = base64.b64encode(f"user:{CANARY}".encode()).decode()
            made.git("config", f"http.http://{base}.extraheader", f"Authorization: Basic {pair}")
        elif place == "said by the remote":
            made.git("remote", "set-url", "origin", str(made.folder / f"nowhere?token={CANARY}"))
            made.git("config", "remote.origin.proxy", f"http://u:{quote(CANARY, safe='')}@proxy.invalid")
        async with open_runtime(str(made.folder), store=str(made.root), durability="process") as runtime:
            session = await runtime.open_session(CWD, "s1", "active")
            assert await settle(session, runtime, "done") == "failed"
            status_text = repr(await runtime.backups.status())
            pushed = repr(await runtime.backups.wait_pushed())
            assert_hidden(CANARY, status_text, pushed, repr(runtime.events), everything_kept(made))
            assert log_of(made.folder) != []
    # What the commands print; and nothing is in the way of a password that is asked for at a terminal.
    for arguments in (["status"], ["status", "--json"]):
        assert main(["backup", *arguments, "--store", str(made.root)]) == 0
        said = capsys.readouterr()
        assert_hidden(CANARY, said.out, said.err)


async def test_a_remote_that_wants_a_password_fails_at_once_and_asks_nobody(made: StoreRepository) -> None:
    with refusing_server(401) as port:
        made.with_remote(f"http://127.0.0.1:{port}/repository")
        program = made.folder / "asks"
        program.write_text(f"#!/bin/sh\ntouch {made.folder}/asked\n")
        program.chmod(0o755)
        made.git("config", "core.askPass", str(program))
        async with backed(made) as (runtime, session):
            assert await settle(session, runtime, "done") == "failed"
            found = await runtime.backups.wait_pushed()
            assert found is not None
            assert "terminal prompts disabled" in found.error
        assert not (made.folder / "asked").exists()


@holds("store 5.4.1")
async def test_a_run_is_not_held_up_by_its_backup_or_push(made: StoreRepository) -> None:
    made.with_remote()
    async with backed(made) as (runtime, session):
        async with session.run("do it") as run:
            await run.finish("done")
        # Nothing of the backup has begun when the answer is there: the actor has had no turn of the loop.
        assert made.head() is None
        await runtime.backups.wait_pushed()
        assert made.remote_head() == made.head()
