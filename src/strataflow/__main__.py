"""``strataflow`` and ``python -m strataflow``."""

import sys

from . import __version__


def main() -> int:
    """Run the command line of this process and return its exit code."""
    if sys.argv[1:] == ["--version"]:
        # Told at once: all that a command needs takes ten times as long to load.
        sys.stdout.write(f"strataflow {__version__}\n")
        return 0
    from .runtime.surfaces.cli import main as run

    return run(version=__version__)


if __name__ == "__main__":
    raise SystemExit(main())
