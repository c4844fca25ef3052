"""How much is measured: the full run of a report, a quick look, and what a test needs to see that it works."""

from __future__ import annotations

import attrs

KIB = 1 << 10
MIB = 1 << 20


@attrs.frozen
class Scale:
    """Sizes and counts.

    Attributes:
      rounds: how often each side runs; sides take turns, medians count.
      round_s: how long a side runs in a round, in seconds.
      large, huge: JSON bytes of the larger scopes.
      sessions: sessions of one process.
      processes: processes of one store.
      commits: commits over which written bytes are counted.
      many, few: sessions of the stores that are compared when one is opened.
      rows: bytes of journal rows that an opening has to read.
      reads: reads of a subtree in a round.
      increments: of one counter by each process, in a round.
      changes: changes that a watcher is told of, one after the other.
      idle_s: how long the processor time of an idle process is measured, in seconds.
      worlds: simulated worlds.
      entries: of a large session file.
      listed: sessions of one folder.
      streams, pieces: answers of models that stream at once, and the pieces of each.
    """

    rounds: int = 5
    round_s: float = 1.0
    large: int = MIB
    huge: int = 10 * MIB
    sessions: int = 64
    processes: int = 8
    commits: int = 10_000
    many: int = 1_000
    few: int = 10
    rows: int = 4 * MIB
    reads: int = 3_000
    increments: int = 200
    changes: int = 300
    idle_s: float = 20.0
    worlds: int = 40
    entries: int = 200_000
    listed: int = 10_000
    streams: int = 100
    pieces: int = 200


FULL = Scale()
QUICK = Scale(
    rounds=3,
    round_s=0.4,
    commits=2_000,
    many=200,
    reads=500,
    increments=64,
    changes=100,
    idle_s=5.0,
    worlds=10,
    entries=20_000,
    listed=1_000,
    pieces=50,
)
