"""The proven minimum cost of a fleet, beside its cost."""

from __future__ import annotations

from datetime import timedelta

import msgspec


class ProvenMinimum(msgspec.Struct, frozen=True, kw_only=True):
    """The proven minimum of a fleet, over the part of a period for which one is proven.

    Attributes:
        cost: Nano-dollars that any fleet for the pods must have cost.
        spent: Nano-dollars that the fleet cost in the same time.
        over: The length of that time.
    """

    cost: int
    spent: int
    over: timedelta
