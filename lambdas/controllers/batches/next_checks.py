"""The looks that this sandbox has asked for: a claim that several messages follow needs one next look, not one for each."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from lambdas.messages import WorkItem

REMEMBERED: Final = 5_000
"""Claims; each is forgotten when its look is over."""


class _Look(msgspec.Struct, frozen=True):
    due: datetime
    until: datetime


class NextChecks:
    """What one sandbox remembers. Another knows nothing of it, so there may be a look too many and never one too few."""

    def __init__(self) -> None:
        self._asked: dict[str, _Look] = {}

    def is_asked(self, claim: str, now: datetime, due: datetime, item: WorkItem) -> bool:
        """Whether another message than `item` brings a look at the claim by `due`, and goes on at least as long."""
        look = self._asked.get(claim)
        if look is None or item.until is None or look.due == item.due:
            return False
        return now < look.due <= due and look.until >= item.until

    def note(self, claim: str, now: datetime, due: datetime, until: datetime) -> None:
        """A look was asked for."""
        if len(self._asked) >= REMEMBERED:
            self._asked = {name: look for name, look in self._asked.items() if look.due > now}
        self._asked[claim] = _Look(due, until)
