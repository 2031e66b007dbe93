"""The tuning constants of plans of few nodes and of large zones, groups of `search_settings`."""

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


class LargeZoneSettings(msgspec.Struct, frozen=True):
    """Zones of a plan that is split by zone, which share loads (`core.scheduling.optimization.search_schedule`)."""

    # A zone with at least this many machines in the fluid program begins with the loads of other zones (ADR 218). With fewer
    # machines, few loads are bought twice, and the same first columns lead every zone to the same dives.
    machines_min: int = 100
    # It fills fewer types, and rounds one pair of types: columns may have any type.
    column_pairs_max: int = 1_000
    pairs_rounded_max: int = 1
    # It passes on the loads that are worth at least this share of their price at its dual prices (ADR 261).
    value_for_price_min: float = 0.95
    # It generates columns until the program costs this much over the bound: what is saved beyond takes longer than all else of
    # the plan (ADR 261).
    stop_gap_relative: float = 0.035
