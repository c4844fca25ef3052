"""Simulated forms of the seams: a disk that loses power, locks and processes of one machine."""

from .disk import PowerCut as PowerCut
from .disk import SimulatedDisk as SimulatedDisk
from .fates import CrashMode as CrashMode
from .locks import SimulatedLocks as SimulatedLocks
from .locks import SimulatedProcessTable as SimulatedProcessTable
