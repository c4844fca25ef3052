"""Every scope of a store as ``doctor`` checks it: formats, chains, lineage, owners, and rows that follow on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from .algebra import CallError, StrataflowError
from .codec import parse_strict
from .findings import Finding, counted, refusal
from .image import image_of
from .journal_inspection import JournalFacts
from .journal_reader import JournalLook
from .layout import CHECKPOINT, META, RUNTIME, Layout, SessionAddress, cwd_key, scope_kind
from .loading import Loaded, LoadedScope, Wanted, adopt_lineage, load
from .ports import Disk
from .rows import Row


def check_scopes(
    disk: Disk, layout: Layout, journal: JournalLook, facts: JournalFacts | None, on_disk: Iterable[str]
) -> Iterator[Finding]:
    """Check all scopes that lie on the disk or that the journal knows, one working directory at a time."""
    known = {scope for row in facts.rows for scope in row.touches()} | facts.bases.keys() if facts else set()
    scopes = sorted({"", *on_disk, *known})
    sound, is_global_missing = 0, False
    for folder in sorted({scope.partition("/")[0] for scope in scopes}):
        group = [scope for scope in scopes if scope.partition("/")[0] == folder]
        owner = _owner(disk, layout, facts, folder)
        wanted = [_wanted(disk, layout, facts, scope, owner) for scope in dict.fromkeys(["", *group])]
        try:
            loaded = load(disk, layout, journal, wanted, after=None)
        except StrataflowError as error:
            yield refusal(error, layout.folder(folder))
            continue
        checker = _Checker(disk, layout, loaded, owner)
        for scope in group:
            findings = list(checker.scope(scope))
            sound += all(finding.severity == "note" for finding in findings)
            yield from findings
        if _is_global_missing(loaded) and folder:
            is_global_missing = True
    if is_global_missing:
        words = f"{CHECKPOINT} of global memory is missing beside the memory of directories; restore it"
        yield Finding("problem", "global-missing", layout.root, words)
    yield Finding("ok", "scopes", layout.root, f"{counted(sound, 'scope')} can be read and agree with the journal")


def _owner(disk: Disk, layout: Layout, facts: JournalFacts | None, folder: str) -> str | None:
    """The directory that a folder says it belongs to; from the journal if its files do not tell."""
    if not folder:
        return None
    found = _member(disk, layout.file(folder, META), "owner", "cwd")
    if found is None and facts is not None:
        addresses = [row.content.address for row in facts.rows if folder in row.touches()]
        found = next((address.cwd for address in addresses if address is not None), None)
    return found


def _wanted(disk: Disk, layout: Layout, facts: JournalFacts | None, scope: str, owner: str | None) -> Wanted:
    if scope_kind(scope) != "session":
        return Wanted(scope, owner if scope else None)
    cwd = _member(disk, layout.file(scope, RUNTIME), "identity", "cwd")
    if cwd is None and facts is not None:
        addresses = [row.content.address for row in facts.rows if scope in row.touches()]
        cwd = next((address.cwd for address in addresses if address is not None), None)
    # A run record that names no directory is refused whatever is asked for.
    return Wanted(scope, cwd or owner or "/")


def _member(disk: Disk, path: str, outer: str, inner: str) -> str | None:
    """A text in a file, if it can be found without insisting on anything; its format is checked elsewhere."""
    try:
        document = parse_strict(disk.read(path) or b"null")
    except (CallError, StrataflowError):
        return None
    part = document.get(outer) if type(document) is dict else None
    found = part.get(inner) if type(part) is dict else None
    return found if type(found) is str and found else None


def _is_global_missing(loaded: Loaded) -> bool:
    """A lost global pair reads as no memory at all, which a reader must not believe (store 3.2.6)."""
    found = loaded.scopes[""]
    others = [item for scope, item in loaded.scopes.items() if scope and item.state is not None]
    rows = [row for row in loaded.view.rows if "global" in row.content.parts and not found.is_foreign]
    return found.state is None and found.error is None and bool(others) and not rows


@attrs.frozen
class _Checker:
    """The scopes of one working directory, loaded at one moment."""

    _disk: Disk
    _layout: Layout
    _loaded: Loaded
    _owner: str | None

    def scope(self, scope: str) -> Iterator[Finding]:
        """Everything that can be said of one scope."""
        found = self._loaded.scopes[scope]
        path = self._layout.folder(scope)
        if found.error is not None:
            yield refusal(found.error, path)
            return
        rows = [row for row in self._loaded.view.rows if scope in row.touches() and row.seq > found.through]
        if found.is_foreign:
            assert found.base is not None
            lost = [row for row in self._loaded.view.rows if row.seq > found.base.through and scope in row.touches()]
            words = "its files were changed by another program; they win when the store is next opened"
            kept = f", and {counted(len(lost), 'change')} not in them will be kept in superseded/" if lost else ""
            yield Finding("warning", "foreign-bytes", path, words + kept)
        else:
            yield from self._rows(path, found, rows)
        kind = scope_kind(scope)
        if kind != "global" and (found.state is not None or found.run is not None):
            yield from self._folder_name(path, scope, found)
        if kind == "session" and found.run is not None and not found.is_foreign:
            yield from self._lineage(path, found)
        malformed = [key for key, entry in (found.state.evidence if found.state else {}).items() if entry is None]
        if malformed:
            words = f"evidence of {counted(len(malformed), 'artifact')} is malformed and goes with the next write"
            yield Finding("note", "evidence", path, words)

    def _rows(self, path: str, found: LoadedScope, rows: Sequence[Row]) -> Iterator[Finding]:
        """The journal's rows must follow on what the files say: revision by revision."""
        state = image_of(found).state
        revision = state.revision if state else None
        kind = scope_kind(found.wanted.scope)
        for row in rows:
            part = row.content.parts.get(kind)
            if part is None or kind in row.superseded:
                continue
            if revision is None and part.base is not None:
                revision = 0
            if revision is not None and part.record is not None:
                revision += 1
            if revision != part.revision:
                words = f"row {row.seq} of the journal does not follow on the files; see `strataflow doctor --rebuild`"
                yield Finding("problem", "rows-do-not-follow", path, words)
                return

    def _folder_name(self, path: str, scope: str, found: LoadedScope) -> Iterator[Finding]:
        folder, _, key = scope.partition("/")
        cwd = found.wanted.cwd
        if cwd is None:
            yield Finding("problem", "owner", path, f"its {META} does not say which directory it belongs to")
        elif cwd_key(cwd) != folder:
            yield Finding("problem", "owner", path, f"belongs to {cwd}, whose folder is {cwd_key(cwd)}")
        elif key and self._owner not in (None, cwd):
            yield Finding("problem", "owner", path, f"belongs to {cwd}, the folder above to {self._owner}")
        if key:
            identity = _member(self._disk, self._layout.file(scope, RUNTIME), "identity", "sessionId")
            if identity is not None and key != identity and not key.endswith(f"_{identity}"):
                words = f"holds session {identity}, which is not found under this name"
                yield Finding("note", "folder-name", path, words)

    def _lineage(self, path: str, found: LoadedScope) -> Iterator[Finding]:
        """Store 3.6.9, judged only where files of one moment lie side by side."""
        scope = found.wanted.scope
        assert found.wanted.cwd is not None
        address = SessionAddress(found.wanted.cwd, "", scope.partition("/")[2])
        trio = {folder: self._loaded.scopes.get(folder) for _, folder in address.scopes()}
        usable: Mapping[str, LoadedScope] = {
            folder: item for folder, item in trio.items() if item is not None and item.error is None
        }
        if len(usable) < len(trio) or any(row.touches() & trio.keys() for row in self._loaded.view.rows):
            return
        try:
            adopt_lineage(self._layout, address, usable)
        except StrataflowError as error:
            yield Finding("problem", "lineage", path, error.message)
