"""A second implementation of subnets' addresses: wherever EC2 launches the claims of a plan, each has an address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import msgspec

from core.model.node_pool import NodeClass
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from tests.property.naive.vocabulary import ZONES

EACH = (1, 1, 1, 17)
AMOUNTS = (0, 1, 1, 2, 3, 5, 8, 40, None)
"""Free addresses of a subnet; None for plenty."""


def with_addresses(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The cluster with one or two subnets in each zone for each EC2NodeClass, and few or many addresses in them."""
    names = sorted({pool.node_class.name for pool in snapshot.node_pools})
    classes, free = [], dict[str, int]()
    for name in names:
        subnets = [(f"{zone}-{name}-{n}", zone) for zone in ZONES for n in range(draw.choice((1, 1, 2)))]
        each = draw.choice(EACH)
        known = {subnet: draw.choice(AMOUNTS) for subnet, _ in subnets}
        free |= {subnet: amount * each for subnet, amount in known.items() if amount is not None}
        classes.append(NodeClass(name=name, subnets=tuple(subnets), addresses_per_node=each))
    return msgspec.structs.replace(snapshot, node_classes=tuple(classes), subnet_addresses=free)


def address_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Zones of an EC2NodeClass where more nodes of the plan may start than its subnets have addresses for."""
    pools = {pool.name: pool.node_class.name for pool in snapshot.node_pools}
    may_start = Counter((pools[claim.node_pool], zone) for claim in plan.claims for zone in claim.zones)
    for node_class in snapshot.node_classes:
        for zone in ZONES:
            own = [snapshot.subnet_addresses.get(subnet) for subnet, where in node_class.subnets if where == zone]
            room = sum(amount // node_class.addresses_per_node for amount in own if amount is not None)
            if None not in own and may_start[node_class.name, zone] > room:
                yield f"addresses: {may_start[node_class.name, zone]} nodes of {node_class.name} in {zone}, room for {room}"
