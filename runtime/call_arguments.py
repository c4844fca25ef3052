"""The arguments of a session's calls: what is checked before anybody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..store import CallError, Json, detach, shown


def is_text(text: str) -> bool:
    """Whether a string can be stored: it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_arguments(path: str | None, paths: Sequence[str] | None, projection: str) -> Json:
    """The arguments of ``read_state`` as a model gives them; what is wrong with them is told by the read itself."""
    arguments: Json = {"projection": projection}
    if path is not None:
        arguments["path"] = path
    if paths is not None:
        arguments["paths"] = list(paths) if isinstance(paths, tuple) else paths
    return arguments


def only_member(arguments: Any, name: str) -> Any:
    """The value of the only argument of a call.

    Raises:
      CallError: E_SHAPE, E_FIELD.
    """
    if type(arguments) is not dict:
        raise CallError("E_SHAPE", f"the arguments must be an object with {name!r}")
    for key in arguments:
        if key != name:
            raise CallError("E_FIELD", f"there is no argument {shown(key)}; the only one is {name!r}")
    if name not in arguments:
        raise CallError("E_SHAPE", f"argument {name!r} is missing")
    return arguments[name]


def response_text(arguments: Any) -> str:
    """The answer in the arguments of ``accept_response``.

    Raises:
      CallError: E_SHAPE, E_FIELD, E_JSON.
    """
    text = only_member(arguments, "text")
    if type(text) is not str or not is_text(text):
        raise CallError("E_JSON", f"the answer must be a plain string, not {shown(text)}", pointer="/text")
    return text


def no_members(arguments: Any) -> None:
    """Refuse (E_SHAPE) whatever is not ``{}``."""
    if type(arguments) is not dict or arguments:
        raise CallError("E_SHAPE", "this call takes no arguments: give {}")


def copied(value: Any) -> Any:
    """A copy of an argument; or the argument where it is nested too deeply for one, since it is refused for that."""
    try:
        return detach(value)
    except RecursionError:
        return value
