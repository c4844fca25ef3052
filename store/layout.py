"""Where things lie in a store: names of files and folders, and the keys they are made from (store 1.1, 1.2).

A scope is addressed by its folder relative to the store: ``""`` is global, ``--srv-app--`` a working directory,
``--srv-app--/main`` a session. Keys only locate; who owns a folder is proved by what the files in it say.
"""

from __future__ import annotations

import functools
import posixpath
import re

import attrs

from .algebra import ScopeName, StoreError, shown

PI_LOCK = ".state-flow-publication.lock"
PRIVATE_FOLDER = ".strataflow"
TURN_LOCK, CHECKPOINT_LOCK, OPEN_LOCK = "turn.lock", "checkpoint.lock", "open.lock"
# A courtesy among transactions; nothing rests on it.
QUEUE_LOCK = "queue.lock"
# All files of kernel locks in the private folder.
KERNEL_LOCKS = (OPEN_LOCK, TURN_LOCK, CHECKPOINT_LOCK, QUEUE_LOCK)

CHECKPOINT, PATCHES, META = "checkpoint.json", "patches.jsonl", "meta.json"
CONFIG, RUNTIME = "config.json", "runtime.json"
OLD_STATE = "state.json"

SHARED_FILES = (CHECKPOINT, PATCHES, META)
# The run record goes last: it is the pointer to everything else (store 2.2.1).
SESSION_FILES = (CHECKPOINT, PATCHES, META, CONFIG, RUNTIME)

_SESSION_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_KEY_BYTES_MAX = 255


def normalise_cwd(cwd: str) -> str:
    """A working directory as it identifies a scope: absolute, lexically normalised, symlinks not resolved.

    Raises:
      StoreError: E_UNSUPPORTED for a relative path, NUL, or what is not text.
    """
    if type(cwd) is not str:
        raise _bad_name("cwd", f"working directory {shown(cwd)} is not a string: give an absolute path")
    if not cwd.startswith(("/", "\\")) and not _has_drive(cwd):
        raise _bad_name("cwd", f"working directory {shown(cwd)} is not an absolute path: give one")
    try:
        is_text = "\0" not in cwd and (cwd.isascii() or bool(cwd.encode()))
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise _bad_name(
            "cwd", f"working directory {shown(cwd)} is no path: NUL and lone surrogates have no place in one"
        )
    if _has_drive(cwd):
        return cwd
    # Two leading slashes mean one here; normpath keeps them for a POSIX oddity.
    return "/" + posixpath.normpath(cwd).lstrip("/")


def _bad_name(argument: str, text: str) -> StoreError:
    """The error for a name that was given wrongly. ``argument`` tells a program whose fault it is: not the store's."""
    return StoreError("E_UNSUPPORTED", text, argument=argument)


def _has_drive(cwd: str) -> bool:
    return len(cwd) > 2 and cwd[0].isascii() and cwd[0].isalpha() and cwd[1] == ":"


@functools.lru_cache(1024)  # each commit asks several times
def cwd_key(cwd: str) -> str:
    """The folder name of a normalised working directory (store 1.2.1). Two directories may share one.

    Raises:
      StoreError: E_UNSUPPORTED if the name would be longer than a file system allows (255 bytes).
    """
    bare = cwd[1:] if cwd[:1] in ("/", "\\") else cwd
    key = "--" + re.sub(r"[/\\:]", "-", bare) + "--"
    if len(key.encode()) > _KEY_BYTES_MAX:
        raise _bad_name("cwd", f"working directory {shown(cwd)} is too long for a folder name: use a shorter one")
    return key


def is_session_key(key: str) -> bool:
    """Whether ``key`` is a valid folder name of a session (store 1.2.3)."""
    return type(key) is str and len(key) <= _KEY_BYTES_MAX and _SESSION_KEY.fullmatch(key) is not None


def check_session_key(key: str) -> str:
    """``key`` if it is a valid folder name of a session.

    Raises:
      StoreError: E_UNSUPPORTED otherwise.
    """
    if not is_session_key(key):
        raise _bad_name(
            "session_id",
            f"session name {shown(key)} is not allowed: at most {_KEY_BYTES_MAX} of letters, digits, '.', '_' and '-', "
            "beginning and ending with a letter or digit",
        )
    return key


def check_session_id(session_id: str) -> str:
    """``session_id`` if it is not empty and carries no space at its ends (store 1.2.4)."""
    if type(session_id) is not str:
        raise _bad_name("session_id", f"session id {shown(session_id)} is not a string: give one")
    if not session_id or session_id != session_id.strip():
        raise _bad_name("session_id", f"session id {shown(session_id)} is empty or has space around it: trim it")
    return session_id


def session_key(session_id: str, *, session_file: str | None = None, timestamp: str | None = None) -> str:
    """The folder name of a host's session (store 1.2.2): from its file, else its header's time and id.

    Raises:
      StoreError: E_UNSUPPORTED for a file without ``.jsonl`` or a result that is no valid key.
    """
    if session_file is not None:
        name = posixpath.basename(session_file)
        if not name.endswith(".jsonl"):
            raise StoreError("E_UNSUPPORTED", f"session file {shown(session_file)} does not end in .jsonl")
        return check_session_key(name.removesuffix(".jsonl"))
    check_session_id(session_id)
    if timestamp is None:
        return check_session_key(session_id)
    return check_session_key(re.sub(r"[:.]", "-", timestamp) + "_" + session_id)


@attrs.frozen
class SessionAddress:
    """One session: whose it is and where its files lie.

    ``key`` is the folder below the working directory's; several spellings of an id may lead to one key.
    """

    cwd: str
    session_id: str
    key: str

    def scope(self, name: ScopeName) -> str:
        """The folder of one of the three scopes this session reads."""
        if name == "global":
            return ""
        shared = cwd_key(self.cwd)
        return shared if name == "cwd" else f"{shared}/{self.key}"

    def scopes(self) -> tuple[tuple[ScopeName, str], ...]:
        """The three scopes in their fixed order, each with its folder."""
        shared = cwd_key(self.cwd)
        return (("global", ""), ("cwd", shared), ("session", f"{shared}/{self.key}"))


def scope_kind(scope: str) -> ScopeName:
    """Which of the three kinds a scope folder is."""
    return "global" if not scope else "session" if "/" in scope else "cwd"


def scope_files(scope: str) -> tuple[str, ...]:
    """The names of the files a scope owns, in the order in which they are replaced."""
    return SESSION_FILES if scope_kind(scope) == "session" else SHARED_FILES


def is_owned(path: str) -> bool:
    """Whether a path relative to the store is one that we write (store 1.1.3)."""
    *folders, name = path.split("/")
    if not folders:
        return name in SHARED_FILES
    if not (len(folders[0]) >= 4 and folders[0].startswith("--") and folders[0].endswith("--")):
        return False
    if len(folders) == 1:
        return name in SHARED_FILES
    return len(folders) == 2 and is_session_key(folders[1]) and name in SESSION_FILES


@attrs.frozen
class Layout:
    """The absolute paths of one store."""

    root: str

    def folder(self, scope: str) -> str:
        """The folder of a scope."""
        return posixpath.join(self.root, scope) if scope else self.root

    def file(self, scope: str, name: str) -> str:
        """One file of a scope."""
        return posixpath.join(self.root, scope, name)

    @property
    def config(self) -> str:
        """The operator's settings (store 7)."""
        return posixpath.join(self.root, CONFIG)

    @property
    def pi_lock(self) -> str:
        """The lock that Pi takes (store 2.1.1)."""
        return posixpath.join(self.root, PI_LOCK)

    def private(self, *parts: str) -> str:
        """A path in the folder that only this program uses."""
        return posixpath.join(self.root, PRIVATE_FOLDER, *parts)
