"""Texts of explanations."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping
from typing import Final

from core import labels
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.explanation.pool_offers import pool_offers
from core.scheduling.instance_types.type_index import OFFERING_KEYS
from core.scheduling.instance_types.type_offerings import meets
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep
from core.scheduling.primitives.bit_set import positions
from core.scheduling.primitives.handles import RequirementId, TypeMask

_VALUES_SHOWN: Final = 3
_GI: Final = 2**30


def shown(requirement: Requirement) -> str:
    """Format a requirement with an operator of Kubernetes."""
    bounds = [f">= {requirement.gte}"] if requirement.gte is not None else []
    bounds += [f"<= {requirement.lte}"] if requirement.lte is not None else []
    values = ", ".join(requirement.values)
    if bounds:
        return f"{requirement.key} {' and '.join(bounds)}"
    return f"{requirement.key} {requirement.operator}" + (f" [{values}]" if values else "")


def own_conflict(template: NodeClaimTemplate) -> str:
    """Name the NodePool's own requirement that excludes all instance types."""
    types, offered = template.types, template.types.table[template.offered]
    if not types.full:
        return "its EC2NodeClass has no instance type"
    for key, requirement in offered.items():
        if key in OFFERING_KEYS and not types.offerings.mask(Requirements([requirement])):
            return f"no instance type meets its own requirements: none is on offer with {shown(requirement)}"
        if key not in OFFERING_KEYS and not types.labels.mask(requirement):
            return f"no instance type meets its own requirements: {unlike(template, types.full, requirement)}"
    offers = pool_offers(template)
    if offers.conflict is None:
        return "no instance type meets its own requirements and labels together"
    last = shown(template.pool.requirements[offers.conflict])
    return f"no instance type meets its own requirements: {last} leaves none of the {offers.before} that those before it allow"


def conflict(template: NodeClaimTemplate, alternative: RequirementId, demand_source: Callable[[str], str]) -> str:
    """Name the label that the NodePool's nodes lack, or whose value differs from the pod's requirement."""
    table = template.types.table
    offered, asked = table[template.offered], table[alternative]
    key = offered.incompatibility(asked, allow_undefined=table.well_known)
    if key is None:
        missing = sorted(key for key in table.needed(alternative) if key not in offered)
        return f"its nodes do not have {', '.join(missing)}"
    own = f"it offers {shown(offered[key])}" if key in offered else "its nodes do not have the label"
    unknown = f"; no EC2NodeClass's subnets and no node tell which zone that is, use {labels.ZONE}"
    hint = unknown if key == labels.ZONE_ID else ""
    return f"{demand_source(key)} demands {shown(asked[key])}, but {own}{hint}"


def contradiction(pod_group: PodGroup, step: RelaxationStep) -> str:
    """Name the label for which the pod's requirements contradict each other."""
    terms = step.demands.terms[0].requirements if step.demands.terms else ()
    by_key: dict[str, list[Requirement]] = {}
    for requirement in (*pod_group.signature.spec.node_selector, *terms):
        by_key.setdefault(requirement.key, []).append(requirement)
    for key, asked in by_key.items():
        merged = Requirements(asked).get(key)
        if (
            merged is not None
            and merged.operator == "DoesNotExist"
            and any(r.operator != "DoesNotExist" for r in asked)
        ):
            return f"the pod's requirements contradict each other: they allow no value of {key}"
    return "the pod's requirements contradict each other or those of its volumes"


def unlike(template: NodeClaimTemplate, mask: TypeMask, requirement: Requirement) -> str:
    """Compare the requirement on a label with the values of the types."""
    types = [template.types.types[position] for position in positions(mask)]
    if requirement.key == labels.INSTANCE_TYPE:
        values = {found.name for found in types}
    else:
        values = {value for found in types for value in found.labels.get(requirement.key, ())}
    if not values:
        return f"{shown(requirement)} is required, and its types do not have the label"
    some = _near(sorted(values), requirement)
    rest = f" and {len(values) - len(some)} more" if len(values) > len(some) else ""
    return f"{shown(requirement)} is required, and its types have {', '.join(some)}{rest}"


def not_offered(template: NodeClaimTemplate, mask: TypeMask, requirements: Requirements) -> str:
    """Compare the requirement on a zone, a capacity type or a reservation with the types' offerings."""
    types = [template.types.types[position] for position in positions(mask)]
    for key in sorted(set(OFFERING_KEYS) & set(requirements)):
        asked = requirements[key]
        offered = {value for found in types for one in found.offerings for value in one.requirements().of(key).values}
        if not any(asked.has(value) for value in offered):
            return f"{shown(asked)} is required, and its types are offered with {', '.join(sorted(offered)) or 'none'}"
    return ""


def closed_reservation(
    snapshot: Snapshot, template: NodeClaimTemplate, mask: TypeMask, requirements: Requirements
) -> str:
    """Name a suitable capacity reservation with free places that takes no nodes yet, or no more; empty without one.

    The next one to begin comes before the one that ends last.
    """
    own = (one for one in snapshot.node_classes if one.name == template.pool.node_class.name)
    node_class = next(own, None)
    begins = node_class.reservation_begins if node_class is not None else {}
    ends = node_class.reservation_ends if node_class is not None else {}
    found = {
        offering.reservation_id
        for position in positions(mask if begins or ends else TypeMask(0))
        for offering in template.types.types[position].offerings
        if offering.reservation_id and offering.reservation_capacity and meets(offering, requirements)
    }
    for at, identity in sorted((begins[one], one) for one in found if one in begins)[:1]:
        return f"capacity reservation {identity} takes nodes once it has begun, at {at:%Y-%m-%d %H:%M} UTC"
    for at, identity in sorted((ends[one], one) for one in found if one in ends)[-1:]:
        return f"capacity reservation {identity} takes no more nodes, its nodes leave it at {at:%Y-%m-%d %H:%M} UTC"
    return ""


def _near(values: list[str], requirement: Requirement) -> list[str]:
    """Return a few of the values: the greatest if a greater one is required, else the neighbours of the required one."""
    if all(value.isdecimal() for value in values):
        values = sorted(values, key=int, reverse=requirement.gte is not None)
        return values[:_VALUES_SHOWN]
    place = bisect(values, requirement.values[0]) if requirement.values else 0
    start = max(0, min(place - 1, len(values) - _VALUES_SHOWN))
    return values[start : start + _VALUES_SHOWN]


def limits_left(limits: Mapping[str, int], left: Mapping[str, int]) -> str:
    """List the rest of each limit, with the limit itself."""
    return ", ".join(
        f"{name} {amount_of(max(0, n), name)} of {amount_of(limits[name], name)}" for name, n in left.items()
    )


def amount_of(amount: int, name: str) -> str:
    """Format large amounts of bytes in Gi, rounded up."""
    if name in ("memory", "ephemeral-storage") and amount >= _GI:
        return f"{-(-amount // _GI)}Gi"
    return quantity.render(amount, name)
