"""Renders one claim's launch: the templates that must exist and the fleet request that uses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from core import labels
from core.ami_families.bootstrap import Cluster, registered_labels, registered_taints
from core.catalogue.capacity import EFA
from core.catalogue.node_class import Ami, EC2NodeClass
from core.errors import InvalidInputError
from core.launch.denials.subnets import subnet_by_zone
from core.launch.fleet import FleetConfig, FleetTerms, fleet_request
from core.launch.images import image_for
from core.launch.node_bootstrap import bootstrap_of
from core.launch.selection import one_request
from core.launch.template import LaunchTemplate, TemplateParts, launch_template, ownership_tags
from core.model.catalogue import Offering
from core.model.launch_order import LaunchOrder

NITRO_SANDBOX: Final = "eks.amazonaws.com/nitro-sandbox"


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
    own = ((subnet.id, subnet.zone) for subnet in node_class.status.subnets)
    subnets = subnet_by_zone(own, order.subnets, order.avoided_subnets)
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
        tags=tags,
        context=node_class.spec.context,
        is_ranked=order.is_ranked,
    )
    request = fleet_request(configs, subnets, terms)
    return RenderedLaunch(offerings=chosen, templates=tuple(templates), subnets=subnets, tags=tags, request=request)


def _grouped(chosen: Iterable[Offering], order: LaunchOrder, images: Mapping[str, Ami]) -> dict[_Group, list[Offering]]:
    groups: dict[_Group, list[Offering]] = {}
    wants_efa = order.requests.get(EFA, 0) > 0
    types = {found.name: found for found in order.instance_types}
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
        enclaves=order.requests.get(NITRO_SANDBOX, 0) > 0,
        tenancy=order.tenancy,
        partition=order.partition,
        is_ipv6=cluster.is_ipv6,
        uses_reservations=order.uses_reservations,
    )
    return launch_template(node_class, parts)
