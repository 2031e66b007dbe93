"""The complete order for one claim: the controller writes it, the request to EC2 is rendered from it."""

from __future__ import annotations

from typing import Any

import msgspec

from core.model.catalogue import InstanceType, Offering


class LaunchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One instance to launch for one claim, or several for claims of one shape.

    Attributes:
        claim: The claim's name; that of the launch where several claims share it.
        count: How many instances to launch; fewer may come.
        token: Idempotency token: the same order twice gives the same instances.
        offerings: Where it may be launched, as selected for the claim (`core.launch.selection`), cheapest first.
        node_class: The EC2NodeClass manifest, whole.
        node_labels, taints: What the kubelet registers the node with (taints as `key=value:Effect`).
        tags: Tags of the instance, besides those of its NodePool and class.
        instance_types: The types that `offerings` names, as the catalogue has them for this class: they decide image and
            pods per node. An offering whose type is missing here is not tried.
        requests: What the claim was planned for; asking for EFA or Enclaves changes how the instance is launched.
        is_ranked: The prices are the NodePool's own (overlays, price factors): EC2 goes by them and not by its own.
        avoided_subnets: Ids of subnets that recently had no free addresses.
        uses_reservations: Whether what is not launched into a capacity reservation is kept out of all of them.
        partition: The partition of the class' placement group, 0 where EC2 chooses.
        tenancy: `default` for hardware that is shared with other accounts, or `dedicated`.
    """

    claim: str
    node_pool: str
    token: str
    offerings: tuple[Offering, ...]
    node_class: dict[str, Any]
    node_labels: dict[str, str]
    taints: tuple[str, ...]
    tags: dict[str, str]
    count: int = 1
    instance_types: tuple[InstanceType, ...] = ()
    requests: dict[str, int] = {}
    is_ranked: bool = False
    avoided_subnets: tuple[str, ...] = ()
    tenancy: str = "default"
    partition: int = 0
    uses_reservations: bool = True
