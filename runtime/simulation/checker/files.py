"""Histories in files: what clients wrote down as JSON lines while they called, to be checked afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ....store import Json
from ..history import FinalScope, History, Life, PowerCut, Superseded, Violation, joined
from .check import check


def check_files(paths: Iterable[Path]) -> list[Violation]:
    """As ``check``, of a history in files of JSON lines; see ``history_from_files``."""
    return check(history_from_files(paths))


def history_from_files(paths: Iterable[Path]) -> History:
    """The history that several clients wrote down, each into files of its own.

    A line with a ``number`` is a call, or completes the one with that number. Any other line has members of ``History``
    by their names, which add up. What follows the last newline of a file was cut off by a kill and never happened.

    Raises:
      ValueError: a whole line is no JSON object of that form.
    """
    calls: list[Json] = []
    history = History()
    for path in paths:
        for line in path.read_bytes().split(b"\n")[:-1]:
            document = json.loads(line)
            if "number" in document:
                calls.append(document)
            else:
                _add(history, document)
    history.calls = sorted(joined(calls), key=lambda call: call.begun_s)
    return history


def _add(history: History, document: Json) -> None:
    forms: dict[str, type[Any]] = {
        "superseded": Superseded,
        "final": FinalScope,
        "cuts": PowerCut,
        "lives": Life,
        "initial": FinalScope,
    }
    for name, value in document.items():
        if name == "outcomes":
            history.outcomes.update(value)
        elif name == "may_lose_tail":
            history.may_lose_tail = history.may_lose_tail or value
        elif name in forms:
            getattr(history, name).extend(forms[name](**item) for item in value)
        else:
            raise ValueError(f"{name} is no member of a history")
