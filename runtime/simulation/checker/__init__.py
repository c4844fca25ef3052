"""The history checker: what clients saw, judged by a model of its own. See ``check``."""

from .check import RULES as RULES
from .check import check as check
from .check import is_explainable as is_explainable
from .files import check_files as check_files
from .files import history_from_files as history_from_files
from .text import told as told
