"""A second implementation of commitments: whatever EC2 launches for a plan, no committed hour covers two nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.node_pool import NodeClass
from core.model.plan import Plan, PlannedClaim
from core.model.pod import (
    IMMEDIATE,
    WAIT_FOR_FIRST_CONSUMER,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from core.model.snapshot import Snapshot
from core.model.values.commitment import Commitment, CommittedRate, ReservedInstances, SavingsPlan
from core.model.values.requirements import Requirement
from tests.property.naive.market import held_by, types_by_pool, types_of
from tests.property.naive.node_rules import EBS
from tests.property.naive.reading import NAMESPACES, ZONES, chance, some_of

# A second implementation of subnets' addresses: wherever EC2 launches the claims of a plan, each has an address.


EACH = (1, 1, 1, 17)
AMOUNTS = (0, 1, 1, 2, 3, 5, 8, 40, None)
"""Free addresses of a subnet; None for plenty."""


def with_addresses(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The cluster with one or two subnets in each zone for each EC2NodeClass, and few or many addresses in them."""
    names = sorted({pool.node_class.name for pool in snapshot.node_pools})
    classes, free = [], dict[str, int]()
    for name in names:
        subnets = [(f"{zone}-{name}-{n}", zone) for zone in ZONES for n in range(draw.choice((1, 1, 2)))]
        per_node = draw.choice(EACH)
        amounts = {subnet: draw.choice(AMOUNTS) for subnet, _ in subnets}
        free |= {subnet: amount * per_node for subnet, amount in amounts.items() if amount is not None}
        classes.append(NodeClass(name=name, subnets=tuple(subnets), addresses_per_node=per_node))
    return msgspec.structs.replace(snapshot, node_classes=tuple(classes), subnet_addresses=free)


def address_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Zones of an EC2NodeClass where more nodes of the plan may start than its subnets have addresses for."""
    pools = {pool.name: pool.node_class.name for pool in snapshot.node_pools}
    may_start = Counter((pools[claim.node_pool], zone) for claim in plan.claims for zone in claim.zones)
    for node_class in snapshot.node_classes:
        for zone in ZONES:
            zone_amounts = [
                snapshot.subnet_addresses.get(subnet) for subnet, where in node_class.subnets if where == zone
            ]
            room = sum(amount // node_class.addresses_per_node for amount in zone_amounts if amount is not None)
            if None not in zone_amounts and may_start[node_class.name, zone] > room:
                yield f"addresses: {may_start[node_class.name, zone]} nodes of {node_class.name} in {zone}, room for {room}"


DOLLAR = 10**9


def with_commitments(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The cluster with a Savings Plan, reserved instances of some of its types, or both, that cover little or much."""
    names = sorted(kind.name for kind in snapshot.catalogue.default)
    zones = sorted({o.zone for kind in snapshot.catalogue.default for o in kind.offerings}) or [""]
    commitments: list[Commitment] = [
        ReservedInstances(
            name=f"ri-{number}",
            instance_type=draw.choice(names),
            count=draw.choice((1, 1, 2, 5)),
            zone=draw.choice(("", draw.choice(zones))),
        )
        for number in range(draw.choice((0, 1, 2)) if names else 0)
    ]
    if draw.random() < 0.7 or not commitments:
        rates = (CommittedRate(ppm=draw.choice((0, 280_000, 720_000))),)
        commitments.append(SavingsPlan(name="sp", amount=DOLLAR * draw.choice((1, 5, 20, 100)) // 20, rates=rates))
    options = msgspec.structs.replace(snapshot.options, commitments=tuple(commitments))
    return msgspec.structs.replace(snapshot, options=options)


def coverage_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Every covered claim that may still cost something, and every commitment that covers more than its amount."""
    spent: dict[str, int] = {}
    bought = {commitment.name: commitment for commitment in snapshot.options.commitments}
    for claim in plan.claims:
        if not claim.commitment:
            continue
        if claim.capacity_types != (labels.ON_DEMAND,):
            yield f"coverage: {claim.name} is covered and may be launched as {claim.capacity_types}"
        most = max(_launches(snapshot, claim, bought[claim.commitment]), default=0)
        spent[claim.commitment] = spent.get(claim.commitment, 0) + most
    running = running_charges(snapshot)
    for name, amount in sorted(spent.items()):
        covering = bought[name]
        uncharged = (
            covering.amount - min(covering.amount, running.get(name, 0)) if len(bought) == 1 else covering.amount
        )
        if amount > uncharged:
            yield f"coverage: {name} covers {uncharged} more, and new nodes may take {amount}"


def running_charges(snapshot: Snapshot) -> dict[str, int]:
    """Commitment → the charge of the staying nodes if it alone covered them."""
    charges: dict[str, int] = {}
    for commitment in snapshot.options.commitments:
        for instance_type, zone, price in running(snapshot):
            charges[commitment.name] = charges.get(commitment.name, 0) + charged(commitment, instance_type, zone, price)
    return charges


def running(snapshot: Snapshot) -> Iterator[tuple[str, str, int]]:
    """Type, zone and price of every on-demand node that stays."""
    claims = {claim.provider_id: claim for claim in snapshot.node_claims if claim.provider_id}
    by_node = {claim.node_name: claim for claim in claims.values() if claim.node_name}
    for node in snapshot.nodes:
        claim = claims.get(node.provider_id) or by_node.get(node.name)
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


def charged(commitment: Commitment, instance_type: str, zone: str, price: int) -> int:
    """The charge of one node to one commitment; names of random types do not tell their sizes."""
    if isinstance(commitment, SavingsPlan):
        return max(1, price * (1_000_000 - commitment.rates[0].ppm) // 1_000_000)
    return int(instance_type == commitment.instance_type and commitment.zone in ("", zone))


def _launches(snapshot: Snapshot, claim: PlannedClaim, commitment: Commitment) -> Iterator[int]:
    for kind in types_by_pool(snapshot, claim.node_pool):
        for offering in kind.offerings:
            is_asked = kind.name in claim.instance_types and offering.zone in claim.zones and offering.available
            if is_asked and offering.capacity_type == labels.ON_DEMAND:
                yield charged(commitment, kind.name, offering.zone, offering.price) or commitment.amount + 1


# A second implementation of EC2's vCPU quotas: no plan may exceed the vCPUs that the cluster may run of a capacity type.
#
# All types of random clusters count in one group of families, so there are two quotas: on-demand and spot.


CODES = {labels.ON_DEMAND: "L-1216C47A", labels.SPOT: "L-34B43A08"}


def with_quotas(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The cluster under quotas that leave little or much room beyond its running nodes."""
    running = used(snapshot, Plan(now=snapshot.now))
    chosen = draw.sample(sorted(CODES), draw.choice((1, 1, 2)))
    quotas = {CODES[code]: max(0, running[code] + draw.choice((-3, 0, 1, 4, 9, 24, 60, 400))) for code in chosen}
    return msgspec.structs.replace(snapshot, vcpu_quotas=quotas)


def used(snapshot: Snapshot, plan: Plan) -> dict[str, int]:
    """Capacity type → vCPUs of all nodes, leaving ones included, of claims, and of the plan's claims at their largest."""
    vcpus = {labels.ON_DEMAND: 0, labels.SPOT: 0, labels.RESERVED: 0}
    sizes = {kind.name: kind.capacity["cpu"] // 1000 for kind in snapshot.catalogue.default}
    launched = {claim.provider_id: claim for claim in snapshot.node_claims if claim.provider_id}
    joined = {node.provider_id for node in snapshot.nodes}
    for node in snapshot.nodes:
        if node.provider_id in launched:
            vcpus[node.labels.get(labels.CAPACITY_TYPE, labels.ON_DEMAND)] += node.capacity.get("cpu", 0) // 1000
    for claim in snapshot.node_claims:
        if claim.provider_id and claim.provider_id not in joined:
            cores = claim.capacity.get("cpu", 0) // 1000 or sizes.get(claim.labels.get(labels.INSTANCE_TYPE, ""), 0)
            vcpus[claim.labels.get(labels.CAPACITY_TYPE, labels.ON_DEMAND)] += cores
        elif not claim.provider_id and claim.deleted_at is None:
            named = [r for r in claim.requirements if r.key == labels.INSTANCE_TYPE and not r.complement]
            kinds = [r.values for r in claim.requirements if r.key == labels.CAPACITY_TYPE and not r.complement]
            requested_type = labels.SPOT if any(labels.SPOT in values for values in kinds) else labels.ON_DEMAND
            if kinds != [(labels.RESERVED,)]:
                vcpus[requested_type] += max(
                    (sizes.get(name, 0) for requirement in named for name in requirement.values), default=0
                )
    for planned in plan.claims:
        vcpus[requested_as(snapshot, planned)] += max(sizes[name] for name in planned.instance_types)
    return vcpus


def requested_as(snapshot: Snapshot, claim: PlannedClaim) -> str:
    """The capacity type that the launch requests: reserved, else spot if no more expensive than on-demand, else on-demand."""
    if held_by(claim):
        return labels.RESERVED
    pool = next(pool for pool in snapshot.node_pools if pool.name == claim.node_pool)
    kinds = [kind for kind in types_of(snapshot, pool) if kind.name in claim.instance_types]
    spot, on_demand = (_prices(kinds, claim, capacity_type) for capacity_type in (labels.SPOT, labels.ON_DEMAND))
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


# Random volumes: bound in one zone or two, waiting for their first consumer, broken.


Storage = tuple[tuple[PersistentVolume, ...], tuple[PersistentVolumeClaim, ...], tuple[StorageClass, ...]]


def random_storage(draw: Random, zones: tuple[str, ...]) -> Storage:
    """Volumes, claims and storage classes. Class `zonal` allows some zones, `any` all, `late` is the default."""
    volumes, claims = [], []
    for number in range(6):
        namespace, name = draw.choice(NAMESPACES), f"claim-{number}"
        kind = draw.choice(("bound", "bound", "unbound", "unbound", "broken"))
        if kind == "bound":
            volumes.append(_volume(draw, f"volume-{number}", zones))
            claims.append(
                PersistentVolumeClaim(
                    namespace=namespace,
                    name=name,
                    volume_name=f"volume-{number}",
                    phase="Bound",
                    is_bind_completed=True,
                )
            )
        elif kind == "unbound":
            storage = draw.choice(("zonal", "any", None))
            claims.append(PersistentVolumeClaim(namespace=namespace, name=name, storage_class=storage))
        else:
            claims.append(
                PersistentVolumeClaim(
                    namespace=namespace, name=name, storage_class=draw.choice(("absent", "now")),
                    phase=draw.choice(("Pending", "Lost")),
                )
            )  # fmt: skip
    allowed = tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in some_of(draw, zones))
    shared: dict[str, Any] = {"provisioner": EBS, "binding_mode": WAIT_FOR_FIRST_CONSUMER}
    classes = (
        StorageClass(name="zonal", allowed_topologies=allowed, **shared),
        StorageClass(name="any", is_default=chance(draw, 0.8), **shared),
        StorageClass(name="now", provisioner=EBS, binding_mode=IMMEDIATE),
    )
    return tuple(volumes), tuple(claims), classes


def _volume(draw: Random, name: str, zones: tuple[str, ...]) -> PersistentVolume:
    if chance(draw, 0.15):
        here = (Requirement.one_of(labels.HOSTNAME, "node-0"), Requirement.one_of(labels.ZONE, draw.choice(zones)))
        return PersistentVolume(name=name, node_terms=(NodeSelectorTerm(here[: draw.randint(1, 2)]),), is_local=True)
    terms = tuple(
        NodeSelectorTerm((Requirement.one_of(labels.ZONE, z),)) for z in draw.sample(zones, draw.choice((1, 1, 2)))
    )
    return PersistentVolume(name=name, node_terms=terms, driver=EBS)
