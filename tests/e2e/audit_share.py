"""`python -m tests.e2e.audit_share LOG...`: which share of recorded audit logs the subscription's filter passes.

A run of `make e2e` or `make e2e-peer` leaves the logs of its API servers in build/, in `control-plane/audit.log` of each world.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from installation.wiring import AUDIT_LOG_FILTER
from simulator.events import compile_filter

MEGABYTE: Final = 10**6


class Share(msgspec.Struct, kw_only=True):
    """Events and bytes of a log, and those of them that pass."""

    events: int = 0
    size: int = 0
    passing: int = 0
    passing_size: int = 0
    resources: Counter[str] = msgspec.field(default_factory=Counter)
    """What the passing events are about."""

    def __str__(self) -> str:
        of_bytes = f"{self.passing_size / MEGABYTE:.1f} of {self.size / MEGABYTE:.1f} MB"
        kinds = ", ".join(f"{name} {number:,}" for name, number in sorted(self.resources.items()))
        return f"{self.passing:,} of {self.events:,} events, {of_bytes}: {self.passing / max(1, self.events):.1%} ({kinds})"


def share_of(lines: Iterable[bytes]) -> Share:
    """Count the events of a log, one JSON object a line."""
    matches = compile_filter(AUDIT_LOG_FILTER)
    found = Share()
    for line in lines:
        event = msgspec.json.decode(line)
        found.events += 1
        found.size += len(line)
        if matches(event):
            found.passing += 1
            found.passing_size += len(line)
            found.resources[str(event["objectRef"]["resource"])] += 1
    return found


def main(paths: Iterable[str]) -> None:
    """Print the share of each log."""
    for path in paths:
        with Path(path).open("rb") as log:
            whole = (line for line in log if line.endswith(b"\n"))  # an API server that was stopped cuts its last line
            print(f"{path}: {share_of(whole)}")


if __name__ == "__main__":
    main(sys.argv[1:])
