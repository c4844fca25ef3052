"""The wheel holds what the tree holds: built from the checkout, and built from an unpacked sdist."""

from __future__ import annotations

import importlib.util
import tomllib
import types
from pathlib import Path

import pytest

from kit.source_tree import ROOT


def _load_wheel_check() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("wheel_check", ROOT / ".ci" / "wheel_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wheel_check = _load_wheel_check()


@pytest.mark.slow
def test_the_wheel_holds_exactly_the_files_of_the_tree(tmp_path: Path) -> None:
    wheel = wheel_check.build("wheel", ROOT, tmp_path)
    assert wheel_check.differences(wheel_check.tree_files(), wheel_check.wheel_files(wheel)) == []


@pytest.mark.slow
def test_a_wheel_built_from_the_sdist_is_the_same(tmp_path: Path) -> None:
    # The links are followed once only when an sdist is built carelessly, and whole packages get lost.
    sdist = wheel_check.build("sdist", ROOT, tmp_path / "sdist")
    folder = wheel_check.unpack_sdist(sdist, tmp_path / "unpacked")
    wheel = wheel_check.build("wheel", folder, tmp_path / "wheel")
    assert wheel_check.differences(wheel_check.tree_files(), wheel_check.wheel_files(wheel)) == []


def test_a_file_that_is_missing_surplus_or_altered_is_named() -> None:
    tree = {"strataflow/a.py": b"1", "strataflow/b.py": b"2"}
    wheel = {"strataflow/b.py": b"3", "strataflow/c.py": b"4"}
    assert wheel_check.differences(tree, tree) == []
    assert wheel_check.differences(tree, wheel) == [
        "missing in the wheel: strataflow/a.py",
        "only in the wheel: strataflow/c.py",
        "altered in the wheel: strataflow/b.py",
    ]


def test_the_tree_to_compare_with_is_not_empty() -> None:
    names = wheel_check.tree_files()
    assert {"strataflow/__init__.py", "strataflow/__main__.py", "strataflow/py.typed"} <= names.keys()
    assert all(any(name.startswith(f"strataflow/{folder}/") for name in names) for folder in ["store", "actors"])


def test_the_package_shows_the_readme_once_there_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project.get("readme") == ("README.md" if (ROOT / "README.md").is_file() else None)
