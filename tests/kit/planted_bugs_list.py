"""All planted defects."""

from __future__ import annotations

from kit.planted_bugs_files import BUGS as FILES
from kit.planted_bugs_rows import BUGS as ROWS
from kit.planted_bugs_tasks import BUGS as TASKS
from kit.planted_bugs_transactions import BUGS as TRANSACTIONS

BUGS = (*FILES, *ROWS, *TRANSACTIONS, *TASKS)
