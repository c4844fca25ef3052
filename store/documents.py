"""The small JSON documents beside a scope's memory: ``meta.json``, a session's ``runtime.json`` and ``config.json``.

Each is read strictly into a frozen class and written back canonically (store 1.5 to 1.7). Reading never repairs:
a document that breaks a rule is refused with its path, the member and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, NoReturn, get_args

import attrs
import cattrs

from .algebra import HISTORY_LIMIT_MAX, Boundary, CallError, Json, StoreError, is_evidence, shown
from .codec import canonical, parse_strict

Mode = Literal["active", "passive", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)
STEP_MAX = 2**53 - 1
LINEAGE_MAX = HISTORY_LIMIT_MAX + 1

_META_OWN = frozenset({"version", "artifacts", "temporal", "owner"})
# Keys of a format that held everything in one file; writers remove them from a session's meta.json (store 1.5.7).
_META_OLD = frozenset({"identity", "lineage", "step", "specification", "validation", "bootstrap"})
_RUNTIME_FORBIDDEN = ("state", "contract", "working", "response")

_converter = cattrs.Converter(forbid_extra_keys=True)


def corrupt(path: str, reason: str, **data: Any) -> NoReturn:
    """Refuse a file that breaks a rule of its format."""
    raise StoreError("E_CORRUPT", f"{path}: {reason}. Nothing was changed; repair or remove it", path=path, **data)


def parse_file(path: str, data: bytes, *, line: int | None = None) -> Any:
    """The JSON value in a file (or in one of its lines), read strictly.

    Raises:
      StoreError: E_CORRUPT naming path, line (1-based) and cause.
    """
    try:
        return parse_strict(data)
    except CallError as error:
        where = f"line {line}: " if line else ""
        corrupt(path, where + error.message, **({"line": line} if line else {}))


def is_count(value: object, *, most: int = STEP_MAX) -> bool:
    """Whether ``value`` is an integer from 0 to ``most`` (a bool is not)."""
    return type(value) is int and 0 <= value <= most


def boundary_from(path: str, value: object) -> Boundary:
    """A boundary document: exactly ``id``, ``parent`` and ``position`` (store 1.5)."""
    if type(value) is not dict or set(value) != {"id", "parent", "position"}:
        corrupt(path, "a boundary must have exactly id, parent and position")
    if type(value["id"]) is not str or not value["id"].strip():
        corrupt(path, "a boundary's id must be a non-blank string")
    parent = value["parent"]
    if parent is not None and (type(parent) is not str or not parent.strip() or parent == value["id"]):
        corrupt(path, "a boundary's parent must be null or another id")
    if not is_count(value["position"]) or (value["position"] == 0 and parent is not None):
        corrupt(path, "a boundary's position must be an integer from 0, and 0 has no parent")
    return Boundary(value["id"], parent, value["position"])


def boundary_json(boundary: Boundary) -> Json:
    """The document of a boundary."""
    document: Json = _converter.unstructure(boundary)
    return document


@attrs.frozen
class Meta:
    """``meta.json`` of a scope. ``foreign`` are members of others, kept untouched."""

    checkpoint: Boundary
    patches: tuple[Boundary, ...]
    revision: int
    evidence: Mapping[str, Any] = attrs.field(factory=dict)
    owner_cwd: str | None = None
    foreign: Mapping[str, Any] = attrs.field(factory=dict)

    def to_bytes(self) -> bytes:
        """The canonical file, always of version 2. Malformed evidence (None) is left out (store 1.5.6)."""
        document: Json = {
            **self.foreign,
            "version": 2,
            "artifacts": {path: entry for path, entry in self.evidence.items() if entry is not None},
            "temporal": {
                "checkpoint": boundary_json(self.checkpoint),
                "patches": [boundary_json(boundary) for boundary in self.patches],
                "revision": self.revision,
            },
        }
        if self.owner_cwd is not None:
            document["owner"] = {"cwd": self.owner_cwd}
        return canonical(document)


def foreign_members(data: bytes | None, *, is_session: bool) -> dict[str, Any]:
    """The members of a ``meta.json`` that a writer keeps (store 1.5.7). A session's loses those of an old format.

    One that was left behind alone may hold anything and does not matter (store 1.10).
    """
    try:
        document = parse_strict(data or b"{}")
    except CallError:
        return {}
    if type(document) is not dict:
        return {}
    # What is the writer's own is replaced afterwards; an owner that a shared scope may not have stays.
    return {key: value for key, value in document.items() if not (is_session and key in _META_OLD)}


def meta_from(path: str, data: bytes | None, *, owner_cwd: str | None) -> Meta:
    """Read ``meta.json``. ``owner_cwd`` is the directory a cwd scope must belong to, else None.

    Raises:
      StoreError: E_UNSUPPORTED for a missing file, an unknown version or an old format; E_CORRUPT for broken rules.
    """
    document = parse_file(path, data) if data is not None else None
    if type(document) is not dict and document is not None:
        corrupt(path, "must be a JSON object")
    temporal = document.get("temporal") if document else None
    if document is None or type(temporal) is not dict or "checkpoint" not in temporal or "patches" not in temporal:
        raise StoreError(
            "E_UNSUPPORTED", f"{path}: missing or of a format without history; it was left as it is", path=path
        )
    if type(document.get("version")) is not int or document["version"] not in (1, 2):
        raise StoreError("E_UNSUPPORTED", f"{path}: version {shown(document.get('version'))} is not 1 or 2", path=path)
    if type(temporal["patches"]) is not list:
        raise StoreError("E_UNSUPPORTED", f"{path}: temporal.patches is not a list", path=path)
    patches = tuple(boundary_from(path, item) for item in temporal["patches"])
    revision = temporal.get("revision", len(patches))
    if not is_count(revision) or revision < len(patches):
        corrupt(path, "temporal.revision must be an integer not below the number of patches")
    if owner_cwd is not None and document.get("owner") != {"cwd": owner_cwd}:
        corrupt(path, f"this folder belongs to {shown(_owner(document))}, not to {shown(owner_cwd)}", owner=owner_cwd)
    return Meta(
        checkpoint=boundary_from(path, temporal["checkpoint"]),
        patches=patches,
        revision=revision,
        evidence=_evidence_from(path, document.get("artifacts", {})),
        owner_cwd=owner_cwd,
        foreign={key: value for key, value in document.items() if key not in _META_OWN},
    )


def _owner(document: Json) -> object:
    owner = document.get("owner")
    return owner.get("cwd") if type(owner) is dict else owner


def _evidence_from(path: str, value: object) -> dict[str, Any]:
    if type(value) is not dict:
        corrupt(path, "artifacts must be an object")
    if any(not key.strip() for key in value):
        corrupt(path, "artifacts holds a blank path")
    return {key: entry if is_evidence(entry) else None for key, entry in value.items()}


@attrs.frozen
class RunRecord:
    """What a session is doing: the content of its ``config.json`` and ``runtime.json``, without the lineage."""

    mode: Mode
    step: int = 0
    bootstrap: bool = False
    specification: str | None = None


@attrs.frozen
class Runtime:
    """A session's two private documents as read from disk."""

    run: RunRecord
    lineage: tuple[Boundary, ...]


def mode_from(path: str, data: bytes) -> Mode:
    """Read a session's ``config.json`` (store 1.6), also its old form."""
    document = parse_file(path, data)
    if type(document) is dict and len(document) == 1:
        mode, enabled = document.get("mode"), document.get("enabled")
        if type(mode) is str and mode in MODES:
            return mode
        if type(enabled) is bool:
            return "active" if enabled else "passive"
    corrupt(path, 'must be exactly {"mode": "active" | "passive" | "off"}')


def runtime_from(path: str, data: bytes, *, mode: Mode, cwd: str, session_id: str | None) -> Runtime:
    """Read ``runtime.json`` (store 1.7). ``session_id`` None accepts any session of ``cwd``."""
    document = parse_file(path, data)
    if type(document) is not dict or type(document.get("version")) is not int or document["version"] != 1:
        corrupt(path, "must be an object of version 1")
    for key in _RUNTIME_FORBIDDEN:
        if key in document:
            corrupt(path, f"holds {key!r}: a combined format that is not supported")
    found = document.get("identity")
    if type(found) is not dict or set(found) != {"cwd", "sessionId"} or type(found["sessionId"]) is not str:
        corrupt(path, "identity must be exactly cwd and sessionId")
    if found != {"cwd": cwd, "sessionId": found["sessionId"] if session_id is None else session_id}:
        corrupt(path, f"belongs to session {shown(found['sessionId'])} of {shown(found['cwd'])}")
    specification = document.get("specification")
    if specification is not None and type(specification) is not str:
        corrupt(path, "specification must be a string")
    bootstrap = document.get("bootstrap", False)
    if type(bootstrap) is not bool or not is_count(document.get("step")):
        corrupt(path, "step must be an integer from 0 and bootstrap a boolean")
    _check_validation(path, document.get("validation"))
    run = RunRecord(mode, document["step"], bootstrap, specification)
    return Runtime(run, _lineage_from(path, document.get("lineage")))


def _lineage_from(path: str, value: object) -> tuple[Boundary, ...]:
    if type(value) is not list or not 1 <= len(value) <= LINEAGE_MAX:
        corrupt(path, f"lineage must hold 1 to {LINEAGE_MAX} boundaries")
    lineage = tuple(boundary_from(path, item) for item in value)
    if len({boundary.id for boundary in lineage}) != len(lineage):
        corrupt(path, "lineage names a boundary twice")
    for older, newer in pairwise(lineage):
        if newer.position != older.position + 1 or newer.parent != older.id:
            corrupt(path, f"lineage is disconnected at {shown(newer.id)}")
    return lineage


def _check_validation(path: str, value: object) -> None:
    if value is None:
        return
    if (
        type(value) is not dict
        or set(value) != {"attempt", "error", "instruction"}
        or not is_count(value["attempt"], most=7)
        or type(value["error"]) is not str
        or type(value["instruction"]) is not str
    ):
        corrupt(path, "validation must be attempt (0 to 7), error and instruction")


def config_bytes(run: RunRecord) -> bytes:
    """A session's ``config.json``."""
    return canonical({"mode": run.mode})


def runtime_bytes(run: RunRecord, lineage: tuple[Boundary, ...], *, cwd: str, session_id: str) -> bytes:
    """A session's ``runtime.json``. ``lineage`` is the longest legal run of boundaries up to the head (Ours-15)."""
    document: Json = {
        "version": 1,
        "identity": {"cwd": cwd, "sessionId": session_id},
        "lineage": [boundary_json(boundary) for boundary in lineage],
        "step": run.step,
        "bootstrap": run.bootstrap,
    }
    if run.specification is not None:
        document["specification"] = run.specification
    return canonical(document)
