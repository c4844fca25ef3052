"""Reports of studies as Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .bounds import Bound
from .lifecycle import Lifecycle
from .publishers import Publishers
from .trajectory import Trajectory


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def trajectory_table(entries: Sequence[Trajectory]) -> str:
    """Shared prefix and length of each request, mode by mode."""
    head = ["request", "before it", *(_name(entry) for entry in entries)]
    rows = []
    for number in range(max((len(entry.inferences) for entry in entries), default=0)):
        cells = [str(number + 1), "" if number == 0 else _action(entries, number - 1)]
        for entry in entries:
            found = entry.inferences[number] if number < len(entry.inferences) else None
            shared = found.shared_prefix_bytes if found is not None else None
            size = "" if found is None else f"{found.context_bytes:,}"
            cells.append(f"{'–' if shared is None else f'{shared:,}'} / {size}")
        rows.append(cells)
    rows.append(["all", "", *(f"{entry.reused:.3%}" for entry in entries)])
    return _table(head, rows)


def _name(entry: Trajectory) -> str:
    return f"{entry.mode}, head made anew after each patch" if entry.makes_head_anew else entry.mode


def _action(entries: Sequence[Trajectory], number: int) -> str:
    return next((entry.actions[number] for entry in entries if number < len(entry.actions)), "")


def outcome_table(bounds: Sequence[Bound]) -> str:
    """Byte counts and their limits."""
    rows = []
    for each in bounds:
        found = "nothing" if each.least is None else f"{each.least:,}"
        if each.most != each.least:
            found += f" to {each.most:,}"
        rows.append([each.name, found, each.limit, "kept" if each.is_kept else "missed"])
    return _table(["", "found", "limit", ""], rows)


def lifecycle_table(entries: Sequence[Lifecycle]) -> str:
    """One line for each conversation and checkpoint."""
    head = [
        "memory",
        "payload",
        "runs",
        "transitions",
        "conversation",
        "first request of the last run",
        "first request resumed",
        "run p50",
        "run p95",
        "open p50",
        "resume p50",
    ]
    rows = []
    for entry in entries:
        found = entry.to_json()
        resumed = found["resumedContextBytes"]
        rows.append(
            [
                "yes" if found["stateFlow"] else "no",
                f"{found['stateBytes']:,}",
                f"{found['userRuns']:,}",
                f"{found['acceptedTransitions']:,}",
                f"{found['nativeFileBytes']:,}",
                f"{found['contextBytesPerRun'][-1]:,}",
                f"{resumed[-1]:,}" if resumed else "",
                _ms(found["recentRuns"], "p50"),
                _ms(found["recentRuns"], "p95"),
                _ms(found["openSession"], "p50"),
                _ms(found["resumeRuntime"], "p50"),
            ]
        )
    return _table(head, rows)


def publishers_table(entries: Sequence[Publishers]) -> str:
    """One line for each case, and one for each that was backed up."""
    head = ["directory", "memory", "backups", "attempts", "accepted", "failed"]
    head += ["patch p50", "patch p95", "answer p50", "answer p95", "errors"]
    rows, backed = [], []
    for entry in entries:
        found = entry.to_json()
        place = ["same" if found["sameCwd"] else "different", found["scope"]]
        rows.append(
            [
                *place,
                "no" if found["backups"] is None else "yes",
                str(found["attempts"]),
                str(found["accepted"]),
                str(found["failed"]),
                *(_ms(found[of], name) for of in ("wallMs", "answerMs") for name in ("p50", "p95")),
                "; ".join(f"{count} × {text}" for text, count in found["errors"].items()),
            ]
        )
        if found["backups"] is not None:
            backed.append([*place, str(found["answers"]), *_backups(found["backups"])])
    return f"{_table(head, rows)}\n{_table(_BACKUPS_HEAD, backed)}" if backed else _table(head, rows)


_BACKUPS_HEAD = (
    "directory",
    "memory",
    "answers",
    "commits",
    "backups deferred",
    "backups failed",
    "pushes",
    "pushes skipped",
    "pushes failed",
    "answers that waited for a push",
    "answer while one is held",
    "quiet again p50",
    "quiet again p95",
)


def _backups(found: dict[str, Any]) -> list[str]:
    counts = "commits deferredBackups failedBackups pushes skippedPushes failedPushes".split()
    held, waited = found["answersWhilePushIsHeld"], found["answersThatWaitedForPush"]
    return [
        *(str(found[name]) for name in counts),
        f"{'not known' if waited is None else waited} of {held}",
        _ms(found["answerWhilePushIsHeldMs"], "p50"),
        *(_ms(found["quietMs"], name) for name in ("p50", "p95")),
    ]


def _ms(found: dict[str, Any] | None, name: str) -> str:
    return "not told" if found is None else f"{found[name]:,.3g} ms"
