"""An agent with a session: its conversation in the session's tree, its memory in its requests, and what is done around
its runs. ``session_host`` joins the parts.
"""

from .conversing import Conversing
from .rules import ConversationRules, FindModel, RetrySettings
from .session_host import SessionHost

__all__ = ["ConversationRules", "Conversing", "FindModel", "RetrySettings", "SessionHost"]
