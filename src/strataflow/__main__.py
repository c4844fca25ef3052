"""``python -m strataflow`` does what the console script does."""

from .runtime.surfaces.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
