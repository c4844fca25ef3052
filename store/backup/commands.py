"""How Git is called: so that it asks nobody, runs nothing of the user's that could write, and speaks English."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

SUBJECT: Final = "state-flow: settled canonical backup"
TRAILER: Final = "State-Flow-Durable: v1"
MESSAGE: Final = f"{SUBJECT}\n\n{TRAILER}\n"

# Hooks of the user, monitors and packing belong to the user's own commands.
_LOCAL = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    # Line ends are kept or changed as attributes say; that a file can not come back as it was is no reason to refuse.
    "core.safecrlf=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.quotePath=false",
    "advice.detachedHead=false",
)
_REMOTE = (
    "core.askPass=",
    "credential.interactive=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=10",
    "push.followTags=false",
    "push.gpgSign=false",
    "push.recurseSubmodules=no",
)
# Who commits, and where settings come from, is the user's business; everything else of the kind would lead Git to
# another repository, or have it write traces, which hold credentials.
_KEPT = frozenset(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM "
    "GIT_CONFIG_NOSYSTEM GIT_EXEC_PATH GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSH_VARIANT".split()
)
_PROMPTS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}


def git_arguments(*arguments: str, is_remote: bool = False) -> tuple[str, ...]:
    """The whole command line of one call."""
    options = [part for item in (*_LOCAL, *(_REMOTE if is_remote else ())) for part in ("-c", item)]
    return ("git", *options, *arguments)


def git_environment(base: Mapping[str, str], **more: str) -> dict[str, str]:
    """The environment of one call, made from the one of this process."""
    kept = {name: value for name, value in base.items() if not name.startswith("GIT_") or name in _KEPT}
    # Without a display nothing can put up a window that asks for a password.
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        kept.pop(name, None)
    return {**kept, **_PROMPTS, **more}


def push_arguments(remote: str, commit: str, ref: str) -> tuple[str, ...]:
    """Push one commit, never by force."""
    options = ("--porcelain", "--no-verify", "--no-follow-tags", "--no-signed")
    return git_arguments("push", *options, "--", remote, f"{commit}:{ref}", is_remote=True)


def rejected(output: str) -> str | None:
    """What ``push --porcelain`` says of a reference that was not taken."""
    for line in output.splitlines():
        if line.startswith("!"):
            return line.rpartition("\t")[2]
    return None


# What must never become part of a repository around a store.
IGNORED: Final = ("/.strataflow/", "/.state-flow-publication.lock")


def with_ignore_rules(text: str, rules: Sequence[str] = IGNORED) -> str:
    """The text of ``.gitignore`` with every rule in it; those that are missing come last."""
    present = {line.strip() for line in text.splitlines()}
    missing = [rule for rule in rules if rule not in present]
    if not missing:
        return text
    between = "" if not text or text.endswith("\n") else "\n"
    return text + between + "".join(f"{rule}\n" for rule in missing)
