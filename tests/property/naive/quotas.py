"""A second implementation of EC2's vCPU quotas: no plan may exceed the vCPUs that the cluster may run of a capacity type.

All types of random clusters count in one group of families, so there are two quotas: on-demand and spot.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.plan import Plan, PlannedClaim
from core.model.snapshot import Snapshot
from tests.property.naive.market import held_by, types_of

CODES = {labels.ON_DEMAND: "L-1216C47A", labels.SPOT: "L-34B43A08"}


def with_quotas(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The cluster under quotas that leave little or much room beyond its running nodes."""
    running = used(snapshot, Plan(now=snapshot.now))
    chosen = draw.sample(sorted(CODES), draw.choice((1, 1, 2)))
    quotas = {CODES[one]: max(0, running[one] + draw.choice((-3, 0, 1, 4, 9, 24, 60, 400))) for one in chosen}
    return msgspec.structs.replace(snapshot, vcpu_quotas=quotas)


def used(snapshot: Snapshot, plan: Plan) -> dict[str, int]:
    """Capacity type → vCPUs of all nodes, leaving ones included, of claims, and of the plan's claims at their largest."""
    found = {labels.ON_DEMAND: 0, labels.SPOT: 0, labels.RESERVED: 0}
    sizes = {kind.name: kind.capacity["cpu"] // 1000 for kind in snapshot.catalogue.default}
    launched = {claim.provider_id: claim for claim in snapshot.node_claims if claim.provider_id}
    joined = {node.provider_id for node in snapshot.nodes}
    for node in snapshot.nodes:
        if node.provider_id in launched:
            found[node.labels.get(labels.CAPACITY_TYPE, labels.ON_DEMAND)] += node.capacity.get("cpu", 0) // 1000
    for claim in snapshot.node_claims:
        if claim.provider_id and claim.provider_id not in joined:
            cores = claim.capacity.get("cpu", 0) // 1000 or sizes.get(claim.labels.get(labels.INSTANCE_TYPE, ""), 0)
            found[claim.labels.get(labels.CAPACITY_TYPE, labels.ON_DEMAND)] += cores
        elif not claim.provider_id and claim.deleted_at is None:
            named = [r for r in claim.requirements if r.key == labels.INSTANCE_TYPE and not r.complement]
            kinds = [r.values for r in claim.requirements if r.key == labels.CAPACITY_TYPE and not r.complement]
            asked = labels.SPOT if any(labels.SPOT in values for values in kinds) else labels.ON_DEMAND
            if kinds != [(labels.RESERVED,)]:
                found[asked] += max((sizes.get(name, 0) for one in named for name in one.values), default=0)
    for planned in plan.claims:
        found[requested_as(snapshot, planned)] += max(sizes[name] for name in planned.instance_types)
    return found


def requested_as(snapshot: Snapshot, claim: PlannedClaim) -> str:
    """The capacity type that the launch requests: reserved, else spot if no more expensive than on-demand, else on-demand."""
    if held_by(claim):
        return labels.RESERVED
    pool = next(pool for pool in snapshot.node_pools if pool.name == claim.node_pool)
    kinds = [kind for kind in types_of(snapshot, pool) if kind.name in claim.instance_types]
    spot, on_demand = (_prices(kinds, claim, one) for one in (labels.SPOT, labels.ON_DEMAND))
    demanding = any(r.min_values for r in claim.requirements)
    return labels.SPOT if spot and (not on_demand or demanding or min(spot) <= min(on_demand)) else labels.ON_DEMAND


def _prices(kinds: list[InstanceType], claim: PlannedClaim, capacity_type: str) -> list[int]:
    return [
        offering.price
        for kind in kinds
        for offering in kind.offerings
        if offering.available
        and offering.capacity_type == capacity_type
        and capacity_type in claim.capacity_types
        and offering.zone in claim.zones
    ]


def quota_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Quotas that the plan's claims may exceed. Running nodes may exceed a quota; then nothing may be added."""
    before, after = used(snapshot, Plan(now=snapshot.now)), used(snapshot, plan)
    for capacity_type, code in CODES.items():
        limit = snapshot.vcpu_quotas.get(code)
        if limit is not None and after[capacity_type] > max(limit, before[capacity_type]):
            yield f"quota: {after[capacity_type]} vCPUs of {capacity_type} of {limit} are planned"


def leaves_room(snapshot: Snapshot, plan: Plan, kind: InstanceType, capacity_type: str) -> bool:
    """Whether one more node of a type could be launched after the plan."""
    limit = snapshot.vcpu_quotas.get(CODES.get(capacity_type, ""))
    return limit is None or used(snapshot, plan)[capacity_type] + kind.capacity["cpu"] // 1000 <= limit
