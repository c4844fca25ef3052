"""``strataflow chat`` as a test starts it: its command line, its scripts, its output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Turn = dict[str, Any]


def says(*chunks: str, delay_ms: int = 0) -> Turn:
    """A turn of a script: a text."""
    return {"blocks": [{"type": "text", "chunks": list(chunks)}], "delayMs": delay_ms}


def patches(call_id: str, **scopes: Any) -> Turn:
    """A turn of a script: a call of ``patch_state``."""
    return {"blocks": [{"type": "toolCall", "id": call_id, "name": "patch_state", "arguments": scopes}]}


def chat_command(folder: Path, *options: str, model: str | None = None) -> list[str]:
    """The command line of a chat whose agent directory is in ``folder``. Warnings are errors in it, too."""
    command = [sys.executable, "-W", "error", "-m", "strataflow", "chat", "--agent-dir", str(folder / "agent")]
    command += ["--cwd", str(folder / "project"), "--durability", "process", *options]
    return command if model is None else [*command, "--model", model]


def script(folder: Path, *turns: Turn) -> str:
    """A script in a file, as ``--model`` takes it."""
    path = folder / f"script-{len(list(folder.glob('script-*')))}.json"
    path.write_text(json.dumps(turns))
    return f"scripted:{path}"


def chat(command: list[str], *lines: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """A chat over pipes that is given all its lines at once."""
    given = "".join(f"{line}\n" for line in lines)
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False, **more)
