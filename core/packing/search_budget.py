"""How long a search may go on: so many steps, or until the caller's time is over."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class SearchBudget:
    """What one search may spend. Bounded by steps alone, it gives the same result on every machine.

    Attributes:
        steps_max: Most steps, None for no bound.
        out_of_time: Returns the share of the time that has elapsed, 1 or True for all of it; the core has no clock. A caller
            that returns only False and then True gets no division of its time: the first part of a search may use all of it.
        steps: How many steps were taken.
    """

    steps_max: int | None = None
    out_of_time: Callable[[], float] | None = None
    steps: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether no further step may be taken."""
        return (self.steps_max is not None and self.steps >= self.steps_max) or (
            self.out_of_time is not None and self.out_of_time() >= 1
        )

    def step(self, *, ignore_time: bool = False) -> bool:
        """Take a step if one is left, and return whether it was taken.

        Args:
            ignore_time: Take it although time may be over: for few, short steps without which earlier work would be lost.
        """
        steps_are_spent = self.steps_max is not None and self.steps >= self.steps_max
        is_spent = steps_are_spent if ignore_time else self.is_spent
        self.steps += not is_spent
        return not is_spent

    @property
    def elapsed_share(self) -> float:
        """Which share of the time has elapsed; 0 where only steps are counted."""
        return 0.0 if self.out_of_time is None else self.out_of_time()

    def setting_aside(self, share: float) -> SearchBudget:
        """The same budget less that share of its whole time, for work that follows the search."""
        clock = self.out_of_time
        if clock is None:
            return self
        return SearchBudget(self.steps_max, lambda: clock() / (1 - share) if share < 1 else 1, self.steps)

    def portion(self, share: float) -> SearchBudget:
        """A budget for a part of the search: that share of what is left of this one. The caller adds its steps to this one."""
        steps = None if self.steps_max is None else math.ceil((self.steps_max - self.steps) * share)
        if self.out_of_time is None:
            return SearchBudget(steps)
        elapsed = self.out_of_time
        begin = elapsed()
        length = (1 - begin) * share
        return SearchBudget(steps, lambda: (elapsed() - begin) / length if length > 0 else 1)
