"""Says beforehand why a launch from an EC2NodeClass would be refused: by our own rendering, by EC2, or by the kubelet.

`validate`, the class's readiness, `plan` and the launch itself all ask `launch_problems`, so that none of them learns it later
than another. Sources of the rules on values: the EC2 API reference (EbsBlockDevice, error codes) and user guide (tag
restrictions, user data, EBS volume types), and the kubelet's own reading of its configuration (cmd/kubelet/app/server.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from core import labels
from core.ami_families.bootstrap import Cluster, registered_labels, registered_taints
from core.catalogue.kubelet import sizing_of
from core.catalogue.node_class import BlockDevice, Ebs, EC2NodeClass
from core.errors import InvalidInputError
from core.launch.request import bootstrap_of
from core.launch.template import block_device_mappings
from core.model.values import quantity
from core.model.values.quotas import SizingSettings

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
    """

    field: str
    problem: str
    is_certain: bool = True


def launch_problems(node_class: EC2NodeClass, cluster: Cluster = STAND_IN) -> tuple[LaunchProblem, ...]:
    """Return every reason for which launches from a class are refused, whichever NodePool they are for."""
    return (
        *_of_rendering(node_class, cluster),
        *_of_kubelet(node_class),
        *_of_devices(node_class),
        *_of_tags(node_class.spec.tags),
    )


def first_certain(problems: Iterable[LaunchProblem]) -> LaunchProblem | None:
    """Return the first problem for which no launch can succeed, None without any."""
    return next((problem for problem in problems if problem.is_certain), None)


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


def _of_kubelet(node_class: EC2NodeClass) -> Iterator[LaunchProblem]:
    block: Mapping[str, Any] = node_class.spec.kubelet
    if isinstance(block.get("maxPods"), str):
        yield LaunchProblem("spec.kubelet.maxPods", "must be a number, expressions are not evaluated")
    addresses = block.get("clusterDNS")
    for index, address in enumerate(addresses if isinstance(addresses, list | tuple) else ()):
        if not _is_address(str(address)):
            problem = f"{address!r} is not an address: pods of its nodes would not use it"
            yield LaunchProblem(f"spec.kubelet.clusterDNS[{index}]", problem, is_certain=False)
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
        known = first.setdefault(device.device_name, index)
        if device.device_name and known != index:
            problem = f"{device.device_name} is mapped by entry {known} already, and EC2 takes a device once"
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
