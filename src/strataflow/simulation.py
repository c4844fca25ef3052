"""strataflow.simulation: your agents in a simulated world, with crashes, slow disks and other writers, from a seed.

``simulate`` runs one world and reports; ``FaultPlan`` says what goes wrong in it. What is named in ``__all__`` is
public; everything below ``strataflow.runtime`` may move.
"""

from .runtime.simulation.fault_plan import KINDS, Fault, FaultPlan
from .runtime.simulation.history import Call, History, Read, Violation
from .runtime.simulation.process import Process
from .runtime.simulation.recorder import RecordedSession
from .runtime.simulation.report import Report
from .runtime.simulation.run import simulate
from .runtime.simulation.timeline import timeline

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
