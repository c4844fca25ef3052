"""strataflow: transactional JSON memory for AI agents.

This module is the door of the package. Whatever a user may rely on is named in ``__all__``; everything else may move.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
