"""Studies: what an agent's conversations cost over a store (``strataflow bench trajectory``).

Where the measures compare this program with a peer, a study plays a whole workload with a scripted model, counts bytes
and calls, checks that everything came out right, and only then tells times. The door is light: what plays is imported
when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .study import StudyReport

STUDIES = ("trajectory", "lifecycle", "publishers")


def run_study(
    name: str,
    folder: str,
    *,
    smoke: bool = False,
    environment: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> StudyReport:
    """Play one study.

    Args:
      name: of ``STUDIES``.
      folder: where its stores lie. Everything written there is removed again.
      smoke: as little as shows that everything works.
      environment: sizes that differ from the defaults, by the names of ``BENCH_PATCHES`` and the like.
      progress: called with a few words before each step.

    Blocking: it runs event loops and processes of its own, so it must not be called from inside one.

    Raises:
      ValueError: a size in ``environment`` that is no positive number.
    """
    from .study import play
    from .workload import workload_from

    return play(name, workload_from(environment or {}, smoke=smoke), folder, progress)
