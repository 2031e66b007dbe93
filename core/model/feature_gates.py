"""Karpenter's feature gates, and the parser of `FEATURE_GATES` that functions and command line share."""

from __future__ import annotations

from typing import Final

import msgspec

from core.errors import InvalidInputError

VARIABLE: Final = "FEATURE_GATES"
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
"""The values that Go's `strconv.ParseBool` accepts, with which Karpenter reads its gates."""


class FeatureGates(msgspec.Struct, frozen=True):
    """Karpenter's feature gates with Karpenter's defaults.

    Attributes:
        node_repair: Nodes that are unhealthy for long are replaced, within the budgets.
        reserved_capacity: Offerings of capacity reservations are used.
        spot_to_spot_consolidation: A spot node may be replaced by a cheaper spot node.
        node_overlay: NodeOverlays change prices and capacity.
        static_capacity: NodePools with replicas keep that many nodes. Without it, their nodes are neither added nor removed.
        capacity_buffer: CapacityBuffers keep room free for virtual pods in every plan.
    """

    node_repair: bool = False
    reserved_capacity: bool = True
    spot_to_spot_consolidation: bool = False
    node_overlay: bool = False
    static_capacity: bool = False
    capacity_buffer: bool = False


GATES: Final = {
    "NodeRepair": "node_repair",
    "ReservedCapacity": "reserved_capacity",
    "SpotToSpotConsolidation": "spot_to_spot_consolidation",
    "NodeOverlay": "node_overlay",
    "StaticCapacity": "static_capacity",
    "CapacityBuffer": "capacity_buffer",
}
"""Karpenter's name of a feature gate → our field of it."""


class GivenGates(msgspec.Struct, frozen=True):
    """The content of `FEATURE_GATES`; `unknown` are names that this release does not have, in order."""

    gates: FeatureGates
    unknown: tuple[str, ...] = ()


def parse_feature_gates(text: str) -> GivenGates:
    """Read `Name=true,Other=false`; spaces around names and values do not matter (Karpenter).

    Raises:
        InvalidInputError: If an entry is not a name and a boolean.
    """
    values: dict[str, bool] = {}
    unknown: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in entry.partition("="))
        if value not in (*_TRUE, *_FALSE):
            raise InvalidInputError(f"{entry!r} is not of the form Name=true or Name=false", field=VARIABLE)
        if name in GATES:
            values[GATES[name]] = value in _TRUE
        else:
            unknown.append(name)
    return GivenGates(FeatureGates(**values), tuple(unknown))
