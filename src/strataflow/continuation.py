"""strataflow.continuation: which session to continue when an agent starts. Advice only: nothing is decided or written.

``list_sessions`` and ``inspect_session`` look, ``recommend`` advises, ``resolve_startup`` puts an explicit wish first.
"""

from .runtime import inspect_store
from .runtime.continuation import (
    Candidate,
    Here,
    SessionHeader,
    Startup,
    inspect_session,
    list_sessions,
    read_header,
    recommend,
    resolve_startup,
)

__all__ = [
    "Candidate",
    "Here",
    "SessionHeader",
    "Startup",
    "inspect_session",
    "inspect_store",
    "list_sessions",
    "read_header",
    "recommend",
    "resolve_startup",
]
