"""Complete files in ``staged/``, ready to be renamed over the canonical ones (C1, C2 of the checkpoint)."""

from __future__ import annotations

from collections.abc import Mapping

from .algebra import Lineage, StoreError
from .codec import identity
from .image import ScopeImage
from .journal_types import Base, CheckpointList, FileMove
from .layout import CONFIG, META, RUNTIME, Layout, scope_files
from .loading import LoadedScope
from .ports import Disk

_ORDER = {META: 1, CONFIG: 2, RUNTIME: 3}


class Staging:
    """Complete files in ``staged/``, collected until the list that names them is sealed."""

    def __init__(self, disk: Disk, layout: Layout, token: str) -> None:
        self._disk, self._layout, self._token = disk, layout, token
        self._moves: list[FileMove] = []
        self._before: dict[str, Mapping[str, str]] = {}
        self._after: dict[str, Mapping[str, str]] = {}
        self.size_bytes = 0
        disk.make_folder(layout.private("staged"))

    def add(self, scope: str, found: LoadedScope, files: Mapping[str, bytes]) -> None:
        """Stage what differs from the disk; a file that is replaced keeps its mode (Ours-14)."""
        after = dict(found.identity)
        moves: list[FileMove] = []
        for name in scope_files(scope):
            data = files.get(name)
            if data is None or identity(data) == after[name]:
                continue
            stat = self._disk.stat(self._layout.file(scope, name))
            staged = f"{self._token}-{len(self._moves) + len(moves)}"
            path = self._layout.private("staged", staged)
            self._disk.write_new(path, data, mode=stat.mode if stat else 0o600)
            moves.append(FileMove(scope, name, staged, before=after[name], after=identity(data)))
            after[name] = identity(data)
            self._disk.sync_file(path)
            self.size_bytes += len(data)
        self._moves += moves
        self._before[scope], self._after[scope] = found.identity, after

    def sealed(
        self, through: int, head: int, images: Mapping[str, ScopeImage], loaded: Mapping[str, LoadedScope]
    ) -> CheckpointList:
        """The list of everything staged; the staged files are durable."""
        if self._moves:
            self._disk.sync_folder(self._layout.private("staged"))
            # Whoever made the folder may have died, or have been refused, before its own name was synced.
            self._disk.sync_folder(self._layout.private())
        after = {
            scope: Base(
                identity=found,
                through=head,
                floor=_floor(images[scope]),
                lineage=_base_lineage(images[scope], loaded[scope]),
                last_writer=images[scope].last_writer,
                last_seq=images[scope].last_seq,
            )
            for scope, found in self._after.items()
        }
        moves = sorted(
            self._moves, key=lambda move: (_ORDER.get(move.name, 0), bool(move.scope) + move.scope.count("/"))
        )
        return CheckpointList(through, self._before, after, tuple(moves))

    def discard(self) -> None:
        """Remove what was staged, as far as the disk allows: leftovers are harmless and removed later."""
        for move in self._moves:
            try:
                self._disk.unlink(self._layout.private("staged", move.staged))
            except StoreError:
                return


def _floor(image: ScopeImage) -> int:
    return image.state.floor if image.state else 0


def _base_lineage(image: ScopeImage, loaded: LoadedScope) -> Lineage | None:
    return image.lineage or loaded.lineage
