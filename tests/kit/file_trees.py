"""Trees of small files for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def plant(root: Path, files: Mapping[str, str]) -> Path:
    """Write each text under its path below ``root``. Returns ``root``."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def skill_text(description: str = "x", *fields: str, body: str = "body") -> str:
    """A skill file with this description (a YAML value) and further fields."""
    return "\n".join(["---", f"description: {description}", *fields, "---", body, ""])
