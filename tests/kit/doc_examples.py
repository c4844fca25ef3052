"""Finds and runs the examples of a page: fenced blocks whose info string says ``run``.

::

    ```python run     a program
    ```sh run         a shell script
    ```console run    lines after "$ " are commands; the other lines show what they print, and are not compared
    ```console run fails      the same, and the last command ends with 1
    ```python file=desk.py    not run: the text of a file that later blocks use, of any language

The blocks of one page run in order and share one temporary folder, which is also HOME, so that a page can build on what
it showed before and nothing of the reader's own is touched.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs

from kit.source_tree import ROOT

BLOCK_TIMEOUT_S = 120
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<info>[^`\n]*)$")


@attrs.frozen
class Example:
    """One block: where it stands (line of its fence), its language and its text; the file that it is, or whether it
    fails."""

    page: str
    line: int
    language: str
    text: str
    file: str = ""
    fails: bool = False


def examples(page: str, text: str) -> list[Example]:
    """The blocks of ``text`` that are to be run, and the files they need, in order.

    Raises:
      ValueError: a fence is not closed, or asks to run a language that nobody runs here.
    """
    found = []
    opened: tuple[int, str, str, str] | None = None
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _FENCE.match(line)
        if opened is None:
            if match:
                opened = (number, match["indent"], match["fence"], match["info"].strip())
                body = []
            continue
        start, indent, fence, info = opened
        if match and match["fence"].startswith(fence) and not match["info"].strip():
            opened = None
            language, *words = info.split() or [""]
            block = "\n".join(body) + "\n"
            if files := [word.removeprefix("file=") for word in words if word.startswith("file=")]:
                found.append(Example(page, start, language, block, file=files[0]))
            elif "run" in words:
                if language not in ("python", "sh", "console"):
                    raise ValueError(f"{page}:{start}: {language!r} blocks cannot be run")
                found.append(Example(page, start, language, block, fails="fails" in words))
        else:
            body.append(line.removeprefix(indent))
    if opened is not None:
        raise ValueError(f"{page}:{opened[0]}: the block is not closed")
    return found


def commands(text: str) -> str:
    """The script in a console block: its lines after ``$ ``, with ``> `` for a continued one."""
    lines = [line for line in text.splitlines() if line.startswith(("$ ", "> "))]
    return "\n".join(line[2:] for line in lines) + "\n"


def run(example: Example, folder: Path) -> None:
    """Run one block in ``folder``; an AssertionError says where it stands and what it printed."""
    if example.file:
        (folder / example.file).write_text(example.text, encoding="utf-8")
        return
    if example.language == "python":
        program = folder / f"example_{example.line}.py"
        program.write_text(example.text, encoding="utf-8")
        command = [sys.executable, "-W", "error", str(program)]
    else:
        script = commands(example.text) if example.language == "console" else example.text
        assert script.strip(), f"{example.page}:{example.line}: a console block without a command"
        command = ["sh", "-euc", script]
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BLOCK_TIMEOUT_S,
    )
    told = f"{example.page}:{example.line} ended with {done.returncode}:\n{done.stdout}"
    assert done.returncode == int(example.fails), told


def _environment(folder: Path) -> dict[str, str]:
    # An example may run pytest, which is not to know that it runs inside of another.
    not_theirs = ("STRATAFLOW_", "PI_", "XDG_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(not_theirs)}
    return kept | {
        "HOME": str(folder),
        "STRATAFLOW_DIR": str(folder / "memory"),
        # The interpreter of the tests is the one that has strataflow; its folder comes first.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONIOENCODING": "utf-8",
    }
