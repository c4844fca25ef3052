"""What ran: hashes of our sources, their commit, and the versions of what they stand on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from hashlib import sha256

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCHMARK = os.path.dirname(os.path.abspath(__file__))

_DEPENDENCIES = ("strataflow", "trio", "attrs", "cattrs", "orjson", "trio-util")


def source_hash(folder: str = PACKAGE, without: str | None = None) -> str:
    """A hash of the modules below ``folder``, so that two reports can be told apart whatever the version says.

    ``without``: a folder below it that is left out.
    """
    left_out = None if without is None else os.path.realpath(without)
    digest = sha256()
    for place, folders, files in sorted(os.walk(folder, followlinks=True)):
        folders[:] = sorted(
            name
            for name in folders
            if name != "__pycache__" and os.path.realpath(os.path.join(place, name)) != left_out
        )
        if left_out is not None and os.path.realpath(place) == left_out:
            continue
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(place, name), "rb") as file:
                    digest.update(os.path.relpath(os.path.join(place, name), folder).encode() + file.read())
    return f"sha256:{digest.hexdigest()[:16]}"


def dependency_versions() -> Mapping[str, str]:
    """Ours, and those of what is installed beside it."""
    return {name: _version(name) for name in _DEPENDENCIES}


def python_version() -> str:
    """The interpreter and its version."""
    return f"{platform.python_implementation()} {platform.python_version()}"


def system() -> str:
    """The operating system, its release and the machine's architecture."""
    return f"{platform.system()} {platform.release()} {platform.machine()}"


def git_version() -> str | None:
    """Of the installed Git; None where there is none."""
    return _git("--version")


def source_commit() -> str | None:
    """The commit that our sources were checked out from; None for an installed package."""
    folder = os.path.realpath(BENCHMARK)
    # A package that is installed below somebody's checkout is no part of it.
    is_tracked = _git("-C", folder, "ls-files", "--error-unmatch", "__init__.py") is not None
    return _git("-C", folder, "rev-parse", "HEAD") if is_tracked else None


def _git(*arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
