"""Where things lie on this machine (Ours-10)."""

from __future__ import annotations

import os

from ..store import resolve_root

ENVIRONMENT = "STRATAFLOW_DIR"
_DEFAULT = "~/.strataflow"


def agent_folder(given: str | None) -> str:
    """The agent directory: as given, else ``$STRATAFLOW_DIR``, else ``~/.strataflow``; absolute."""
    chosen = given or os.environ.get(ENVIRONMENT) or _DEFAULT
    return os.path.abspath(os.path.expanduser(chosen))


def store_folder(path: str) -> str:
    """The folder of a store: absolute, with the symlinks above the agent directory resolved once."""
    absolute = os.path.abspath(os.path.expanduser(path))
    parent, name = os.path.split(absolute)
    return os.path.join(resolve_root(parent), name)
