"""The complete launch order of one claim: the controller creates it, and the EC2 request is rendered from it."""

from __future__ import annotations

from typing import Any

import msgspec

from core.model.catalogue import InstanceType, Offering


class LaunchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One instance to launch for one claim, or several for claims of one shape.

    Attributes:
        claim: The claim's name; the launch's name if several claims share it.
        count: How many instances to launch; EC2 may launch fewer.
        minimum: How many must be launched if any is; more than one only for offerings in one zone.
        token: Idempotency token: sending the same order twice gives the same instances.
        offerings: Where it may be launched, as selected for the claim (`core.launch.selection`), cheapest first.
        node_class: The complete EC2NodeClass manifest.
        node_labels, taints: What the kubelet registers the node with (taints as `key=value:Effect`).
        tags: Tags of the instance, besides those of its NodePool and class.
        instance_types: The types in `offerings`, as sized for this class: they decide the image and the pods per node. An
            offering whose type is missing here is not tried.
        requests: The planned requests; requests for EFA or Enclaves change how the instance is launched.
        is_ranked: Whether the prices are the NodePool's own (overlays, price factors), so that EC2 follows their order instead
            of its own.
        subnets: Zone → the subnet to launch into; in other zones it is the first one of the class that is not avoided.
        avoided_subnets: Ids of subnets that recently had no free addresses.
        uses_reservations: Whether a launch outside of capacity reservations must avoid all of them.
        attempts: How many requests for it had no clear answer; EC2 may know its token.
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
    minimum: int = 1
    instance_types: tuple[InstanceType, ...] = ()
    requests: dict[str, int] = {}
    is_ranked: bool = False
    subnets: dict[str, str] = {}
    avoided_subnets: tuple[str, ...] = ()
    tenancy: str = "default"
    partition: int = 0
    uses_reservations: bool = True
    attempts: int = 0
