"""Whether a launch from an EC2NodeClass would be refused: as we know beforehand, and by trial launches of a changed class.

The launches to validate for a changed EC2NodeClass: one instance from each of its images.

Only types that its NodePools may launch are validated (Karpenter): an organization's policy may forbid other types, which says
nothing about the class.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from core import labels
from core.ami_families.family import Cluster, registered_labels, registered_taints
from core.catalogue.kubelet import sizing_of
from core.catalogue.node_class import BlockDevice, Ebs, EC2NodeClass
from core.errors import InvalidInputError
from core.launch.denials import FIRST_PAUSE, LONGEST_PAUSE, OF_CAPACITY, encoded_part, rule_of, shortened
from core.launch.request import bootstrap_of, image_for
from core.launch.template import TemplateParts, block_device_mappings, launch_template, ownership_tags
from core.model.catalogue import InstanceType, Offering, OfferingKey
from core.model.node_pool import NodePool
from core.model.plan import LaunchOrder
from core.model.values import quantity
from core.model.values.quotas import SizingSettings
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
        answer = f"{self.call}{how}: {self.code}: {shortened(self.message)}. {rule_of(self.code).advice}"
        return f"{answer} {encoded_part(self.message)}".rstrip()


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


# Says beforehand why a launch from an EC2NodeClass would be refused: by our own rendering, by EC2, or by the kubelet.
#
# `validate`, the class's readiness, `plan` and the launch itself all ask `launch_problems`, so that none of them learns it
# later than another. Sources of the rules on values: the EC2 API reference (EbsBlockDevice, error codes) and user guide (tag
# restrictions, user data, EBS volume types), and the kubelet's own reading of its configuration (cmd/kubelet/app/server.go).


STAND_IN: Final = Cluster(
    name="cluster",
    endpoint="https://0123456789ABCDEF0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
    certificate_authority="LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t" * 40,
    service_cidr="10.100.0.0/16",
    dns_ip="10.100.0.10",
)
"""A cluster with the shape of any other, for callers that know none: its certificate has the usual length."""

TAG_KEY_MAX: Final = 128
TAG_VALUE_MAX: Final = 256
_AWS: Final = "aws:"
_MAX_PODS: Final = 110

_GIB: Final = 2**30
_RESERVED: Final = ("systemReserved", "kubeReserved")


class LaunchProblem(msgspec.Struct, frozen=True):
    """A reason for which launches are refused.

    Attributes:
        field: The field of the EC2NodeClass, such as `spec.userData`.
        problem: What is wrong, as the end of a sentence.
        is_certain: Whether no launch can succeed. The others follow limits of EC2 that AWS raises now and then.
        suggestion: The value that was probably meant.
    """

    field: str
    problem: str
    is_certain: bool = True
    suggestion: str = ""


def launch_problems(node_class: EC2NodeClass, cluster: Cluster = STAND_IN) -> tuple[LaunchProblem, ...]:
    """Return every reason for which launches from a class are refused, whichever NodePool they are for."""
    return (
        *_of_names(node_class),
        *_of_rendering(node_class, cluster),
        *_of_kubelet(node_class),
        *_of_devices(node_class),
        *_of_tags(node_class.spec.tags),
    )


def first_certain(problems: Iterable[LaunchProblem]) -> LaunchProblem | None:
    """Return the first problem for which no launch can succeed, None without any."""
    return next((problem for problem in problems if problem.is_certain), None)


def _of_names(node_class: EC2NodeClass) -> Iterator[LaunchProblem]:
    spec = node_class.spec
    for field, value in (("role", spec.role), ("instanceProfile", spec.instance_profile)):
        if value.startswith("arn:"):
            problem, name = "is an ARN, and IAM's calls take the name alone", value.rpartition("/")[2]
            yield LaunchProblem(f"spec.{field}", problem, suggestion=name)


def _of_rendering(node_class: EC2NodeClass, cluster: Cluster) -> Iterator[LaunchProblem]:
    """Render what every node of the class gets: the user data with no more than its own labels, and the volumes."""
    family = node_class.family
    try:
        sizing_of(node_class, SizingSettings())
    except InvalidInputError as error:
        yield LaunchProblem(error.field or "spec.kubelet", error.problem)
    try:
        registered = registered_labels({}, syncs_taints=not family.registers_taints)
        taints = registered_taints(())
        family.user_data(bootstrap_of(node_class, cluster, labels=registered, taints=taints, max_pods=_MAX_PODS))
    except InvalidInputError as error:
        yield LaunchProblem(error.field or "spec.userData", error.problem)
    try:
        block_device_mappings(node_class.spec.block_device_mappings, family)
    except InvalidInputError as error:
        yield LaunchProblem(error.field or "spec.blockDeviceMappings", error.problem)


# What a kubelet refuses at its start, so that the node never joins.


_PERCENT: Final = re.compile(r"\+?\d+(\.\d*)?%")
_NO_MAXIMUM: Final = 2**31 - 1
_PORTS: Final = (0, 65535)
_NOT_NEGATIVE: Final = (0, _NO_MAXIMUM)
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "containerLogMaxFiles": (2, _NO_MAXIMUM),
    "containerLogMaxWorkers": (1, _NO_MAXIMUM),
    "healthzPort": _PORTS,
    "iptablesDropBit": (0, 31),
    "iptablesMasqueradeBit": (0, 31),
    "maxParallelImagePulls": (1, _NO_MAXIMUM),
    "nodeStatusMaxImages": (-1, _NO_MAXIMUM),
    "oomScoreAdj": (-1000, 1000),
    "port": _PORTS,
    "readOnlyPort": _PORTS,
    **dict.fromkeys(("eventBurst", "eventRecordQPS", "kubeAPIBurst", "kubeAPIQPS", "maxOpenFiles"), _NOT_NEGATIVE),
    **dict.fromkeys(("nodeLeaseDurationSeconds", "registryBurst", "registryPullQPS"), _NOT_NEGATIVE),
}
"""Number in the kubelet's configuration → its least and largest value (pkg/kubelet/apis/config/validation, 1.37)."""

_THRESHOLDS: Final = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
_HIGH_THRESHOLD, _LOW_THRESHOLD = 85, 80
"""The kubelet's defaults in percent, from and down to which it removes images."""

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "cpuManagerPolicy": ("none", "static"),
    "hairpinMode": ("none", "hairpin-veth", "promiscuous-bridge"),
    "memoryManagerPolicy": ("None", "Static"),
    "topologyManagerPolicy": ("none", "best-effort", "restricted", "single-numa-node"),
    "topologyManagerScope": ("container", "pod"),
}
"""Text in the kubelet's configuration → what it may be; empty means the default."""


def _of_kubelet(node_class: EC2NodeClass) -> Iterator[LaunchProblem]:
    block: Mapping[str, Any] = node_class.spec.kubelet
    if isinstance(block.get("maxPods"), str):
        yield LaunchProblem("spec.kubelet.maxPods", "must be a number, expressions are not evaluated")
    elif block.get("maxPods") == 0:
        problem = "leaves no place for a pod on any node: none is launched for one"
        yield LaunchProblem("spec.kubelet.maxPods", problem, is_certain=False)
    yield from _of_kubelet_values(block)
    yield from _of_kubelet_amounts(block)
    addresses = block.get("clusterDNS")
    for index, address in enumerate(addresses if isinstance(addresses, list | tuple) else ()):
        if not _is_address(str(address)):
            problem = f"{address!r} is not an address: pods of its nodes would not use it"
            yield LaunchProblem(f"spec.kubelet.clusterDNS[{index}]", problem, is_certain=False)


def _of_kubelet_amounts(block: Mapping[str, Any]) -> Iterator[LaunchProblem]:
    for setting in _RESERVED:
        for name, amount in sorted(_entries(block, setting)):
            if not _is_quantity(amount):
                yield LaunchProblem(f"spec.kubelet.{setting}.{name}", f"{amount!r} is no quantity such as 100m or 1Gi")
    for setting in ("evictionHard", "evictionSoft", "evictionMinimumReclaim"):
        for name, amount in sorted(_entries(block, setting)):
            if not _PERCENT.fullmatch(str(amount)) and not _is_quantity(amount):
                problem = f"{amount!r} is neither a quantity such as 100Mi nor a percentage such as 10%"
                yield LaunchProblem(f"spec.kubelet.{setting}.{name}", problem)
    for name, span in sorted(_entries(block, "evictionSoftGracePeriod")):
        if quantity.parse_duration(str(span)) is None:
            yield LaunchProblem(
                f"spec.kubelet.evictionSoftGracePeriod.{name}", f"{span!r} is no duration such as 1m30s"
            )


def _of_kubelet_values(block: Mapping[str, Any]) -> Iterator[LaunchProblem]:
    for name, value in sorted(block.items()):
        least, most = _RANGES.get(name, (value, value))
        if isinstance(value, int) and not least <= value <= most:
            bound = f"less than {least}" if value < least else f"more than {most}"
            yield LaunchProblem(f"spec.kubelet.{name}", f"{value} is {bound}: the kubelet would not start")
        choices = _CHOICES.get(name, ())
        if choices and value not in ("", *choices):
            problem = f"{value!r} is none of {', '.join(choices)}: the kubelet would not start"
            yield LaunchProblem(f"spec.kubelet.{name}", problem)
    low = block.get("imageGCLowThresholdPercent", _LOW_THRESHOLD)
    if low >= block.get("imageGCHighThresholdPercent", _HIGH_THRESHOLD):
        field = next(name for name in _THRESHOLDS if name in block)
        problem = f"must leave the high threshold (by default {_HIGH_THRESHOLD}) above the low one ({_LOW_THRESHOLD})"
        yield LaunchProblem(f"spec.kubelet.{field}", f"{problem}: the kubelet would not start")
    pulls = block.get("maxParallelImagePulls")
    if block.get("serializeImagePulls") is True and isinstance(pulls, int) and pulls > 1:
        problem = "cannot be true beside maxParallelImagePulls above 1: the kubelet would not start"
        yield LaunchProblem("spec.kubelet.serializeImagePulls", problem)
    if block.get("systemCgroups") and not block.get("cgroupRoot"):
        yield LaunchProblem("spec.kubelet.systemCgroups", "needs cgroupRoot: the kubelet would not start without it")


def _entries(block: Mapping[str, Any], setting: str) -> list[tuple[str, Any]]:
    written = block.get(setting)
    return [(str(key), value) for key, value in written.items()] if isinstance(written, Mapping) else []


def _is_address(text: str) -> bool:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_quantity(amount: object) -> bool:
    try:
        quantity.parse(str(amount))
    except InvalidInputError:
        return False
    return True


# Volumes that EC2 refuses.


class _VolumeType(msgspec.Struct, frozen=True):
    """The bounds of one type of volume, in GiB, IOPS and MiB/s; None where EC2 takes no such field."""

    sizes: tuple[int, int]
    iops: tuple[int, int] | None = None
    iops_per_gib: int = 0
    throughput: tuple[int, int] | None = None
    boots: bool = True


_VOLUME_TYPES: Final[Mapping[str, _VolumeType]] = {
    "gp2": _VolumeType((1, 16_384)),
    "gp3": _VolumeType((1, 65_536), (3_000, 80_000), 500, (125, 2_000)),
    "io1": _VolumeType((4, 16_384), (100, 64_000), 50),
    "io2": _VolumeType((4, 65_536), (100, 256_000), 1_000),
    "sc1": _VolumeType((125, 16_384), boots=False),
    "st1": _VolumeType((125, 16_384), boots=False),
    "standard": _VolumeType((1, 1_024)),
}
_GP3_BASE: Final = 3_000
"""IOPS that a gp3 volume has without asking."""
_IOPS_PER_MIBPS: Final = 4
"""A gp3 volume has at most a quarter MiB/s for each of its IOPS."""


def _of_devices(node_class: EC2NodeClass) -> Iterator[LaunchProblem]:
    devices = node_class.spec.block_device_mappings
    first: dict[str, int] = {}
    for index, device in enumerate(devices):
        place = f"spec.blockDeviceMappings[{index}]"
        mapped_by = first.setdefault(device.device_name, index)
        if device.device_name and mapped_by != index:
            problem = f"{device.device_name} is mapped by entry {mapped_by} already, and EC2 takes a device once"
            yield LaunchProblem(f"{place}.deviceName", problem)
        if device.ebs is not None:
            yield from _of_volume(f"{place}.ebs", device.ebs, device)


def _of_volume(place: str, ebs: Ebs, device: BlockDevice) -> Iterator[LaunchProblem]:
    if ebs.kms_key_id and ebs.encrypted is not True:
        yield LaunchProblem(f"{place}.kmsKeyID", "EC2 takes a key only with encrypted: true")
    bounds = _VOLUME_TYPES.get(ebs.volume_type or "")
    if bounds is None:
        return
    size = _gib(ebs)
    if size is not None:
        yield from _within(f"{place}.volumeSize", size, bounds.sizes, f"GiB for a volume of type {ebs.volume_type}")
    if bounds.iops is not None and ebs.iops:
        yield from _within(f"{place}.iops", ebs.iops, bounds.iops, f"IOPS for a volume of type {ebs.volume_type}")
        above_base = ebs.volume_type != "gp3" or ebs.iops > _GP3_BASE
        if size and above_base and ebs.iops > bounds.iops_per_gib * size:
            problem = f"{ebs.iops} IOPS are more than {bounds.iops_per_gib} for each of the volume's {size} GiB"
            yield LaunchProblem(f"{place}.iops", problem, is_certain=False)
    if bounds.throughput is not None and ebs.throughput:
        yield from _within(f"{place}.throughput", ebs.throughput, bounds.throughput, "MiB/s for a volume of type gp3")
        iops = ebs.iops or _GP3_BASE
        if _IOPS_PER_MIBPS * ebs.throughput > iops:
            problem = f"{ebs.throughput} MiB/s need {_IOPS_PER_MIBPS * ebs.throughput} IOPS, the volume has {iops}"
            yield LaunchProblem(f"{place}.throughput", problem, is_certain=False)
    if device.root_volume and not bounds.boots:
        yield LaunchProblem(f"{place}.volumeType", f"no instance boots from a volume of type {ebs.volume_type}")


def _within(field: str, amount: int, bounds: tuple[int, int], unit: str) -> Iterator[LaunchProblem]:
    low, high = bounds
    if not low <= amount <= high:
        yield LaunchProblem(field, f"{amount} is not between {low} and {high} {unit}", is_certain=amount < low)


def _gib(ebs: Ebs) -> int | None:
    if ebs.volume_size is None:
        return None
    try:
        return -(-quantity.parse(str(ebs.volume_size)) // _GIB)
    except InvalidInputError:
        return None


# Tags that EC2 refuses.


def _of_tags(tags: Mapping[str, str]) -> Iterator[LaunchProblem]:
    for key, value in sorted(labels.without_own(dict(tags)).items()):
        place = f"spec.tags[{key}]" if "." in key or "/" in key else f"spec.tags.{key}"
        if key.lower().startswith(_AWS):
            yield LaunchProblem(place, "AWS keeps keys that begin with aws: to itself")
        elif len(key) > TAG_KEY_MAX:
            yield LaunchProblem(place, f"its key has {len(key)} characters, and EC2 takes {TAG_KEY_MAX}")
        if len(value) > TAG_VALUE_MAX:
            yield LaunchProblem(place, f"its value has {len(value)} characters, and EC2 takes {TAG_VALUE_MAX}")
