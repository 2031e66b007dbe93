"""Digests of the fields of the launch template that an EC2NodeClass renders to, so that changes can be named later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from core import labels
from core.ami_families.bootstrap import Cluster, registered_taints
from core.catalogue.node_class import EC2NodeClass
from core.launch.node_bootstrap import bootstrap_of
from core.launch.template import TemplateParts, launch_template, ownership_tags
from core.model.catalogue import Offering

IMAGES: Final = "ImageId"
SUBNETS: Final = "SubnetId"
CONTEXT: Final = "Context"
_CHARACTERS: Final = 12
_ANY_OFFERING: Final = Offering("", "", labels.ON_DEMAND, 0)


def template_fields(node_class: EC2NodeClass, cluster: Cluster) -> dict[str, str]:
    """Return field → digest of its value, for the fields that the class alone decides; members of mappings count separately.

    A NodePool's labels, taints and tags are left out: the class does not set them. The order of images and subnets does not
    matter.

    Raises:
        InvalidInputError: If the class is not resolved, or user data or volumes cannot be rendered.
    """
    status, spec = node_class.status, node_class.spec
    bootstrap = bootstrap_of(node_class, cluster, labels={}, taints=registered_taints(()))
    parts = TemplateParts(
        image_id="",
        user_data=node_class.family.user_data(bootstrap),
        offering=_ANY_OFFERING,
        tags={**spec.tags, **ownership_tags(node_class, cluster=cluster.name, node_pool="")},
        is_ipv6=cluster.is_ipv6,
    )
    data = {
        **launch_template(node_class, parts).data,
        IMAGES: sorted(ami.id for ami in status.amis),
        SUBNETS: sorted(subnet.id for subnet in status.subnets),
        CONTEXT: spec.context,
    }
    return {name: _digest(value) for name, value in _flat(data).items()}


def changed_fields(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the fields that differ, in order; all of them if `before` is empty."""
    return tuple(name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of mappings as `Outer.Inner`, beside the other fields."""
    flat: dict[str, Any] = {}
    for name in sorted(data):
        value = data[name]
        members = {f"{name}.{inner}": value[inner] for inner in sorted(value)} if isinstance(value, dict) else {}
        flat |= members or {name: value}
    return flat


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:_CHARACTERS]
