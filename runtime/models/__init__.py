"""Models: a table of known ones, and a client that asks them (``strataflow[models]``).

The HTTP library is loaded when the first client is opened, and only then.
"""

from ..agent.failed_answers import is_context_overflow, is_retryable
from .client import ModelClient, open_model_client
from .errors import ModelError
from .http_call import ModelPatience, ModelRetry
from .table import get_model, list_models, load_models, register_model

__all__ = [
    "ModelClient",
    "ModelError",
    "ModelPatience",
    "ModelRetry",
    "get_model",
    "is_context_overflow",
    "is_retryable",
    "list_models",
    "load_models",
    "open_model_client",
    "register_model",
]
