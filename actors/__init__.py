"""The door of the actor layer. trio begins here; files, sockets and processes are reached only through ports."""

from .actor import Actor, ActorRef, Request
from .bell import PollingBell
from .checkpointer import Checkpointer
from .host_recorder import HostRecorder
from .limits import PI_POLL_S, POLL_BEAT_S
from .mailbox import Mailbox, MailboxStatistics
from .ports import Clock, Ids, JournalBell, Threads
from .session_actor import SessionActor
from .session_cell import Choice, SessionCell
from .session_context import SessionContext, has_answers, transitions_of, updates_for_nobody
from .session_messages import AcceptResponse, MoveTree, SelectMode
from .store_actor import StoreActor, StoreStatistics
from .store_messages import Checkpoint, CloseScopes, Commit, OpenScopes, Refresh, refusal
from .store_world import StoreWorld
from .supervision import Budget, ChildSpec, Decision, Done, GiveUp, Outcome, Restart, decide
from .supervisor import Supervisor, SupervisorStatistics, open_supervisor
from .tree_actor import TreeActor, TreeCell
from .turn import Turn, check_pending
from .waits import Wait, Waits
from .watching import Listener, WatchHub

__all__ = [
    "PI_POLL_S",
    "POLL_BEAT_S",
    "AcceptResponse",
    "Actor",
    "ActorRef",
    "Budget",
    "Checkpoint",
    "Checkpointer",
    "ChildSpec",
    "Choice",
    "Clock",
    "CloseScopes",
    "Commit",
    "Decision",
    "Done",
    "GiveUp",
    "HostRecorder",
    "Ids",
    "JournalBell",
    "Listener",
    "Mailbox",
    "MailboxStatistics",
    "MoveTree",
    "OpenScopes",
    "Outcome",
    "PollingBell",
    "Refresh",
    "Request",
    "Restart",
    "SelectMode",
    "SessionActor",
    "SessionCell",
    "SessionContext",
    "StoreActor",
    "StoreStatistics",
    "StoreWorld",
    "Supervisor",
    "SupervisorStatistics",
    "Threads",
    "TreeActor",
    "TreeCell",
    "Turn",
    "Wait",
    "Waits",
    "WatchHub",
    "check_pending",
    "decide",
    "has_answers",
    "open_supervisor",
    "refusal",
    "transitions_of",
    "updates_for_nobody",
]
