"""The door of the store layer."""

from .algebra.errors import CallError as CallError
from .algebra.errors import ConfigError as ConfigError
from .algebra.errors import ReadError as ReadError
from .algebra.errors import RequestError as RequestError
from .algebra.errors import RuntimeFailed as RuntimeFailed
from .algebra.errors import StoreError as StoreError
from .algebra.errors import StrataflowError as StrataflowError
