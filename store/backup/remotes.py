"""What a repository's configuration says of pushing: where a branch goes, what is secret, how ssh is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import attrs

from ..algebra import BackupError
from .redaction import secrets_of_header, secrets_of_url

# Key, section and variable in lower case, the part between as it is -> all values in their order.
Config = Mapping[str, Sequence[str]]
_SSH_OPTIONS = "-oBatchMode=yes -oConnectTimeout=10 -oServerAliveInterval=5 -oServerAliveCountMax=2"


@final
@attrs.frozen
class Destination:
    """Where a branch is pushed to: the name or URL of the remote, and the reference there."""

    remote: str
    ref: str


def parse_config(data: bytes) -> dict[str, list[str]]:
    """What ``git config --list -z`` printed."""
    found: dict[str, list[str]] = {}
    for item in data.decode("utf-8", "surrogateescape").split("\0"):
        if item:
            key, _, value = item.partition("\n")
            found.setdefault(key, []).append(value)
    return found


def destination_of(config: Config, branch: str) -> Destination | None:
    """Where the checked-out branch goes; None if no remote is configured for it, even if remotes exist.

    Raises:
      BackupError: E_REPOSITORY for the remote ``.``, which is this very repository.
    """
    name = branch.removeprefix("refs/heads/")
    remote = _last(config, f"branch.{name}.remote")
    if not remote:
        return None
    if remote == ".":
        text = f"branch {name} is to be pushed to its own repository: set branch.{name}.remote to a remote"
        raise BackupError("E_REPOSITORY", text, branch=name)
    return Destination(remote, _last(config, f"branch.{name}.merge") or branch)


def secrets_of(config: Config) -> set[str]:
    """Everything in a configuration that must never be shown."""
    found: set[str] = set()
    for key, values in config.items():
        lower = key.lower()
        # Not only in remotes: proxies, rewritten URLs and what is said of one URL have them too.
        for text in (*values, key):
            found |= secrets_of_url(text)
        if lower.endswith(".extraheader"):
            for value in values:
                found |= secrets_of_header(value)
        if lower.endswith((".password", ".token")):
            found |= set(values)
    return found


def ssh_command(config: Config, given: str | None) -> str | None:
    """The command for ssh that can not ask anybody; None where a program of another kind is configured.

    ``given``: from the environment, which wins.
    """
    command = given or _last(config, "core.sshcommand") or "ssh"
    variant = _last(config, "ssh.variant") or "auto"
    program = command.split()[0].strip("'\"").rpartition("/")[2] if command.split() else ""
    if variant not in ("auto", "ssh") or (variant == "auto" and not program.startswith("ssh")):
        return given
    return f"{command} {_SSH_OPTIONS}"


def _last(config: Config, key: str) -> str | None:
    values = config.get(key)
    return values[-1] if values else None
