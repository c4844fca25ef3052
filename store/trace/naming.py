"""Ids of sessions that a caller chooses."""

from __future__ import annotations

import re

from ..algebra import CallError, shown

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_ID_CHARS_MAX = 128


def check_id(session_id: str) -> str:
    """The id, if it can be part of a file's name.

    Raises:
      CallError: E_SHAPE.
    """
    if type(session_id) is not str or len(session_id) > _ID_CHARS_MAX or not _ID.fullmatch(session_id):
        text = f"{shown(session_id)} is no id of a session: it begins and ends with a letter or digit and holds only"
        raise CallError("E_SHAPE", f"{text} letters, digits, '-', '_' and '.', at most {_ID_CHARS_MAX}")
    return session_id
