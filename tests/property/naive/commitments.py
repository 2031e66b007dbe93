"""A second implementation of commitments: whatever EC2 launches for a plan, no committed hour covers two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.plan import Plan, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values.commitment import Commitment, CommittedRate, ReservedInstances, SavingsPlan
from tests.property.naive.market import types_by_pool

DOLLAR = 10**9


def with_commitments(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The cluster with a Savings Plan, reserved instances of some of its types, or both, that cover little or much."""
    names = sorted(kind.name for kind in snapshot.catalogue.default)
    zones = sorted({o.zone for kind in snapshot.catalogue.default for o in kind.offerings}) or [""]
    found: list[Commitment] = [
        ReservedInstances(
            name=f"ri-{number}",
            instance_type=draw.choice(names),
            count=draw.choice((1, 1, 2, 5)),
            zone=draw.choice(("", draw.choice(zones))),
        )
        for number in range(draw.choice((0, 1, 2)) if names else 0)
    ]
    if draw.random() < 0.7 or not found:
        rates = (CommittedRate(ppm=draw.choice((0, 280_000, 720_000))),)
        found.append(SavingsPlan(name="sp", amount=DOLLAR * draw.choice((1, 5, 20, 100)) // 20, rates=rates))
    options = msgspec.structs.replace(snapshot.options, commitments=tuple(found))
    return msgspec.structs.replace(snapshot, options=options)


def coverage_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Every covered claim that may still cost something, and every commitment that covers more than its amount."""
    spent: dict[str, int] = {}
    bought = {one.name: one for one in snapshot.options.commitments}
    for claim in plan.claims:
        if not claim.commitment:
            continue
        if claim.capacity_types != (labels.ON_DEMAND,):
            yield f"coverage: {claim.name} is covered and may be launched as {claim.capacity_types}"
        most = max(_launches(snapshot, claim, bought[claim.commitment]), default=0)
        spent[claim.commitment] = spent.get(claim.commitment, 0) + most
    running = running_charges(snapshot)
    for name, amount in sorted(spent.items()):
        one = bought[name]
        left = one.amount - min(one.amount, running.get(name, 0)) if len(bought) == 1 else one.amount
        if amount > left:
            yield f"coverage: {name} covers {left} more, and new nodes may take {amount}"


def running_charges(snapshot: Snapshot) -> dict[str, int]:
    """Commitment → the charge of the staying nodes if it alone covered them."""
    found: dict[str, int] = {}
    for one in snapshot.options.commitments:
        for instance_type, zone, price in running(snapshot):
            found[one.name] = found.get(one.name, 0) + charged(one, instance_type, zone, price)
    return found


def running(snapshot: Snapshot) -> Iterator[tuple[str, str, int]]:
    """Type, zone and price of every on-demand node that stays."""
    claims = {claim.provider_id: claim for claim in snapshot.node_claims if claim.provider_id}
    own = {claim.node_name: claim for claim in claims.values() if claim.node_name}
    for node in snapshot.nodes:
        claim = claims.get(node.provider_id) or own.get(node.name)
        going = node.deleted_at is not None or (claim is not None and claim.deleted_at is not None)
        going |= claim is not None and claim.name in snapshot.marked_for_deletion
        going |= claim is not None and claim.is_true("InstanceTerminating")
        if going or node.labels.get(labels.CAPACITY_TYPE, labels.ON_DEMAND) != labels.ON_DEMAND:
            continue
        name, zone = node.labels.get(labels.INSTANCE_TYPE, ""), node.labels.get(labels.ZONE, "")
        kinds: tuple[InstanceType, ...] = types_by_pool(snapshot, node.labels.get(labels.NODEPOOL, ""))
        prices = [o.price for k in kinds or snapshot.catalogue.default if k.name == name for o in k.offerings
                  if (o.zone, o.capacity_type) == (zone, labels.ON_DEMAND)]  # fmt: skip
        yield name, zone, min(prices, default=0)


def charged(one: Commitment, instance_type: str, zone: str, price: int) -> int:
    """The charge of one node to one commitment; names of random types do not tell their sizes."""
    if isinstance(one, SavingsPlan):
        return max(1, price * (1_000_000 - one.rates[0].ppm) // 1_000_000)
    return int(instance_type == one.instance_type and one.zone in ("", zone))


def _launches(snapshot: Snapshot, claim: PlannedClaim, one: Commitment) -> Iterator[int]:
    for kind in types_by_pool(snapshot, claim.node_pool):
        for offering in kind.offerings:
            is_asked = kind.name in claim.instance_types and offering.zone in claim.zones and offering.available
            if is_asked and offering.capacity_type == labels.ON_DEMAND:
                yield charged(one, kind.name, offering.zone, offering.price) or one.amount + 1
