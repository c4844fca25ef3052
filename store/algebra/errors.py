"""The error tree: one root, one class per family, every error with a code and its data.

A caller acts on ``code`` and ``data``, a person reads the text. The text says what was refused, names path and
cause, and ends with what to do. It shows at most 96 characters of an offending value, so that an error which is
stored in memory again cannot grow.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from .conflicts import Conflict, conflict_from

SHOWN_CHARS_MAX = 96


def shown(value: object) -> str:
    """``value`` for an error text: JSON if it can be, else its ``repr``, at most 96 characters.

    A long string is cut before it is written out: describing a value must not cost as much as storing it.
    """
    if type(value) is str:
        value = value[: SHOWN_CHARS_MAX + 1]
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    elif value is None or type(value) in (bool, float) or (type(value) is int and value.bit_length() <= 256):
        text = json.dumps(value)
    else:
        # A container or a foreign object: its type says enough, its content may be private and large.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"


class StrataflowError(Exception):
    """Root of every error of this library.

    Attributes:
      code: a stable name such as ``"E_PATH"``; programs act on it.
      message: one sentence for people.
      data: JSON-able details (paths, values, names); may be empty.
    """

    codes: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, code: str, message: str, **data: Any) -> None:
        assert code in self.codes, (type(self).__name__, code)
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.code, self.message, self.data))


def _rebuild(kind: type[StrataflowError], code: str, message: str, data: dict[str, Any]) -> StrataflowError:
    return kind(code, message, **data)


class CallError(StrataflowError):
    """A patch or another call was refused; nothing was stored. Correct the arguments and call again."""

    codes = frozenset(
        "E_OFF E_BRANCH E_FENCED E_ABORTED E_SHAPE E_FIELD E_SCOPE_SHAPE E_SCOPE_EMPTY E_NO_SCOPE E_SELECTION "
        "E_SOURCE_CHANGED E_JSON E_PLANE E_PLANE_SHAPE E_PROVENANCE E_SKILL_SCOPE E_INDEX E_COMPILE_MISSING E_SKILL "
        "E_NULL E_ARTIFACT E_RETIRED".split()
    )


class ReadError(StrataflowError):
    """A read named something that is not there or not allowed. Nothing is retried: ask for another path."""

    codes = frozenset("E_READ_SHAPE E_PATH E_MISSING E_KIND E_RANGE E_HISTORY_RANGE E_HISTORY_ORIGIN".split())


class StoreError(StrataflowError):
    """The store refused: a lock, a damaged or foreign file, a failing disk. The text names path, cause and remedy."""

    codes = frozenset(
        "E_BUSY E_LOCK E_CORRUPT E_UNSUPPORTED E_CHANGED E_BRANCH E_DISK E_BROKEN E_CLOSED E_ABORTED".split()
    )


class BackupError(StrataflowError):
    """A backup or a push came to nothing. Memory is as it was, and so is the branch; the text says what to do."""

    codes = frozenset({"E_REPOSITORY", "E_GIT"})


class ConflictError(StrataflowError):
    """What a transaction has read is no longer so; nothing was stored. Run it again on memory as it is now.

    ``data["conflicts"]`` has each read that changed, with the value then and now and the transition that changed it.
    """

    codes = frozenset({"E_CONFLICT"})

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The same as objects. They share their values with ``data``."""
        return tuple(conflict_from(document) for document in self.data["conflicts"])


def without_values(error: ConflictError) -> ConflictError:
    """The error for keeping: values may be large, and belong to memory until somebody is told of them."""
    known = [
        {name: member for name, member in conflict.items() if name not in ("read", "now")}
        for conflict in error.data["conflicts"]
    ]
    return ConflictError(error.code, error.message, **{**error.data, "conflicts": known})


class RequestError(StrataflowError):
    """A line of the tool protocol was not a request. Send one JSON object a line."""

    codes = frozenset({"E_REQUEST"})


class ConfigError(StrataflowError):
    """Root ``config.json`` cannot be used; nothing falls back to defaults. Correct the file and start again."""

    codes = frozenset({"E_CONFIG"})


class RuntimeFailed(StrataflowError):
    """An actor used up its restarts; the runtime closed itself. The cause is in ``__cause__``."""

    codes = frozenset({"E_BROKEN"})
