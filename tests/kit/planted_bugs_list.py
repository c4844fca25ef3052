"""All planted defects."""

from __future__ import annotations

from kit import planted_bugs_calls, planted_bugs_files

BUGS = (*planted_bugs_files.BUGS, *planted_bugs_calls.BUGS)
