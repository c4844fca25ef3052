"""Build the wheel, compare it with the tree, install it in a clean environment and run it from another folder.

A wheel is made from a list in ``pyproject.toml``, and a list can forget a file: everything would work in the checkout
and fail for whoever installs. ``tests/meta/test_wheel.py`` uses the first two steps; ``make wheel-check`` runs all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE_FOLDERS = ("store", "actors", "runtime")
FACE = Path("src/strataflow")


def tree_files(root: Path = ROOT) -> dict[str, bytes]:
    """What the wheel must hold: path inside the package -> content."""
    sources = {f"strataflow/{path.name}": path for path in (root / FACE).iterdir() if path.is_file()}
    for folder in PACKAGE_FOLDERS:
        for path in (root / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                sources[f"strataflow/{path.relative_to(root).as_posix()}"] = path
    return {name: path.read_bytes() for name, path in sources.items()}


def build(kind: str, root: Path, target: Path) -> Path:
    """Build a ``wheel`` or an ``sdist`` of ``root`` into ``target`` and return the file."""
    run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)], cwd=root)
    suffix = ".whl" if kind == "wheel" else ".tar.gz"
    (built,) = [path for path in target.iterdir() if path.name.endswith(suffix)]
    return built


def unpack_sdist(archive: Path, target: Path) -> Path:
    """Unpack and return the one folder inside."""
    with tarfile.open(archive) as tar:
        # Early releases of 3.11 know no filters, later ones warn when none is given.
        if hasattr(tarfile, "data_filter"):
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(target)
    (folder,) = [path for path in target.iterdir() if path.is_dir()]
    return folder


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """The package's files in a wheel, without the metadata that the build adds."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def differences(tree: Mapping[str, bytes], wheel: Mapping[str, bytes]) -> list[str]:
    """What is missing, surplus or altered in the wheel; empty when it is as the tree is."""
    found = [f"missing in the wheel: {name}" for name in sorted(tree.keys() - wheel.keys())]
    found += [f"only in the wheel: {name}" for name in sorted(wheel.keys() - tree.keys())]
    found += [
        f"altered in the wheel: {name}" for name in sorted(tree.keys() & wheel.keys()) if tree[name] != wheel[name]
    ]
    return found


def run(command: Sequence[str], *, cwd: Path) -> str:
    """Run a command to its end; on failure leave with what it said."""
    # PYTHONPATH would let the installed package borrow modules of the checkout.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def install_and_run(wheel: Path, place: Path) -> str:
    """Install into a clean environment; ask the script and the module for the version from a folder elsewhere."""
    venv.create(place / "env", with_pip=True)
    programs = place / "env" / "bin"
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    run([str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel)], cwd=elsewhere)
    run([str(programs / "python"), "-m", "pip", "check"], cwd=elsewhere)
    by_script = run([str(programs / "strataflow"), "--version"], cwd=elsewhere).strip()
    by_module = run([str(programs / "python"), "-m", "strataflow", "--version"], cwd=elsewhere).strip()
    if by_script != by_module:
        raise SystemExit(f"the script says {by_script!r}, python -m strataflow says {by_module!r}")
    return by_script


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="strataflow-wheel-") as name:
        place = Path(name)
        wheel = build("wheel", ROOT, place / "dist")
        if found := differences(tree_files(), wheel_files(wheel)):
            raise SystemExit("\n".join(["The wheel is not as the tree is:", *found]))
        print(f"{wheel.name}: {len(tree_files())} files, as in the tree")
        said = install_and_run(wheel, place)
        version = wheel.name.split("-")[1]
        if version not in said:
            raise SystemExit(f"strataflow --version says {said!r}, the wheel is of version {version}")
        print(f"installed in a clean environment: {said}")


if __name__ == "__main__":
    main()
