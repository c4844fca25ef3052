"""How much a study plays, and the synthetic texts that it plays with."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

CWD = "/bench/project"
OTHER_CWD = "/bench/other"

# The read of a trajectory: a marker line and 20 KiB.
TRAJECTORY_READ_BYTES = 20_497
_WORDS = "what a file holds: plain words, a few numbers 0123456789 and now and then a § or an ü; "


@attrs.frozen
class Workload:
    """Sizes and counts, with the names by which an environment changes them.

    Attributes:
      patches: user runs of the lifecycle, each with one patch (``BENCH_PATCHES``).
      samples: how often a conversation is opened and resumed at each checkpoint (``BENCH_SAMPLES``).
      rounds: synchronised rounds of two publishers (``BENCH_ROUNDS``).
      state_bytes: payloads of the lifecycle's memory (``BENCH_STATE_BYTES``, numbers with commas between).
      transcript_bytes: of each run's native read, behind its marker line (``BENCH_TRANSCRIPT_BYTES``).
    """

    patches: int = 200
    samples: int = 3
    rounds: int = 10
    state_bytes: tuple[int, ...] = (8_192, 131_072)
    transcript_bytes: int = 4_096

    def to_json(self) -> dict[str, object]:
        """By the names of the environment."""
        return {
            "BENCH_PATCHES": self.patches,
            "BENCH_SAMPLES": self.samples,
            "BENCH_ROUNDS": self.rounds,
            "BENCH_STATE_BYTES": list(self.state_bytes),
            "BENCH_TRANSCRIPT_BYTES": self.transcript_bytes,
        }


SMOKE = Workload(patches=2, samples=1, rounds=2, state_bytes=(1_024,), transcript_bytes=1_024)


def workload_from(environment: Mapping[str, str], *, smoke: bool) -> Workload:
    """The default or smoke sizes, as far as ``environment`` does not say otherwise.

    Raises:
      ValueError: for what is no positive number, naming the variable.
    """
    base = SMOKE if smoke else Workload()

    def number(name: str, default: int) -> int:
        return _number(name, environment[name]) if name in environment else default

    sizes = environment.get("BENCH_STATE_BYTES")
    return Workload(
        patches=number("BENCH_PATCHES", base.patches),
        samples=number("BENCH_SAMPLES", base.samples),
        rounds=number("BENCH_ROUNDS", base.rounds),
        state_bytes=base.state_bytes
        if sizes is None
        else tuple(_number("BENCH_STATE_BYTES", size) for size in sizes.split(",")),
        transcript_bytes=number("BENCH_TRANSCRIPT_BYTES", base.transcript_bytes),
    )


def _number(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(f"{name} must be a whole number from 1 on, not {text!r}: unset it for the default")
    return number


def filler(size_bytes: int) -> str:
    """A text of exactly so many UTF-8 bytes, some of them parts of characters that are not ASCII."""
    data = (_WORDS * (size_bytes // len(_WORDS) + 1)).encode()[:size_bytes]
    text = data.decode("utf-8", "ignore")
    return text + "." * (size_bytes - len(text.encode()))


def trajectory_text(number: int) -> str:
    """What read ``number`` of a trajectory returns."""
    marker = f"trajectory {number:05}\n"
    return marker + filler(TRAJECTORY_READ_BYTES - len(marker))


def lifecycle_text(number: int, transcript_bytes: int) -> str:
    """What the native read of run ``number`` returns: a marker line of 15 bytes and the rest."""
    return f"lifecycle {number:04}\n" + filler(transcript_bytes)
