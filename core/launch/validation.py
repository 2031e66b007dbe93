"""Trial launches of a changed EC2NodeClass: which ones, what they said, and what has changed since.

The launches to validate for a changed EC2NodeClass: one instance from each of its images.

Only types that its NodePools may launch are validated (Karpenter): an organization's policy may forbid other types, which says
nothing about the class.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import msgspec

from core import labels
from core.ami_families.bootstrap import Cluster, registered_taints
from core.catalogue.node_class import EC2NodeClass
from core.launch.denials import FIRST_PAUSE, LONGEST_PAUSE, OF_CAPACITY, encoded_part, rule_of, shortened
from core.launch.request import bootstrap_of, image_for
from core.launch.template import TemplateParts, launch_template, ownership_tags
from core.model.catalogue import InstanceType, Offering, OfferingKey
from core.model.launch_order import LaunchOrder
from core.model.node_pool import NodePool
from core.pool_admission import admitted_types
from core.pools import template_requirements

# EC2's answer about launches from an EC2NodeClass, stored in an annotation of the class, and when to ask again.
#
# EC2 is asked when the rendered launch changes. It is not asked again about a launch that it allowed, and at growing intervals
# about one that it denied, since a permission may be granted without a change of the class.


DRY_RUN: Final = "DryRunOperation"
"""EC2's code of the answer that the request would have succeeded."""

MESSAGE_MAX: Final = 2000
"""The most characters of EC2's message that are stored; the longest are encoded authorization failures."""

_UNAUTHORIZED: Final = ("UnauthorizedOperation", "AccessDenied", "AuthFailure")
_DOUBLINGS_MAX: Final = 10


class LaunchValidation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last answer.

    Attributes:
        fields: Digests of the fields of the checked launch, as rendered (`template_fields`).
        asked_at: When EC2 was asked last.
        call, code, message: The call that EC2 denied and its answer; empty if it was allowed.
        denials: How often in a row it denied these fields.
    """

    fields: dict[str, str]
    asked_at: datetime
    call: str = ""
    code: str = ""
    message: str = ""
    denials: int = 0

    @property
    def agrees(self) -> bool:
        """Whether EC2 allows the launch."""
        return not self.code

    def answers(self, fields: dict[str, str], now: datetime) -> bool:
        """Whether it answers for these fields, and EC2 need not be asked again yet."""
        if self.fields != fields:
            return False
        return self.agrees or now < self.asked_at + self._pause()

    def _pause(self) -> timedelta:
        doublings = min(max(self.denials - 1, 0), _DOUBLINGS_MAX)
        return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << doublings))

    def reason(self) -> str:
        """The condition's reason: Karpenter's for a missing permission, else EC2's code; empty if the launch is allowed."""
        if self.code.startswith(_UNAUTHORIZED):
            return f"{self.call.rpartition(':')[2]}AuthCheckFailed"
        return self.code.replace(".", "_")

    def explanation(self) -> str:
        """Return EC2's code and message, what to do, and last the encoded part of the message; empty if EC2 agrees."""
        if self.agrees:
            return ""
        how = "" if self.call.endswith("CreateLaunchTemplate") else " (DryRun)"
        said = f"{self.call}{how}: {self.code}: {shortened(self.message)}. {rule_of(self.code).advice}"
        return f"{said} {encoded_part(self.message)}".rstrip()


def concerns_the_class(code: str) -> bool:
    """Whether an answer with this code means that the class cannot be launched, not that capacity is missing just now."""
    return code != DRY_RUN and rule_of(code).remembered not in OF_CAPACITY


def next_validation(
    before: LaunchValidation | None, fields: dict[str, str], denied: tuple[str, str, str] | None, now: datetime
) -> LaunchValidation:
    """Return the answer to keep; `denied` is the call that EC2 denied, its code and its message."""
    if denied is None:
        return LaunchValidation(fields=fields, asked_at=now)
    call, code, message = denied
    in_a_row = before.denials if before is not None and before.fields == fields else 0
    return LaunchValidation(
        fields=fields, asked_at=now, call=call, code=code, message=message[:MESSAGE_MAX], denials=in_a_row + 1
    )


def written_validation(validation: LaunchValidation) -> str:
    """Return the value of the annotation `labels.LAUNCH_VALIDATION`."""
    return msgspec.json.encode(validation, order="deterministic").decode()


def read_validation(text: str) -> LaunchValidation | None:
    """Return the annotation's content; None where it cannot be read, so that EC2 is asked again."""
    try:
        return msgspec.json.decode(text, type=LaunchValidation) if text else None
    except msgspec.DecodeError:
        return None


# Digests of the fields of the launch template that an EC2NodeClass renders to, so that changes can be named later.


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


NAME: Final = "fleetwright-validation"
IMAGES_MAX: Final = 4
"""The most images that are validated; an alias has one for each architecture and kind of accelerator."""

_ASKED: Final = (labels.ON_DEMAND, labels.SPOT)
"""Capacity types to validate, in this order. A reservation is bound to one type and says nothing about others."""

_PLAIN_TYPES: Final = (("m5.large", "amd64"), ("m6g.large", "arm64"))
"""The types to validate before the market was read (Karpenter)."""


def validation_orders(
    node_class: EC2NodeClass,
    manifest: dict[str, Any],
    types: Iterable[InstanceType],
    node_pools: Iterable[NodePool] = (),
    *,
    uses_reservations: bool = True,
) -> tuple[LaunchOrder, ...]:
    """Return one order for each of the first images that a type boots from, of the cheapest such type.

    On-demand comes first; spot is used only if the NodePools admit nothing else.

    Args:
        node_class: The class, resolved.
        manifest: The same as an object.
        types: The instance types of the class; empty if the market was never read.
        node_pools: NodePools of the class. If none of them admits a type, all types count.
        uses_reservations: As of an order.
    """
    chosen: dict[str, InstanceType] = {}
    every = tuple(types)
    for instance_type in _by_price(_admitted(every, node_pools)) or _by_price(every) or _plain_types(node_class):
        ami = image_for(instance_type, node_class)
        if ami is not None:
            chosen.setdefault(ami.id, instance_type)
    images = [image for image in dict.fromkeys(ami.id for ami in node_class.status.amis) if image in chosen][
        :IMAGES_MAX
    ]
    return tuple(_order(chosen[image], manifest, uses_reservations=uses_reservations) for image in images)


def _order(instance_type: InstanceType, manifest: dict[str, Any], *, uses_reservations: bool) -> LaunchOrder:
    return LaunchOrder(
        claim=NAME,
        node_pool="",
        token=NAME,
        offerings=instance_type.offerings,
        node_class=manifest,
        node_labels={},
        taints=(),
        tags={},
        instance_types=(instance_type,),
        uses_reservations=uses_reservations,
    )


def _admitted(types: tuple[InstanceType, ...], node_pools: Iterable[NodePool]) -> Iterator[InstanceType]:
    """Yield the types that each NodePool admits, with the offerings that it admits."""
    keys = frozenset(key for instance_type in types for key in instance_type.labels)
    for pool in node_pools:
        requirements = template_requirements(pool)
        # Hundreds of types have offerings in the same few places.
        is_admitted: dict[tuple[str, str, str], bool] = {}
        for instance in admitted_types(types, requirements, keys):
            for offering in instance.offerings:
                place = _place(offering)
                if place not in is_admitted:
                    is_admitted[place] = offering.requirements().conflict(requirements) is None
            offerings = tuple(offering for offering in instance.offerings if is_admitted[_place(offering)])
            yield msgspec.structs.replace(instance, offerings=offerings)


def _place(offering: Offering) -> tuple[str, str, str]:
    """Return the attributes that determine an offering's labels."""
    return offering.zone, offering.capacity_type, offering.reservation_id


def _by_price(types: Iterable[InstanceType]) -> list[InstanceType]:
    """Return the types with available offerings, each with one: on-demand before spot, cheapest first."""
    ranked: list[tuple[tuple[int, int, OfferingKey], InstanceType]] = []
    for instance_type in types:
        offerings = [o for o in instance_type.offerings if o.available and o.capacity_type in _ASKED]
        best = min(offerings, key=_rank, default=None)
        if best is not None:
            ranked.append((_rank(best), msgspec.structs.replace(instance_type, offerings=(best,))))
    ranked.sort(key=lambda pair: pair[0])
    return [instance_type for _, instance_type in ranked]


def _rank(offering: Offering) -> tuple[int, int, OfferingKey]:
    return _ASKED.index(offering.capacity_type), offering.price, offering.key


def _plain_types(node_class: EC2NodeClass) -> list[InstanceType]:
    zones = sorted({subnet.zone for subnet in node_class.status.subnets})[:1]
    return [
        InstanceType(
            name=name,
            labels={labels.ARCH: (arch,), labels.OS: ("linux", "windows")},
            capacity={},
            offerings=tuple(Offering(name, zone, labels.ON_DEMAND, 0) for zone in zones),
        )
        for name, arch in _PLAIN_TYPES
    ]
