"""`python -m fleetwright_eks` and the console script: finds the program's folders and starts the command line."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def program_folder() -> Path:
    """Where `core` and `cli` lie: inside the wheel, or beside this package in a checkout."""
    inside = HERE / "app"
    return inside if inside.is_dir() else HERE.parent


def main() -> int:
    """Run the command line of this very version, whatever else is called `core` or `cli` on the path."""
    sys.path.insert(0, str(program_folder()))
    from cli.__main__ import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
