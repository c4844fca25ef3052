"""The second half of a checkpoint: a prepared list is carried out, by whoever holds ``checkpoint.lock`` (J5).

The invariants C1, C2 and C4 of ``checkpoint`` hold here too. Everything may be repeated after a stop at any point.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .algebra import StoreError, StrataflowError
from .codec import identity
from .journal_types import NO_ROWS, CheckpointList, Journal
from .layout import Layout
from .ports import Disk
from .scope_files import read_scope


@attrs.frozen
class CarriedOut:
    """Which scopes of a list were not written.

    ``foreign`` hold bytes of others. ``refused`` ones could not be written, for the cause given, and are as before.
    """

    foreign: tuple[str, ...] = ()
    refused: Mapping[str, StrataflowError] = attrs.field(factory=dict)

    @property
    def left_out(self) -> frozenset[str]:
        """All of them."""
        return frozenset((*self.foreign, *self.refused))


def finish_prepared(disk: Disk, layout: Layout, journal: Journal) -> CarriedOut:
    """Finish the prepared list, if there is one.

    Raises:
      StoreError: E_DISK and others; the list stays, to be finished when the cause is gone.
    """
    prepared = journal.view(NO_ROWS).prepared
    if prepared is None:
        if disk.list(layout.private("staged")):
            journal.sync()  # C4
            _sweep(disk, layout)
        return CarriedOut()
    done = carry_out(disk, layout, prepared)
    after = {scope: base for scope, base in prepared.after.items() if scope not in done.left_out}
    # If some are left out, nothing beyond the last finished checkpoint may count as written.
    journal.finish(attrs.evolve(prepared, after=after, through=0 if done.left_out else prepared.through))  # C2
    _sweep(disk, layout)
    return done


def carry_out(disk: Disk, layout: Layout, prepared: CheckpointList) -> CarriedOut:
    """Do the renames of a list, file by file, durably.

    "After" is done, "before" is renamed, anything else makes the scope foreign (C1). Safe to repeat after any stop.
    """
    found: dict[str, Mapping[str, str]] = {}
    foreign: set[str] = set()
    refused: dict[str, StrataflowError] = {}
    begun: set[str] = set()
    folders: set[str] = set()
    for move in prepared.moves:
        scope = move.scope
        if scope not in found:
            found[scope] = read_scope(disk, layout, scope).identity
            if not _is_known(prepared, scope, found[scope]):
                foreign.add(scope)
        if scope in foreign or scope in refused:
            continue
        if found[scope][move.name] == move.after:
            folders.add(layout.folder(scope))  # whoever renamed it may have died before its folder was synced
            continue
        staged, path = layout.private("staged", move.staged), layout.file(scope, move.name)
        # Looked at as late as can be: what a stranger writes after this, we rename over.
        if disk.stat(staged) is None or identity(disk.read(path)) != move.before:
            foreign.add(scope)
            continue
        try:
            if scope not in begun and set(prepared.before[scope].values()) == {identity(None)}:
                _make_folders(disk, layout, scope)
            disk.rename(staged, path)
        except StoreError as error:
            if scope in begun or found[scope] != prepared.before[scope]:
                raise  # half of this scope is renamed: only this list tells what it is
            # Trouble in one folder is that scope's trouble (Ours-17).
            refused[scope] = error
            continue
        begun.add(scope)
        folders.add(layout.folder(scope))
    for folder in sorted(folders):
        disk.sync_folder(folder)
    # A stranger who came in between left a mixture. It must not count as written: then its rows are kept aside (J6).
    foreign |= {
        scope
        for scope, base in prepared.after.items()
        if scope not in foreign | refused.keys() and read_scope(disk, layout, scope).identity != base.identity
    }
    return CarriedOut(tuple(sorted(foreign)), refused)


def _is_known(prepared: CheckpointList, scope: str, found: Mapping[str, str]) -> bool:
    before, after = prepared.before[scope], prepared.after[scope].identity
    return all(found[name] in (before[name], after[name]) for name in found)


def _make_folders(disk: Disk, layout: Layout, scope: str) -> None:
    """The folders of a scope that is new, durable before anything is moved into them.

    Otherwise a cut could take the folder with the new name, and keep the removal of the old one. One that is there
    already may have been made a moment ago, by a process that died: it is synced too.
    """
    parent = ""
    for part in scope.split("/") if scope else ():
        folder = f"{parent}/{part}" if parent else part
        disk.make_folder(layout.folder(folder))
        disk.sync_folder(layout.folder(parent))
        parent = folder


def _sweep(disk: Disk, layout: Layout) -> None:
    """Remove staged files that no list names."""
    for name in disk.list(layout.private("staged")) or ():
        disk.unlink(layout.private("staged", name))
