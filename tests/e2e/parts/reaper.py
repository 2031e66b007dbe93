"""Ends the process groups that its parent named on standard input, once the parent is gone.

Run as a script, with nothing of this package imported: it must outlive a parent that was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Read `+GROUP` and `-GROUP` lines until the pipe closes; kill what was not taken back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in sorted(groups):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
