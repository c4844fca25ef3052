"""Reads this repository's own files for the tests in ``tests/meta``.

Paths are relative to the root and use forward slashes. The links in ``src/strataflow`` are never followed, so that each
module is seen once and under its real name.
"""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE_FOLDERS = ("store", "actors", "runtime")
FACE_FOLDER = "src/strataflow"


@functools.cache
def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@functools.cache
def package_modules() -> tuple[str, ...]:
    """Every module that is installed: the three folders, and the files beside the links."""
    found = [path for folder in PACKAGE_FOLDERS for path in python_files(folder)]
    found += [f"{FACE_FOLDER}/{path.name}" for path in (ROOT / FACE_FOLDER).glob("*.py")]
    return tuple(sorted(found))


@functools.cache
def python_files(folder: str) -> tuple[str, ...]:
    """All ``.py`` files below ``folder``; none if the folder does not exist."""
    found = []
    for place, folders, files in os.walk(ROOT / folder, followlinks=False):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [(Path(place) / name).relative_to(ROOT).as_posix() for name in files if name.endswith(".py")]
    return tuple(sorted(found))


@functools.cache
def repository_files() -> tuple[str, ...]:
    """What git tracks or would track: a new file must obey the rules before it is added, not after."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    paths = {path for path in listing.split("\0") if path}
    return tuple(sorted(path for path in paths if (ROOT / path).is_file() and not (ROOT / path).is_symlink()))


@functools.cache
def text_of(path: str) -> str | None:
    """The text of a file, or None when it is not text (a golden file may hold any bytes)."""
    try:
        return (ROOT / path).read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
