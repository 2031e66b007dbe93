"""The kubelet settings of an EC2NodeClass that change how much of a node pods can use."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from core.ami_families.al2023 import AL2023
from core.ami_families.family import AmiFamily
from core.catalogue.node_class import RAID0, BlockDevice, EC2NodeClass, NetworkInterface, PlacementGroup
from core.catalogue.node_memory import discovered_memory, placement_group_of
from core.errors import InvalidInputError
from core.model.values import quantity
from core.model.values.quotas import SizingSettings
from core.model.values.requirements import shown

RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")


class Threshold(msgspec.Struct, frozen=True):
    """An eviction threshold: an absolute amount, or a share of capacity in parts per million."""

    amount: int = 0
    share_ppm: int | None = None

    def of(self, capacity: int) -> int:
        """Return the amount that it reserves of `capacity`; exactly 100 % means that the threshold is off (Kubernetes)."""
        if self.share_ppm is None:
            return self.amount
        return 0 if self.share_ppm == 1_000_000 else -(-capacity * self.share_ppm // 1_000_000)


class KubeletSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `spec.kubelet` that size a node; None and missing names mean the default.

    Expressions are ignored, as in Karpenter without the gate NodeClassCEL, which is off by default.
    """

    max_pods: int | None = None
    pods_per_core: int = 0
    kube_reserved: tuple[tuple[str, int], ...] = ()
    system_reserved: tuple[tuple[str, int], ...] = ()
    eviction_memory: Threshold | None = None
    eviction_storage: Threshold | None = None


def read_kubelet(block: Mapping[str, Any]) -> KubeletSettings:
    """Read the block.

    Raises:
        InvalidInputError: If a setting that sizes nodes has the wrong type or sign.
    """
    hard = _mapping(block, "evictionHard")
    return KubeletSettings(
        max_pods=None if isinstance(block.get("maxPods"), str) else _count(block, "maxPods"),
        pods_per_core=_count(block, "podsPerCore") or 0,
        kube_reserved=_reserved(block, "kubeReserved"),
        system_reserved=_reserved(block, "systemReserved"),
        eviction_memory=_threshold(hard, "memory.available", quantity.MEMORY),
        eviction_storage=_threshold(hard, "nodefs.available", quantity.EPHEMERAL_STORAGE),
    )


def expressions(block: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings written as expressions: no kubelet understands them, so nodes of the class would not start."""
    reserved = [
        f"{name}.{resource}"
        for name in ("kubeReserved", "systemReserved")
        for resource, text in sorted(_mapping(block, name).items())
        if _amount(text, resource) is None
    ]
    return (*(["maxPods"] if isinstance(block.get("maxPods"), str) else []), *reserved)


def _amount(text: str, resource: str) -> int | None:
    try:
        return quantity.parse(text, resource)
    except InvalidInputError:
        return None


def _count(block: Mapping[str, Any], name: str) -> int | None:
    value = block.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInputError(f"{value!r} is not a whole number of zero or more", field=f"spec.kubelet.{name}")
    return value


def _mapping(block: Mapping[str, Any], name: str) -> dict[str, str]:
    value = block.get(name) or {}
    if not isinstance(value, dict):
        raise InvalidInputError(f"{value!r} is not a mapping", field=f"spec.kubelet.{name}")
    return {str(key): str(inner) for key, inner in value.items()}


def _reserved(block: Mapping[str, Any], name: str) -> tuple[tuple[str, int], ...]:
    kept = []
    for resource, text in sorted(_mapping(block, name).items()):
        if resource not in RESERVABLE:
            raise InvalidInputError(
                f"{resource} cannot be reserved, only {', '.join(RESERVABLE)}", field=f"spec.kubelet.{name}"
            )
        amount = _amount(text, resource)
        if amount is None:
            continue  # an expression, which has no effect while Karpenter's gate NodeClassCEL is off
        if amount < 0:
            raise InvalidInputError(f"{text!r} is negative", field=f"spec.kubelet.{name}.{resource}")
        kept.append((resource, amount))
    return tuple(kept)


def _threshold(hard: Mapping[str, str], signal: str, resource: str) -> Threshold | None:
    text, field = hard.get(signal), f"spec.kubelet.evictionHard.{signal}"
    if text is None:
        return None
    if not text.endswith("%"):
        return Threshold(quantity.parse(text, resource))
    try:
        percent = Decimal(text[:-1])
    except InvalidOperation as error:
        raise InvalidInputError(f"{shown(text)} is not a percentage", field=field) from error
    if not percent.is_finite() or not 0 <= percent <= 100:  # the kubelet does not start with others
        raise InvalidInputError(f"{shown(text)} is not between 0% and 100%", field=field)
    return Threshold(share_ppm=int(percent * 10_000))


# Everything besides the shape itself that determines how large a node is: settings and one EC2NodeClass.


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that determines the size of a class's nodes. Equal sizings give equal instance types.

    Attributes:
        zones: Zones where it may launch. Empty means everywhere: its subnets are not resolved yet.
        delegates_prefixes: Whether each of an interface's addresses for pods is a prefix of addresses.
        discovered: Instance type → memory in MiB that nodes of this class reported, by type.
        placement_group: The group that its nodes are launched into.
        needs_nitro: Whether it sets something that only the Nitro hypervisor supports.
        encrypts: Whether a volume is encrypted, which some old types do not support.
    """

    family: AmiFamily = AL2023
    kubelet: KubeletSettings = KubeletSettings()
    root_volumes: int = 1
    ephemeral_bytes: int = 20 * 2**30
    uses_instance_store: bool = False
    interfaces: tuple[NetworkInterface, ...] = ()
    efa_only_interfaces: int = 0
    zones: tuple[str, ...] = ()
    nested_virtualization: bool = False
    enclaves: bool = False
    needs_nitro: bool = False
    encrypts: bool = True
    delegates_prefixes: bool = False
    placement_group: PlacementGroup | None = None
    discovered: tuple[tuple[str, int], ...] = ()
    settings: SizingSettings = SizingSettings()


def sizing_of(node_class: EC2NodeClass, settings: SizingSettings) -> Sizing:
    """The sizing of an EC2NodeClass.

    Raises:
        InvalidInputError: If its kubelet block or a volume size cannot be read.
    """
    spec, family = node_class.spec, node_class.family
    try:
        kubelet, ephemeral = read_kubelet(spec.kubelet), _ephemeral_bytes(spec.block_device_mappings, family)
    except InvalidInputError as error:
        raise error.within(subject=f"EC2NodeClass {node_class.name}") from error
    return Sizing(
        family=family,
        kubelet=kubelet,
        root_volumes=len(spec.block_device_mappings) or len(family.default_volumes) or 1,
        ephemeral_bytes=ephemeral,
        uses_instance_store=spec.instance_store_policy == RAID0,
        interfaces=spec.network_interfaces,
        efa_only_interfaces=spec.efa_only_interfaces,
        zones=node_class.zones,
        nested_virtualization=spec.cpu_options is not None and spec.cpu_options.nested_virtualization == "enabled",
        enclaves=spec.has_enclaves,
        needs_nitro=spec.connection_tracking is not None,
        encrypts=_encrypts(spec.block_device_mappings, family),
        delegates_prefixes=node_class.delegates_prefixes,
        placement_group=placement_group_of(node_class),
        discovered=discovered_memory(node_class),
        settings=settings,
    )


def _encrypts(devices: tuple[BlockDevice, ...], family: AmiFamily) -> bool:
    """Whether a node has an encrypted volume: one of the class's own, else the family's, which all are."""
    if devices:
        return any(device.ebs is not None and bool(device.ebs.encrypted) for device in devices)
    return bool(family.default_volumes)


def volume_bytes(device: BlockDevice) -> int | None:
    """Size of an EBS volume, None where the mapping names none.

    Raises:
        InvalidInputError: If it is not a quantity.
    """
    if device.ebs is None or device.ebs.volume_size is None:
        return None
    try:
        return quantity.parse(str(device.ebs.volume_size), quantity.EPHEMERAL_STORAGE)
    except InvalidInputError as error:
        raise InvalidInputError(error.problem, field="spec.blockDeviceMappings.ebs.volumeSize") from error


def _ephemeral_bytes(devices: tuple[BlockDevice, ...], family: AmiFamily) -> int:
    """Return the size of the volume with pods' ephemeral storage (Karpenter): the root volume, or the family's own device."""
    sizes = [(device, volume_bytes(device)) for device in devices]
    for device, size in sizes:
        if device.root_volume and size is not None:
            return size
    if sizes and not family.ephemeral_device:
        last = sizes[-1][1]
        return family.default_ephemeral_bytes if last is None else last
    for device, size in sizes:
        if device.device_name == family.ephemeral_device and size is not None:
            return size
    return family.default_ephemeral_bytes
