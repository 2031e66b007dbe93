"""Bounds a search by steps, or earlier by the caller's clock."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec


class SearchBudget(msgspec.Struct):
    """The budget of one search. Steps decide, so that every machine gives the same result.

    Attributes:
        steps_max: Most steps, None for no bound.
        out_of_time: Returns the elapsed share of the time, 1 or True once it is over; the core has no clock. A search divides
            its steps between its parts, but not its time: the clock changes results only once it is over.
        steps: How many steps were taken.
    """

    steps_max: int | None = None
    out_of_time: Callable[[], float] | None = None
    steps: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether no further step may be taken."""
        return (self.steps_max is not None and self.steps >= self.steps_max) or self.time_is_over

    @property
    def time_is_over(self) -> bool:
        """Whether the time is over."""
        return self.out_of_time is not None and self.out_of_time() >= 1

    def step(self, *, ignore_time: bool = False) -> bool:
        """Take a step if one is left, and return whether it was taken.

        Args:
            ignore_time: Take it even if time is over: for the few short steps without which earlier work would be lost.
        """
        steps_are_spent = self.steps_max is not None and self.steps >= self.steps_max
        is_spent = steps_are_spent if ignore_time else self.is_spent
        self.steps += not is_spent
        return not is_spent

    def portion(self, share: float) -> SearchBudget:
        """Return a budget with this share of the remaining steps; the caller adds its steps to this one."""
        steps = None if self.steps_max is None else math.ceil((self.steps_max - self.steps) * share)
        return SearchBudget(steps, self.out_of_time)
