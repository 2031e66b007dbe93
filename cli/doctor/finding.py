"""The result of a check of an account."""

from __future__ import annotations

from typing import Final, NamedTuple

OK: Final = "ok"
PROBLEM: Final = "problem"
UNKNOWN: Final = "unknown"


class AccountFinding(NamedTuple):
    """The result of a check.

    Attributes:
        mends: The repair command; empty if there is nothing to do.
    """

    check: str
    state: str
    says: str
    mends: str = ""


class FindingPart(NamedTuple):
    """A part of a finding: a problem, what has no answer, or with the state `ok` a note.

    Attributes:
        mends: The repair command; empty if there is nothing to do. It ends with a comment if it is a deployment.
    """

    state: str
    says: str
    mends: str = ""
