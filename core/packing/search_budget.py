"""How long a search may go on: so many steps, unless the caller's clock brakes it before."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec


class SearchBudget(msgspec.Struct):
    """What one search may spend. Steps decide, so that it gives the same result on every machine.

    Attributes:
        steps_max: Most steps, None for no bound.
        out_of_time: The brake: returns the share of the time that has elapsed, 1 or True for all of it; the core has no clock.
            All parts of a search have all of the time, so that nothing but a spent clock changes what is found.
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
        """Whether the brake is on."""
        return self.out_of_time is not None and self.out_of_time() >= 1

    def step(self, *, ignore_time: bool = False) -> bool:
        """Take a step if one is left, and return whether it was taken.

        Args:
            ignore_time: Take it although time may be over: for few, short steps without which earlier work would be lost.
        """
        steps_are_spent = self.steps_max is not None and self.steps >= self.steps_max
        is_spent = steps_are_spent if ignore_time else self.is_spent
        self.steps += not is_spent
        return not is_spent

    def portion(self, share: float) -> SearchBudget:
        """A budget for a part of the search: that share of the steps that are left. The caller adds its steps to this one."""
        steps = None if self.steps_max is None else math.ceil((self.steps_max - self.steps) * share)
        return SearchBudget(steps, self.out_of_time)
