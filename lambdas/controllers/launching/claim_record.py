"""Builds the record that is stored before a claim is launched, and the launch order derived from it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from adapters.ports import JsonObject
from core import labels
from core.labels import HASH_VERSION
from core.launch.placement import partition, tenancy
from core.launch.selection import Selection, select_offerings
from core.lifecycle.launching.shared_launch import launch_name
from core.lifecycle.rebuilding import claim_tags
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue
from core.model.launch_order import LaunchOrder
from core.model.node_pool import NodeClass
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values import resources
from core.model.values.taints import UNREGISTERED
from core.pools.pool_types import pool_types
from core.reasons.refusal import Refusal


def requested(planned: PlannedClaim, name: str, token: str, snapshot: Snapshot, now: datetime) -> ClaimRecord | Refusal:
    """Return the record of a claim: its offerings, and the most that it may use of its NodePool's limits."""
    types = pool_types(snapshot).of(planned.node_pool, planned.node_class.name)
    selection = select_offerings(planned, types, snapshot.options.min_values_policy)
    if isinstance(selection, Refusal):
        return selection
    return ClaimRecord(
        name=name,
        plan=_launched_as(planned, name, selection),
        token=token,
        requested_at=now,
        phase_since=now,
        offerings=selection.offerings,
        is_ranked=snapshot.options.ranks_by_own_prices
        or _has_own_prices(selection, snapshot.catalogue, planned.node_class.name),
        reserved=resources.maximum(found.capacity for found in selection.types) | {"nodes": 1},
    )


def order_of(
    record: ClaimRecord,
    node_class: JsonObject,
    catalogue: Catalogue,
    *,
    cluster: str,
    avoided_subnets: tuple[str, ...] = (),
    uses_reservations: bool = True,
) -> LaunchOrder:
    """Return the order for the claim's instance, and those of the claims that share its launch.

    The same record always gives the same order, and so does every claim of a shared launch.
    """
    plan, named = record.plan, {offering.instance_type for offering in record.offerings}
    name = launch_name(record)
    return LaunchOrder(
        claim=name,
        count=record.shares,
        node_pool=plan.node_pool,
        token=record.token,
        offerings=record.offerings,
        node_class=node_class,
        node_labels=dict(sorted(plan.labels.items())),
        taints=tuple(str(taint) for taint in (*plan.taints, *plan.startup_taints, UNREGISTERED)),
        tags={
            labels.CLUSTER_TAG: cluster,
            labels.NODEPOOL: plan.node_pool,
            labels.NODECLAIM: name,
            labels.NODECLASS: plan.node_class.name,
            labels.CLAIM: name,
            **({labels.LAUNCH: name} if record.shares > 1 else {}),
            **claim_tags(plan),
        },
        instance_types=tuple(t for t in catalogue.types_for(plan.node_class.name) if t.name in named),
        requests=plan.resources,
        is_ranked=record.is_ranked,
        subnets=record.subnets,
        avoided_subnets=avoided_subnets,
        tenancy=tenancy(plan.requirements),
        partition=partition(plan.requirements),
        uses_reservations=uses_reservations,
    )


def with_class_hash(planned: PlannedClaim, node_classes: Iterable[NodeClass]) -> PlannedClaim:
    """Return the claim with the hash of the EC2NodeClass that it is launched from, by which drift is found later.

    The plan already has the NodePool's hash: the claim was made from the template at that time.
    """
    found = dict(planned.annotations)
    for node_class in node_classes:
        if node_class.name == planned.node_class.name and node_class.spec_hash:
            found |= {labels.NODECLASS_HASH: node_class.spec_hash, labels.NODECLASS_HASH_VERSION: HASH_VERSION}
    return msgspec.structs.replace(planned, annotations=dict(sorted(found.items())))


def with_decision(planned: PlannedClaim, decision: str) -> PlannedClaim:
    """Return the claim with the id of the decision that launches it; unchanged without a ledger."""
    if not decision:
        return planned
    annotations = dict(sorted({**planned.annotations, labels.DECISION: decision}.items()))
    return msgspec.structs.replace(planned, annotations=annotations)


def _launched_as(planned: PlannedClaim, name: str, selection: Selection) -> PlannedClaim:
    if not selection.min_values_relaxed:
        return msgspec.structs.replace(planned, name=name)
    annotations = dict(sorted({**planned.annotations, labels.MIN_VALUES_RELAXED: "true"}.items()))
    return msgspec.structs.replace(planned, name=name, annotations=annotations, min_values_relaxed=True)


def _has_own_prices(selection: Selection, catalogue: Catalogue, node_class: str) -> bool:
    """Whether the NodePool has prices other than EC2's list."""
    names = {found.name for found in selection.types}
    types = (found for found in catalogue.types_for(node_class) if found.name in names)
    listed = {offering.key: offering.price for found in types for offering in found.offerings}
    return any(listed.get(offering.key) != offering.price for offering in selection.offerings)
