"""How long a search may go on: so many steps, or until the caller's time is over."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Budget:
    """What one search may spend. Under a bound on steps alone the result is the same wherever it runs.

    Attributes:
        steps_max: Most steps, None for no such bound.
        out_of_time: Asked between steps, which share of the time is over, 1 or True for all of it; the core has no clock of
            its own. A caller that only ever says False and then True has its time used in turn, not in shares.
        steps: How many were taken.
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

    def step(self, *, sure: bool = False) -> bool:
        """Take a step if one is left, and say whether it was.

        Args:
            sure: Take it although time may be over: few and short steps that what was done already would be lost without.
        """
        is_spent = self.steps_max is not None and self.steps >= self.steps_max if sure else self.is_spent
        self.steps += not is_spent
        return not is_spent

    @property
    def elapsed(self) -> float:
        """Which share of the time is over; none where only steps are counted."""
        return 0.0 if self.out_of_time is None else self.out_of_time()

    def setting_aside(self, share: float) -> Budget:
        """The same budget less a share of its whole time: what comes after the search takes that long."""
        clock = self.out_of_time
        if clock is None:
            return self
        return Budget(self.steps_max, lambda: clock() / (1 - share) if share < 1 else 1, self.steps)

    def portion(self, share: float) -> Budget:
        """A budget for a part of the search: that share of what is left of this one. Its steps are not counted here."""
        steps = None if self.steps_max is None else math.ceil((self.steps_max - self.steps) * share)
        if self.out_of_time is None:
            return Budget(steps)
        elapsed = self.out_of_time
        begin = elapsed()
        length = (1 - begin) * share
        return Budget(steps, lambda: (elapsed() - begin) / length if length > 0 else 1)
