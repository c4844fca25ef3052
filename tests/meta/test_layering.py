"""The arrows between the layers, proved from syntax trees over the real folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.layer_checker import check, refuse_bare_layers
from kit.layer_rules import NAMED_MODULES
from kit.source_tree import FACE_FOLDER, PACKAGE_FOLDERS, ROOT, package_modules, python_files, read

# A small tree that breaks nothing; each planted violation replaces or adds one file.
CLEAN = {
    "src/strataflow/__init__.py": "from .runtime import open_runtime\nfrom .store import apply_patch\n",
    "src/strataflow/__main__.py": "from .runtime.surfaces.cli import main\n",
    "src/strataflow/aio.py": "import asyncio\nimport threading\nimport trio\nfrom . import open_runtime\n",
    "store/__init__.py": "from .algebra import apply_patch, values\nfrom .checkpoint import checkpoint\n",
    "store/algebra/__init__.py": "from .patch import apply_patch\nfrom .values import values\n",
    "store/algebra/patch.py": "import re\nfrom collections.abc import Mapping\nimport attrs\nfrom . import values\n",
    "store/algebra/values.py": "import datetime\ndatetime.datetime.fromisoformat('2026-01-01')\n",
    "store/projection/__init__.py": "from .head import project\n",
    "store/projection/head.py": "from ..algebra import apply_patch\nfrom ..algebra.values import values\n",
    "store/checkpoint.py": "import logging, cattrs\nfrom .algebra import apply_patch\nfrom .projection import head\n",
    "store/codec.py": "import orjson\n",
    "store/disk.py": "import os\nwith open('x') as file: pass\n",
    "store/journal_sqlite.py": "import sqlite3\n",
    "store/trace/tree.py": "from ..codec import x\n",
    "actors/__init__.py": "from .kernel import ask\n",
    "actors/_trio_util.py": "import trio_util\n",
    "actors/kernel.py": "import trio\nfrom ..store import checkpoint\nfrom ._trio_util import AsyncValue\n",
    "actors/session.py": "from ..store import apply_patch\nfrom ..store.projection import project\n",
    "actors/supervision.py": "import enum\nimport attrs\n",
    "runtime/__init__.py": "import os\nimport trio\nfrom ..actors import ask\nfrom ..store import apply_patch\n",
    "runtime/agent/step.py": "from ...store import apply_patch\n",
    "runtime/surfaces/cli.py": "import argparse\nimport trio\nfrom .. import open_runtime\nfrom .tables import table\n",
    "runtime/surfaces/tables.py": "",
}

PLANTED = [
    ("store/algebra/patch.py", "import os", "algebra must not import os"),
    ("store/algebra/patch.py", "import pathlib", "algebra must not import pathlib"),
    ("store/algebra/patch.py", "import trio", "algebra must not import trio"),
    ("store/algebra/patch.py", "import cattrs", "algebra must not import cattrs"),
    ("store/algebra/patch.py", "def f():\n    import time", "algebra must not import time"),
    ("store/algebra/patch.py", "from ..codec import x", "algebra must not import strataflow.store.codec"),
    ("store/algebra/patch.py", "from .. import codec", "algebra must not import strataflow.store.codec"),
    ("store/algebra/patch.py", "from ..projection import head", "algebra must not import strataflow.store.projection"),
    ("store/algebra/patch.py", "open('x')", "algebra must not call open"),
    ("store/algebra/patch.py", "__import__('os')", "algebra must not call __import__"),
    ("runtime/resources/compaction/tokens.py", "import trio", "pure resources must not import trio"),
    ("runtime/resources/skills.py", "import os", "pure resources must not import os"),
    ("runtime/resources/loading.py", "import yaml", "yaml belongs in runtime/resources/front_matter.py"),
    ("store/projection/head.py", "import orjson", "orjson belongs in store/codec.py"),
    ("store/projection/head.py", "import random", "projection must not import random"),
    ("store/projection/head.py", "from ..codec import x", "projection must not import strataflow.store.codec"),
    ("store/checkpoint.py", "import orjson", "orjson belongs in store/codec.py"),
    ("store/checkpoint.py", "import os.path", "store must not import os"),
    ("store/checkpoint.py", "from pathlib import Path", "store must not import pathlib"),
    ("store/checkpoint.py", "import time", "store must not import time"),
    ("store/checkpoint.py", "from random import Random", "store must not import random"),
    ("store/checkpoint.py", "import trio", "store must not import trio"),
    ("store/checkpoint.py", "import sqlite3", "store must not import sqlite3"),
    ("store/checkpoint.py", "import trio_util", "trio_util belongs in actors/_trio_util.py"),
    ("store/checkpoint.py", "from ..actors import ask", "store must not import strataflow.actors"),
    ("store/checkpoint.py", "from .. import actors", "store must not import strataflow.actors"),
    ("store/checkpoint.py", "from ..runtime import x", "store must not import strataflow.runtime"),
    ("store/checkpoint.py", "from datetime import datetime\ndatetime.now()", "store must not use datetime.now"),
    ("store/checkpoint.py", "import datetime as d\nd.datetime.utcnow()", "store must not use datetime.utcnow"),
    ("store/checkpoint.py", "open('x')", "store must not call open"),
    ("store/checkpoint.py", "from .codec import *", "a star hides"),
    ("store/lock.py", "import time", "store must not import time"),
    ("store/__init__.py", "import store.codec", "absolute import of store.codec"),
    ("store/__init__.py", "import strataflow", "absolute import of strataflow"),
    ("store/trace/tree.py", "import importlib\nimportlib.import_module('os')", "imports are statements"),
    ("actors/kernel.py", "import os", "actors must not import os"),
    ("actors/kernel.py", "import subprocess", "actors must not import subprocess"),
    ("actors/kernel.py", "import orjson", "orjson belongs in store/codec.py"),
    ("actors/kernel.py", "import cattrs", "actors must not import cattrs"),
    ("actors/kernel.py", "import time", "actors must not import time"),
    ("actors/kernel.py", "import trio_util", "trio_util belongs in actors/_trio_util.py"),
    ("actors/kernel.py", "from ..store.codec import x", "actors must not import strataflow.store.codec"),
    ("actors/kernel.py", "from ..store.projection.head import x", "must not import strataflow.store.projection.head"),
    ("actors/kernel.py", "from ..store import codec", "actors must not import strataflow.store.codec"),
    ("actors/kernel.py", "from ..store.algebra import apply_patch", "actors must not import strataflow.store.algebra"),
    ("actors/kernel.py", "from ..runtime import x", "actors must not import strataflow.runtime"),
    (
        "actors/kernel.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..runtime import x",
        "actors must not import strataflow.runtime",
    ),
    ("actors/kernel.py", "import trio\ntrio.run_process", "actors must not use trio.run_process"),
    ("actors/kernel.py", "from trio import open_file", "actors must not use trio.open_file"),
    ("actors/kernel.py", "import trio.socket", "actors must not import trio.socket"),
    ("actors/supervision.py", "import trio", "pure decision must not import trio"),
    ("runtime/agent/step.py", "import trio", "pure decision must not import trio"),
    ("runtime/handles.py", "from ..store.codec import x", "runtime must not import strataflow.store.codec"),
    ("runtime/handles.py", "from ..actors import kernel", "runtime must not import strataflow.actors.kernel"),
    ("runtime/handles.py", "from .surfaces import cli", "runtime must not import strataflow.runtime.surfaces.cli"),
    ("runtime/handles.py", "import sqlite3", "runtime must not import sqlite3"),
    ("runtime/handles.py", "import orjson", "orjson belongs in store/codec.py"),
    ("runtime/handles.py", "import requests", "runtime must not import requests"),
    ("runtime/surfaces/cli.py", "from ...store import apply_patch", "surfaces must not import strataflow.store"),
    ("runtime/surfaces/cli.py", "from ...actors import ask", "surfaces must not import strataflow.actors"),
    ("runtime/surfaces/cli.py", "from ..agent import step", "surfaces must not import strataflow.runtime.agent.step"),
    ("runtime/surfaces/cli.py", "from ... import open_runtime", "surfaces must not import strataflow"),
    ("src/strataflow/aio.py", "from .store.codec import x", "face must not import strataflow.store.codec"),
    ("src/strataflow/aio.py", "from .runtime.surfaces.cli import main", "face must not import strataflow.runtime.surf"),
]


def test_every_import_follows_the_table_of_layers() -> None:
    report = check({path: read(path) for path in package_modules()})
    assert report.violations == []


def test_the_checker_sees_every_module_there_is() -> None:
    report = check({path: read(path) for path in package_modules()})
    # Counted in another way than the walk under test: by asking each folder for its files.
    counted = {
        path.relative_to(ROOT).as_posix()
        for folder in PACKAGE_FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts
    }
    counted |= {f"{FACE_FOLDER}/{name}" for name in os.listdir(ROOT / FACE_FOLDER) if name.endswith(".py")}
    assert report.seen == counted
    assert len(counted) >= 2, "an empty walk proves nothing"


def test_the_links_lead_to_the_real_folders() -> None:
    for folder in PACKAGE_FOLDERS:
        link = ROOT / FACE_FOLDER / folder
        assert os.readlink(link) == f"../../{folder}", "absolute links would point into one machine"


@pytest.mark.parametrize("folder", ["tests", "benchmarks", ".ci", "docs"])
def test_nothing_outside_the_package_imports_a_layer_by_its_bare_name(folder: str) -> None:
    assert [text for path in python_files(folder) for text in refuse_bare_layers(path, read(path))] == []


def test_a_bare_import_of_a_layer_is_found_in_a_test() -> None:
    assert refuse_bare_layers("tests/x.py", "def f():\n    from store.algebra import patch\n") != []
    assert refuse_bare_layers("tests/x.py", "import actors\n") != []
    assert refuse_bare_layers("tests/x.py", "from strataflow.store import patch\nfrom kit import store\n") == []


def test_a_tree_that_follows_the_table_is_accepted() -> None:
    assert check(CLEAN).violations == []


@pytest.mark.parametrize("path, source, expected", PLANTED, ids=[f"{p}: {s!r}" for p, s, _ in PLANTED])
def test_a_planted_violation_is_found_and_named(path: str, source: str, expected: str) -> None:
    violations = check(CLEAN | {path: source}).violations
    assert any(text.startswith(f"{path}:") and expected in text for text in violations), violations


def test_modules_with_a_row_of_their_own_exist_once_their_folder_does() -> None:
    # A rule about a file that was renamed would hold for nothing.
    folders = {path.rpartition("/")[0] for path in package_modules()}
    missing = {
        path for path in NAMED_MODULES if Path(path).parent.as_posix() in folders and not (ROOT / path).is_file()
    }
    assert missing == set()
