"""A capacity reservation as a scenario writes it."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import msgspec


class CapacityReservation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A capacity reservation or capacity block of the account; one of a known id is replaced, with its instances.

    Attributes:
        total: How many instances it holds; `others` of its places are taken by somebody else.
        starts, ends: From when it is active and when it is over, counted from now; None: at once, never.
        cancel: End the one of this id now. What else is given does not count.
    """

    id: str
    instance_type: str = ""
    zone: str = ""
    total: int = 1
    others: int = 0
    type: Literal["default", "capacity-block"] = "default"
    instance_match_criteria: Literal["open", "targeted"] = "targeted"
    interruptible: bool = False
    owner_id: str = ""
    tags: dict[str, str] = {}
    starts: timedelta | None = None
    ends: timedelta | None = None
    cancel: bool = False
