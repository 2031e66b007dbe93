"""Converts NodePools to NodeClaim templates: what each could launch, and why others launch nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from core import labels
from core.model.node_pool import NodeClass, NodePool
from core.model.snapshot import Snapshot
from core.model.values.label_syntax import labels_fault
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import Taint
from core.pools.pool_template import template_labels, template_parts
from core.pools.pool_types import pool_types
from core.scheduling.capacity.daemon_overhead import DaemonPod, without_overhead
from core.scheduling.capacity.node_size_steps import sizes_of
from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.instance_types.type_index import index_of
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis, Vector


class NodeClaimTemplate(msgspec.Struct, frozen=True, eq=False):
    """One NodePool that may launch nodes for pods.

    Attributes:
        index: Its position: heavier pools first; among equals the last by name, as in Karpenter.
        offered: Number of the requirements that all its nodes meet.
        mask: Types that it may launch.
        sizes: The same types in sets to open a node from, tried in turn.
        min_values: Label key → how many distinct values its claims must keep.
    """

    index: int
    pool: NodePool
    offered: RequirementId
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    types: TypeFilter
    mask: TypeMask
    sizes: tuple[TypeMask, ...]
    min_values: Mapping[str, int]

    def size_for(self, requests: Vector) -> TypeMask:
        """Return the first of the sizes with a type that has room for the requests; all types if none has."""
        return next((size for size in self.sizes if self.types.room.fits(size, requests)), self.mask)

    def below(self, price: int) -> NodeClaimTemplate:
        """Return the same template restricted to what costs less than `price`."""
        types = self.types.below(price)
        mask = types.mask(self.offered)
        return replace(self, types=types, mask=mask, sizes=tuple(size & mask for size in self.sizes))


def why_unusable(pool: NodePool, snapshot: Snapshot) -> str:
    """Return why a NodePool launches nothing for pods, empty if it may."""
    if pool.problem:
        return f"is invalid: {pool.problem}"
    fault = labels_fault(template_labels(pool))
    if fault:
        return f"is invalid: its name, class and labels become labels of its nodes, and {fault}"
    if pool.deleted_at is not None:
        return "is being deleted"
    if pool.is_observed:
        return f"is only observed: its annotation {labels.MODE} says so"
    if pool.is_static:
        return "is static: it keeps a fixed number of nodes and launches none for pods"
    if pool.is_ready is False:
        return "is not ready"
    if labels.ZONE_ID in (requirement.key for requirement in pool.requirements) and not _knows_zone_ids(snapshot):
        return f"demands {labels.ZONE_ID}, but no EC2NodeClass's subnets and no node tell which zone that is: use {labels.ZONE}"
    contradicted = _contradicted(pool)
    if contradicted:
        return f"has contradictory requirements: they allow no value of {contradicted}"
    node_class = next((found for found in snapshot.node_classes if found.name == pool.node_class.name), None)
    return "" if node_class is None else _why_class_unusable(node_class)


def _why_class_unusable(node_class: NodeClass) -> str:
    if node_class.problem:
        return f"uses EC2NodeClass {node_class.name}, which is invalid: {node_class.problem}"
    if node_class.deleted_at is not None:
        return f"uses EC2NodeClass {node_class.name}, which is being deleted"
    return f"uses EC2NodeClass {node_class.name}, which is not ready" if node_class.is_ready is False else ""


def templates_of(
    snapshot: Snapshot, table: RequirementTable, axis: ResourceAxis, daemons: tuple[DaemonPod, ...]
) -> tuple[NodeClaimTemplate, ...]:
    """Return every NodePool that may launch nodes, in the order in which they are tried."""
    usable = [pool for pool in snapshot.node_pools if not why_unusable(pool, snapshot)]
    ordered = sorted(sorted(usable, key=lambda pool: pool.name, reverse=True), key=lambda pool: -pool.weight)
    return tuple(_template(index, pool, snapshot, table, axis, daemons) for index, pool in enumerate(ordered))


def any_value(requirement: Requirement, taken: Collection[str] = ()) -> str | None:
    """Return a node's value for a label that its NodePool leaves open: the first value not taken, None if all are taken.

    If the set is infinite, values are whole numbers from the lowest allowed one up (Karpenter draws one at random).
    """
    if requirement.is_finite:
        return next((value for value in requirement.values if value not in taken), None)
    number = max(0, requirement.gte or 0)
    while str(number) in requirement.values or str(number) in taken:
        number += 1
    return str(number) if requirement.has(str(number)) else None


def _knows_zone_ids(snapshot: Snapshot) -> bool:
    return labels.ZONE_ID in snapshot.catalogue.label_keys()


def _contradicted(pool: NodePool) -> str:
    """Return the first label for which the template's requirements and labels allow no value, empty if there is none."""
    merged = Requirements()
    for part in template_parts(pool):
        key = merged.conflict(Requirements([part]))
        if key is not None:
            return key
        merged = merged.merged([part])
    return ""


def _template(
    index: int,
    pool: NodePool,
    snapshot: Snapshot,
    table: RequirementTable,
    axis: ResourceAxis,
    daemons: tuple[DaemonPod, ...],
) -> NodeClaimTemplate:
    requirements = template_parts(pool)
    offered = table.conjunction(requirements)
    keys = snapshot.catalogue.label_keys()
    types = TypeFilter.of(index_of(pool_types(snapshot).of(pool.name)), keys, table, axis)
    types = without_overhead(types, offered, pool.taints, daemons)
    mask = types.mask(offered)
    return NodeClaimTemplate(
        index=index,
        pool=pool,
        offered=offered,
        labels=template_labels(pool),
        taints=pool.taints,
        types=types,
        mask=mask,
        sizes=sizes_of(types, mask, pool.largest_node),
        min_values={r.key: r.min_values for r in Requirements(requirements).values() if r.min_values},
    )
