"""Renders one claim's launch: the templates that must exist and the fleet request that uses them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from core import labels
from core.ami_families.family import Bootstrap, Cluster, registered_labels, registered_taints
from core.catalogue.capacity import EFA
from core.catalogue.node_class import RAID0, Ami, EC2NodeClass
from core.errors import InvalidInputError
from core.interpreter import ByIdentity
from core.launch.denials import subnet_by_zone
from core.launch.selection import one_request
from core.launch.template import (
    LaunchTemplate,
    TemplateParts,
    fleet_options,
    launch_template,
    ownership_tags,
    tag_list,
    target_capacity_type,
)
from core.model.catalogue import InstanceType, Offering, OfferingKey, cheapest_first
from core.model.node_pool import NodePool
from core.model.plan import LaunchOrder
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import Taint
from core.pools import template_labels

# Builds the CreateFleet request of type instant: instances from the first offerings that EC2 has capacity for.


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
        minimum: How many must be launched if any is.
        is_ranked: Whether the offerings' prices are the NodePool's own, so that EC2 follows their order instead of its prices.
        tags: Tags of the instance, its volumes and the fleet.
        context: The class' opaque `spec.context`.
    """

    token: str
    tags: dict[str, str]
    count: int = 1
    minimum: int = 1
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
        request |= _all_or_none(fleet_options(first, spot=spot, on_demand=on_demand), terms.minimum)
    if terms.context:
        request["Context"] = terms.context
    return request


def _all_or_none(options: dict[str, Any], minimum: int) -> dict[str, Any]:
    """Return the fleet's options with a minimum target capacity (docs/engineering/aws-facts.md#minimum-target-capacity).

    Reserved capacity has none: EC2 says there itself what a reservation has left.
    """
    if minimum <= 1:
        return options
    least = {"MinTargetCapacity": minimum, "SingleAvailabilityZone": True}
    kinds = ("SpotOptions", "OnDemandOptions")
    return {name: {**chosen, **least} if name in kinds else chosen for name, chosen in options.items()}


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


# Selects the image that an instance type boots from.


_CLASSES_KEPT: Final = 8


class _Images(msgspec.Struct, frozen=True):
    """The images of a class in order, each with its requirements on types, and all labels that the requirements use."""

    images: tuple[tuple[Ami, Requirements], ...]
    keys: frozenset[str]


def image_for(instance_type: InstanceType, node_class: EC2NodeClass) -> Ami | None:
    """Return the first resolved image whose requirements the type meets, None if there is none (Karpenter)."""
    wanted = _images_of(node_class)
    carried = Requirements(
        Requirement.one_of(key, *values)
        for key, values in instance_type.labels.items()
        if labels.normalized(key) in wanted.keys
    )
    return next((ami for ami, requirements in wanted.images if carried.compatible(requirements)), None)


def _read(node_class: EC2NodeClass) -> _Images:
    images = tuple(
        (ami, Requirements(Requirement.of(r.key, r.operator, r.values) for r in ami.requirements))
        for ami in node_class.status.amis
    )
    return _Images(images, frozenset(key for _, requirements in images for key in requirements))


_images_of: Final = ByIdentity(_read, size=_CLASSES_KEPT)


# Gathers the boot data of a node from its EC2NodeClass.


def bootstrap_of(
    node_class: EC2NodeClass,
    cluster: Cluster,
    *,
    labels: Mapping[str, str],
    taints: tuple[Taint, ...],
    max_pods: int = 0,
    image_name: str = "",
) -> Bootstrap:
    """Return the boot data of a node that registers with these labels and taints."""
    spec = node_class.spec
    return Bootstrap(
        cluster=cluster,
        labels=dict(labels),
        taints=taints,
        kubelet=spec.kubelet,
        max_pods=max_pods,
        user_data=spec.user_data,
        raids_instance_store=spec.instance_store_policy == RAID0,
        alias_release=node_class.alias.partition("@")[2],
        image_name=image_name,
    )


class RenderedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """Templates, request, and the requested offerings. If there are no offerings, nothing can be launched."""

    offerings: tuple[Offering, ...]
    templates: tuple[LaunchTemplate, ...]
    subnets: dict[str, str]
    tags: dict[str, str]
    request: dict[str, Any]


class _Group(msgspec.Struct, frozen=True, order=True):
    """The properties that two types must share to boot from one template."""

    image_id: str
    image_name: str
    max_pods: int
    efa_count: int
    reservation_id: str


def render_launch(order: LaunchOrder, node_class: EC2NodeClass, cluster: Cluster) -> RenderedLaunch:
    """Render an order.

    Raises:
        InvalidInputError: If the class is not resolved, or its user data, volumes or taints cannot be rendered.
    """
    pairs = ((subnet.id, subnet.zone) for subnet in node_class.status.subnets)
    subnets = subnet_by_zone(pairs, order.subnets, order.avoided_subnets)
    if not node_class.status.subnets:
        raise InvalidInputError("not resolved yet", subject=f"EC2NodeClass {node_class.name}", field="status.subnets")
    bootable = {t.name: ami for t in order.instance_types if (ami := image_for(t, node_class)) is not None}
    chosen = one_request(o for o in order.offerings if o.zone in subnets and o.instance_type in bootable)
    owned = ownership_tags(node_class, cluster=cluster.name, node_pool=order.node_pool)
    tags = {"Name": order.claim, **labels.without_own(node_class.spec.tags), **order.tags, **owned}
    configs, templates = [], []
    for group, members in _grouped(chosen, order, bootable).items():
        template = _template(group, order, node_class, cluster, members[0])
        templates.append(template)
        configs.append(FleetConfig(template=template.name, image_id=group.image_id, offerings=tuple(members)))
    terms = FleetTerms(
        token=order.token,
        count=order.count,
        minimum=order.minimum,
        tags=tags,
        context=node_class.spec.context,
        is_ranked=order.is_ranked,
    )
    request = fleet_request(configs, subnets, terms)
    return RenderedLaunch(offerings=chosen, templates=tuple(templates), subnets=subnets, tags=tags, request=request)


def _grouped(chosen: Iterable[Offering], order: LaunchOrder, images: Mapping[str, Ami]) -> dict[_Group, list[Offering]]:
    groups: dict[_Group, list[Offering]] = {}
    wants_efa = order.requests.get(EFA, 0) > 0
    types = {kind.name: kind for kind in order.instance_types}
    for offering in chosen:
        instance_type, ami = types[offering.instance_type], images[offering.instance_type]
        efa = instance_type.capacity.get(EFA, 0) if wants_efa else 0
        pods = instance_type.capacity.get("pods", 0)
        group = _Group(ami.id, ami.name, pods, efa, offering.reservation_id)
        groups.setdefault(group, []).append(offering)
    return groups


def _template(
    group: _Group, order: LaunchOrder, node_class: EC2NodeClass, cluster: Cluster, offering: Offering
) -> LaunchTemplate:
    family, spec = node_class.family, node_class.spec
    node_labels = {**order.node_labels, labels.CAPACITY_TYPE: offering.capacity_type}
    bootstrap = bootstrap_of(
        node_class,
        cluster,
        labels=registered_labels(node_labels, syncs_taints=not family.registers_taints),
        taints=registered_taints(order.taints),
        max_pods=group.max_pods,
        image_name=group.image_name,
    )
    parts = TemplateParts(
        image_id=group.image_id,
        user_data=family.user_data(bootstrap),
        offering=offering,
        tags={
            **labels.without_own(spec.tags),
            **ownership_tags(node_class, cluster=cluster.name, node_pool=order.node_pool),
        },
        efa_count=group.efa_count,
        tenancy=order.tenancy,
        partition=order.partition,
        is_ipv6=cluster.is_ipv6,
        uses_reservations=order.uses_reservations,
    )
    return launch_template(node_class, parts)


# Checks before any launch whether EC2 accepts the size of a NodePool's user data.
#
# It includes the EC2NodeClass's user data and kubelet settings, the NodePool's labels and taints, and the data to join the
# cluster.


ALWAYS_FITS: Final = 2_048
"""Up to this many bytes in a class and a NodePool, the user data is within EC2's limit in any family's format."""

_PODS: Final = 1_000
"""A number of pods with at least as many digits as any node's."""


def may_exceed(node_class: EC2NodeClass, node_pool: NodePool) -> bool:
    """Whether the user data must be rendered to check its size; nearly always it is far below the limit."""
    spec = node_class.spec
    texts = (text for pair in _labels(node_pool).items() for text in pair)
    written = (spec.user_data, json.dumps(spec.kubelet), *texts, *_taints(node_pool))
    return sum(len(text.encode()) for text in written) > ALWAYS_FITS


def user_data_problem(node_class: EC2NodeClass, cluster: Cluster, node_pool: NodePool) -> str:
    """Return why the user data cannot be rendered with the NodePool's part; empty if it can, or if the class alone fails."""
    try:
        _render(node_class, cluster, {}, ())
    except InvalidInputError:
        return ""  # the class fails on its own, whatever the NodePool adds
    try:
        _render(node_class, cluster, _labels(node_pool), _taints(node_pool))
    except InvalidInputError as error:
        return f"EC2NodeClass {node_class.name} with the labels and taints of this NodePool: {error}"
    return ""


def _render(node_class: EC2NodeClass, cluster: Cluster, pool_labels: Mapping[str, str], taints: Iterable[str]) -> str:
    family = node_class.family
    registered = registered_labels(pool_labels, syncs_taints=not family.registers_taints)
    bootstrap = bootstrap_of(node_class, cluster, labels=registered, taints=registered_taints(taints), max_pods=_PODS)
    return family.user_data(bootstrap)


def _labels(pool: NodePool) -> dict[str, str]:
    """Return the labels that its nodes register with: the template's, and the longest allowed value for each open label."""
    pool_labels = {**template_labels(pool), labels.CAPACITY_TYPE: labels.ON_DEMAND}
    for requirement in pool.requirements:
        if requirement.key not in labels.WELL_KNOWN and requirement.is_finite and requirement.values:
            pool_labels.setdefault(requirement.key, max(requirement.values, key=lambda value: (len(value), value)))
    return pool_labels


def _taints(pool: NodePool) -> tuple[str, ...]:
    return tuple(str(taint) for taint in (*pool.taints, *pool.startup_taints))
