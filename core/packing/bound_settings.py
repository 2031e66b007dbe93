"""The tuning constants of two lower bounds, groups of `search_settings`."""

from __future__ import annotations

import msgspec


class ArithmeticBoundSettings(msgspec.Struct, frozen=True):
    """Lower bounds without a solver (`arithmetic_bound`)."""

    # Weights of two resources are multiples of 1 / weight_steps: finer ones take time in Python and raise the bound little.
    weight_steps: int = 4


class WholeMachineBoundSettings(msgspec.Struct, frozen=True):
    """The lower bound from whole machines (`whole_machine_bound`, ADR 264)."""

    # With more machines, their prices add up to nearly any cost.
    machines_max: int = 30
    # Cost over bound from which it is computed: it takes as long as a tenth of the search.
    gap_relative_min: float = 0.01
    # Gap at which the integer program counts as solved, and its branch-and-bound nodes: the root's cuts raise the bound most.
    gap_relative: float = 1e-3
    nodes_max: int = 1
    # Subtracted from the bound for the solver's tolerances, a millionth of any row.
    slack_relative: float = 1e-5
