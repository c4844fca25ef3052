"""strataflow.simulation: your agents in a simulated world, with crashes, slow disks and other writers, from a seed.

``simulate`` runs one world and reports; ``FaultPlan`` says what goes wrong in it. What is named in ``__all__`` is
public; everything below ``strataflow.runtime`` may move.
"""

from .runtime.simulation import (
    KINDS,
    Call,
    Fault,
    FaultPlan,
    History,
    Process,
    Read,
    RecordedSession,
    Report,
    Violation,
    simulate,
    timeline,
)

__all__ = [
    "KINDS",
    "Call",
    "Fault",
    "FaultPlan",
    "History",
    "Process",
    "Read",
    "RecordedSession",
    "Report",
    "Violation",
    "simulate",
    "timeline",
]
