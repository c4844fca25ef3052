"""Child processes that run one job each. A job is a name and JSON arguments; its answer is one JSON line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_PACKAGE = __name__.rpartition(".")[0]


@contextlib.contextmanager
def started(job: str, arguments: Sequence[dict[str, Any]]) -> Iterator[list[subprocess.Popen[str]]]:
    """One child per set of arguments, all of them ready to go. They are ended with the block, whatever happens."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", f"{_PACKAGE}.worker", job]
    children: list[subprocess.Popen[str]] = []
    try:
        for each in arguments:
            child = subprocess.Popen(
                [*command, json.dumps(each)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            children.append(child)
            if _line(child) != "ready":
                raise RuntimeError(f"the benchmark's child {job} did not become ready")
        yield children
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()


def run_children(job: str, arguments: Sequence[dict[str, Any]]) -> list[Any]:
    """Run children at the same time; what each has answered."""
    with started(job, arguments) as children:
        for child in children:
            begin(child)
        return [answer_of(child) for child in children]


def begin(child: subprocess.Popen[str], word: str = "go") -> None:
    """Let a child that is ready begin its work; ``word``: which, if it has a choice."""
    assert child.stdin is not None
    child.stdin.write(f"{word}\n")
    child.stdin.flush()


def answer_of(child: subprocess.Popen[str]) -> Any:
    """What a child has answered; waits for it."""
    return json.loads(_line(child))


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    if not line.endswith("\n"):
        raise RuntimeError(f"a child of the benchmark ended with exit code {child.wait()} before it answered")
    return line.rstrip("\n")
