"""What an agent refuses."""

from __future__ import annotations

from ...store import StrataflowError


class AgentError(StrataflowError):
    """An agent can not do this now. Nothing has changed; a run that is under way goes on."""

    codes = frozenset(
        "E_AGENT_RUNNING E_AGENT_CONTINUE E_AGENT_CLOSED E_AGENT_SCRIPT E_AGENT_SESSION E_AGENT_ABORTED".split()
    )


def closed() -> AgentError:
    """Of an agent that was closed."""
    return AgentError("E_AGENT_CLOSED", "this agent is closed; make another one")
