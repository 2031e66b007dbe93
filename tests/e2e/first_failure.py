"""A run of the real parts failed: `python -m tests.e2e.first_failure` keeps what it left, and says whether a second may decide.

Exit code 0 where everything that failed took too long: a dozen programs share the machine with whatever else runs there. 1
where anything else failed: a law that is broken in one run of three is broken.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Final

BUILD: Final = Path(__file__).parents[2] / "build"
FAILURES: Final = "e2e-failures.json"
"""Test → the error that it failed with, of the last run."""

KEPT: Final = "e2e.first"
LATE: Final = {
    "PartError": "was not ready after",
    "LostReplyError": "Read timed out",
}
"""Kind of an error → the words in it by which it tells of time: other errors of these kinds are no matter of time."""


def is_late(error: str) -> bool:
    """Whether an error, in its first line, says that something took too long."""
    kind, _, text = error.partition(":")
    name = kind.rpartition(".")[-1]
    return name == "TimeoutError" or (name in LATE and LATE[name] in text)


def may_be_tried_again(folder: Path) -> bool:
    """Whether failures are known of the last run, and all of them are of time; what it left is kept beside."""
    kept = folder / KEPT
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for name in ("e2e", "e2e.json", FAILURES):
        if (folder / name).exists():
            shutil.move(folder / name, kept / name)
    found = kept / FAILURES
    failures: dict[str, str] = json.loads(found.read_bytes()) if found.exists() else {}
    return bool(failures) and all(map(is_late, failures.values()))


def main() -> int:
    """Keep, and say."""
    may = may_be_tried_again(BUILD)
    print(f"The first run is kept in {BUILD / KEPT}; {'a second decides' if may else 'more than time failed'}.")
    return 0 if may else 1


if __name__ == "__main__":
    sys.exit(main())
