"""Where things lie on this machine (Ours-10)."""

from __future__ import annotations

import os

from ..store import ConfigError, resolve_root

ENVIRONMENT = "STRATAFLOW_DIR"
_DEFAULT = "~/.strataflow"


def agent_folder(given: str | None) -> str:
    """The agent directory: as given, else ``$STRATAFLOW_DIR``, else ``~/.strataflow``; absolute.

    Raises:
      ConfigError: E_CONFIG if an empty name is given.
    """
    if given is not None:
        return _absolute(given, "agent_dir")
    chosen = os.environ.get(ENVIRONMENT) or _DEFAULT
    return os.path.abspath(os.path.expanduser(chosen))


def store_folder(path: str) -> str:
    """The folder of a store: absolute, with the symlinks above the agent directory resolved once.

    Raises:
      ConfigError: E_CONFIG if an empty name is given.
    """
    absolute = _absolute(path, "store")
    parent, name = os.path.split(absolute)
    return os.path.join(resolve_root(parent), name)


def _absolute(path: str, argument: str) -> str:
    # An empty name, as of a variable that is not set, would mean the current folder and put a store there.
    if not path:
        raise ConfigError("E_CONFIG", f"{argument} is empty: name a folder, or leave it out", argument=argument)
    return os.path.abspath(os.path.expanduser(path))
