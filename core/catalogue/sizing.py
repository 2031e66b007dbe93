"""Everything besides the shape itself that determines how large a node is: settings and one EC2NodeClass."""

from __future__ import annotations

import msgspec

from core.ami_families.al2023 import AL2023
from core.ami_families.family import AmiFamily
from core.catalogue.discovered.node_memory import discovered_memory
from core.catalogue.discovered.placement_group import placement_group_of
from core.catalogue.kubelet import KubeletSettings, read_kubelet
from core.catalogue.node_class import RAID0, BlockDevice, EC2NodeClass, NetworkInterface, PlacementGroup
from core.errors import InvalidInputError
from core.model.values import quantity
from core.model.values.sizing_settings import SizingSettings


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that determines the size of a class's nodes. Equal sizings give equal instance types.

    Attributes:
        zones: Zones where it may launch; empty where its subnets are not resolved, which means everywhere.
        delegates_prefixes: Whether each of an interface's addresses for pods is a prefix of addresses.
        discovered: Instance type → memory in MiB that nodes of this class reported, by type.
        placement_group: The group that its nodes are launched into.
        needs_nitro: Whether it sets something that only the Nitro hypervisor supports.
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
    needs_nitro: bool = False
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
        needs_nitro=spec.connection_tracking is not None,
        delegates_prefixes=node_class.delegates_prefixes,
        placement_group=placement_group_of(node_class),
        discovered=discovered_memory(node_class),
        settings=settings,
    )


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
