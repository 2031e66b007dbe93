"""What a check says of an account."""

from __future__ import annotations

from typing import Final, NamedTuple

OK: Final = "ok"
PROBLEM: Final = "problem"
UNKNOWN: Final = "unknown"


class AccountFinding(NamedTuple):
    """What a check found.

    Attributes:
        mends: The command that puts it right; empty where there is nothing to do.
    """

    check: str
    state: str
    says: str
    mends: str = ""
