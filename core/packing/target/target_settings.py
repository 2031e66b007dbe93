"""The tuning constants of the target of a fleet, in one place (docs/adr/0044)."""

from __future__ import annotations

from typing import Final

ROUNDS_MAX: Final = 6
"""Rounds in which types join that the values found so far do not price in; each raises the bound."""

JOINING_MAX: Final = 12
"""Types that join in one round."""

SLACK_RELATIVE: Final = 1e-9
"""Taken off for what floating point may have gained."""

CELLS_MAX: Final = 120
"""Most kinds of nearly equal pods that the program tells apart; it is solved in a third of a second then."""

STEPS_PER_DOUBLING: Final = (64.0, 8.0, 4.0, 2.0, 1.0, 0.5)
"""How finely sizes are distinguished: the first step that keeps within CELLS_MAX."""

FILL: Final = 0.985
"""Which share of fluid room counts: whole pods never fill a node entirely."""

NEXT_BEST: Final = 10
"""Types that nearly pay, for each set of pods that may use the same types."""

CHEAPEST_EACH: Final = 3
"""The cheapest for CPU and for memory alone: which of them is short depends on the room that is filled up."""

GAPS: Final = (0.97, 0.9)
"""How like a gap must be to a pod that the program meant for a new machine, or for a group where it found no room; in turn."""

FULLNESS_WEIGHT: Final = 0.1
"""How much a node's free room counts against it beside likeness: of two equally like, the fuller one is filled."""

SHAPE_RESOURCES: Final = 2
"""Likeness looks at CPU and memory; places for pods are hardly ever what is short."""
