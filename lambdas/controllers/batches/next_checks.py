"""Tracks the checks that this sandbox has requested: several messages about one claim need only one next check."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from adapters.messages import WorkItem

REMEMBERED: Final = 5_000
"""The most tracked claims; each is dropped once its check is due."""


class _Check(msgspec.Struct, frozen=True):
    due: datetime
    until: datetime


class NextChecks:
    """The requests of one sandbox. Sandboxes do not share them, so a check may be requested twice, but none is missed."""

    def __init__(self) -> None:
        self._asked: dict[str, _Check] = {}

    def is_asked(self, claim: str, now: datetime, due: datetime, item: WorkItem) -> bool:
        """Whether another message than `item` checks the claim by `due`, and its chain lasts at least as long."""
        check = self._asked.get(claim)
        if check is None or item.until is None or check.due == item.due:
            return False
        return now < check.due <= due and check.until >= item.until

    def note(self, claim: str, now: datetime, due: datetime, until: datetime) -> None:
        """Record a request."""
        if len(self._asked) >= REMEMBERED:
            self._asked = {name: check for name, check in self._asked.items() if check.due > now}
        self._asked[claim] = _Check(due, until)
