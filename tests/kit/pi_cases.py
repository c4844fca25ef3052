"""Tables of inputs and outputs taken from the original program: ``tests/conformance/pi/cases``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "conformance" / "pi" / "cases"


def cases(name: str) -> Any:
    """The table ``name``, as JSON."""
    return json.loads((FOLDER / f"{name}.cases.json").read_text(encoding="utf-8"))


def case_id(case: Any) -> str:
    """A short name of a case for the list of tests."""
    named = case.get("name") if isinstance(case, dict) else None
    return ascii(named or next(iter(case.values()), ""))[:60]
