"""Builds the CreateFleet request of type instant: instances from the first offerings that EC2 has capacity for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from core import labels
from core.launch.reservation_target import fleet_options, target_capacity_type
from core.launch.template import tag_list
from core.model.catalogue import Offering, OfferingKey, cheapest_first

_STRATEGIES: Final = {
    False: ("price-capacity-optimized", "lowest-price"),
    True: ("capacity-optimized-prioritized", "prioritized"),
}
"""Is ranked → allocation strategies for spot and for on-demand (Karpenter, the latter where an overlay sets prices)."""


class FleetConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The offerings that share one launch template."""

    template: str
    image_id: str
    offerings: tuple[Offering, ...]


class FleetTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request besides its offerings.

    Attributes:
        token: EC2 answers the same token with the same fleet.
        count: How many instances to launch; EC2 may launch fewer.
        is_ranked: Whether the offerings' prices are the NodePool's own, so that EC2 follows their order instead of its prices.
        tags: Tags of the instance, its volumes and the fleet.
        context: The class' opaque `spec.context`.
    """

    token: str
    tags: dict[str, str]
    count: int = 1
    context: str = ""
    is_ranked: bool = False


def fleet_request(configs: Sequence[FleetConfig], subnets: Mapping[str, str], terms: FleetTerms) -> dict[str, Any]:
    """Return the request; the offerings share a capacity type and a kind of reservation.

    Spot goes where price and spare capacity are best, on-demand where it is cheapest (Karpenter).
    """
    spot, on_demand = _STRATEGIES[terms.is_ranked]
    ranked = cheapest_first(o for config in configs for o in config.offerings) if terms.is_ranked else []
    first = next((offering for config in configs for offering in config.offerings), None)
    priorities = {offering.key: rank for rank, offering in enumerate(ranked)}
    request: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": terms.token,
        "LaunchTemplateConfigs": [_config(config, subnets, priorities) for config in configs],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": terms.count,
            "DefaultTargetCapacityType": target_capacity_type(first) if first is not None else labels.ON_DEMAND,
        },
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tag_list(terms.tags)} for kind in ("instance", "volume", "fleet")
        ],
    }
    if first is not None:
        request |= fleet_options(first, spot=spot, on_demand=on_demand)
    if terms.context:
        request["Context"] = terms.context
    return request


def _config(config: FleetConfig, subnets: Mapping[str, str], priorities: Mapping[OfferingKey, int]) -> dict[str, Any]:
    return {
        "LaunchTemplateSpecification": {"LaunchTemplateName": config.template, "Version": "$Latest"},
        "Overrides": [
            {
                "InstanceType": offering.instance_type,
                "SubnetId": subnets[offering.zone],
                "AvailabilityZone": offering.zone,
                "ImageId": config.image_id,
                **({"Priority": float(priorities[offering.key])} if priorities else {}),
            }
            for offering in config.offerings
        ],
    }
