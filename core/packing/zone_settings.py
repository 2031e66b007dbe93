"""The tuning constants of large zones, a group of `search_settings`."""

from __future__ import annotations

import msgspec


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
