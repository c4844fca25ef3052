"""The JSON texts in the journal's own columns: bases and checkpoint lists (J5), receipts (I2)."""

from __future__ import annotations

from typing import Any

import attrs

from .algebra import Json
from .codec import compact, decode
from .journal_types import Base, CheckpointList, FileMove
from .rows import lineage_from, lineage_json


def base_columns(base: Base) -> tuple[Any, ...]:
    """The columns of ``bases`` after ``scope``."""
    return (
        compact(dict(base.identity)),
        base.through,
        base.floor,
        compact(lineage_json(base.lineage)) if base.lineage else None,
        base.last_writer,
        base.last_seq,
    )


def base_from(columns: tuple[Any, ...]) -> Base:
    """The inverse of ``base_columns``."""
    identity, through, floor, lineage, last_writer, last_seq = columns
    return Base(
        identity=decode(identity),
        through=through,
        floor=floor,
        lineage=lineage_from(decode(lineage)) if lineage else None,
        last_writer=last_writer,
        last_seq=last_seq,
    )


def list_text(prepared: CheckpointList) -> str:
    """A checkpoint list as one JSON text."""
    return compact(
        {
            "through": prepared.through,
            "before": {scope: dict(identity) for scope, identity in prepared.before.items()},
            "after": {scope: base_columns(base) for scope, base in prepared.after.items()},
            "moves": [attrs.asdict(move) for move in prepared.moves],
        }
    )


def list_from(text: str) -> CheckpointList:
    """The inverse of ``list_text``."""
    document = decode(text)
    return CheckpointList(
        through=document["through"],
        before=document["before"],
        after={scope: base_from(tuple(columns)) for scope, columns in document["after"].items()},
        moves=tuple(FileMove(**move) for move in document["moves"]),
    )


def receipt_from_body(body: str) -> Json:
    """The receipt in the body of a row that has a request id.

    Empty if it can not be read: the call was accepted all the same, and must not be staged again.
    """
    receipt = receipt_from_text(body).get("receipt")
    return receipt if isinstance(receipt, dict) else {}


def receipt_from_text(text: str) -> Json:
    """The receipt as the table ``requests`` keeps it; empty if it can not be read."""
    try:
        document = decode(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
