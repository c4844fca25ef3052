"""The door of the simulator: worlds, what goes wrong in them, and the simulated forms of the seams below.

Most programs never simulate, so it is a door of its own: nothing else in the runtime loads it.
"""

from .disk import PowerCut as PowerCut
from .disk import SimulatedDisk as SimulatedDisk
from .fates import CrashMode as CrashMode
from .fault_plan import KINDS as KINDS
from .fault_plan import Fault as Fault
from .fault_plan import FaultPlan as FaultPlan
from .history import Call as Call
from .history import History as History
from .history import Read as Read
from .history import Violation as Violation
from .locks import SimulatedLocks as SimulatedLocks
from .locks import SimulatedProcessTable as SimulatedProcessTable
from .many import WorldSetting as WorldSetting
from .many import WorldTally as WorldTally
from .many import simulate_many as simulate_many
from .process import Process as Process
from .recorder import RecordedSession as RecordedSession
from .report import Report as Report
from .run import simulate as simulate
from .shrink import RUNS_MAX as RUNS_MAX
from .shrink import Size as Size
from .shrink import shrink as shrink
from .timeline import timeline as timeline
