"""EC2's description of an instance type (`DescribeInstanceTypes`), reduced to what we read.

Field names on the wire are EC2's own, so a description decodes into a `Shape` and a `Shape` encodes into a description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError

ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
"""EC2's name of an architecture to Kubernetes' name."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="pascal", omit_defaults=True):
    """Base of the wire formats: unknown fields are ignored, fields at their default are omitted."""


class Processor(_Wire, frozen=True, kw_only=True):
    """`ProcessorInfo`."""

    manufacturer: str = ""
    supported_architectures: tuple[str, ...] = ()
    supported_features: tuple[str, ...] = ()
    sustained_clock_speed_in_ghz: float = 0.0


class VCpus(_Wire, frozen=True, kw_only=True):
    """`VCpuInfo`."""

    default_v_cpus: int


class MemoryInfo(_Wire, frozen=True, kw_only=True):
    """`MemoryInfo`, of a type or of one GPU."""

    size_in_mib: int = msgspec.field(name="SizeInMiB")


class NetworkCard(_Wire, frozen=True, kw_only=True):
    """One entry of `NetworkInfo.NetworkCards`."""

    network_card_index: int = 0
    maximum_network_interfaces: int = 0
    baseline_bandwidth_in_gbps: float = 0.0


class Efa(_Wire, frozen=True, kw_only=True):
    """`NetworkInfo.EfaInfo`."""

    maximum_efa_interfaces: int = 0


class NetworkInfo(_Wire, frozen=True, kw_only=True):
    """`NetworkInfo`."""

    default_network_card_index: int = 0
    maximum_network_interfaces: int = 0
    ipv4_addresses_per_interface: int = 0
    ena_support: str = ""
    encryption_in_transit_supported: bool = False
    network_performance: str = ""
    efa_info: Efa | None = None
    network_cards: tuple[NetworkCard, ...] = ()

    @property
    def default_card(self) -> NetworkCard:
        """The card that pods' addresses come from; on types with several cards only its interfaces count."""
        for card in self.network_cards:
            if card.network_card_index == self.default_network_card_index:
                return card
        return NetworkCard(maximum_network_interfaces=self.maximum_network_interfaces)


class InstanceStorage(_Wire, frozen=True, kw_only=True):
    """`InstanceStorageInfo`; sizes are decimal gigabytes."""

    total_size_in_gb: int = msgspec.field(name="TotalSizeInGB", default=0)
    nvme_support: str = "unsupported"


class EbsBandwidth(_Wire, frozen=True, kw_only=True):
    """`EbsInfo.EbsOptimizedInfo`."""

    maximum_bandwidth_in_mbps: int = 0


class EbsInfo(_Wire, frozen=True, kw_only=True):
    """`EbsInfo`. A `shared` attachment limit is shared with network interfaces."""

    ebs_optimized_support: str = ""
    ebs_optimized_info: EbsBandwidth | None = None
    attachment_limit_type: str = ""
    maximum_ebs_attachments: int = 0


class Gpu(_Wire, frozen=True, kw_only=True):
    """One entry of `GpuInfo.Gpus`; the memory is that of one GPU."""

    name: str = ""
    manufacturer: str = ""
    count: int = 0
    memory_info: MemoryInfo | None = None


class Gpus(_Wire, frozen=True, kw_only=True):
    """`GpuInfo`."""

    gpus: tuple[Gpu, ...] = ()


class Accelerator(_Wire, frozen=True, kw_only=True):
    """One entry of `InferenceAcceleratorInfo.Accelerators`."""

    name: str = ""
    manufacturer: str = ""
    count: int = 0


class Accelerators(_Wire, frozen=True, kw_only=True):
    """`InferenceAcceleratorInfo`."""

    accelerators: tuple[Accelerator, ...] = ()


class NeuronCores(_Wire, frozen=True, kw_only=True):
    """`NeuronDevices[].CoreInfo`."""

    count: int = 0


class NeuronDevice(_Wire, frozen=True, kw_only=True):
    """One entry of `NeuronInfo.NeuronDevices`."""

    name: str = ""
    count: int = 0
    core_info: NeuronCores | None = None


class Neuron(_Wire, frozen=True, kw_only=True):
    """`NeuronInfo`."""

    neuron_devices: tuple[NeuronDevice, ...] = ()


class PlacementGroupInfo(_Wire, frozen=True, kw_only=True):
    """`PlacementGroupInfo`."""

    supported_strategies: tuple[str, ...] = ()


class Shape(_Wire, frozen=True, kw_only=True):
    """One instance type as EC2 describes it."""

    instance_type: str
    processor_info: Processor
    v_cpu_info: VCpus
    memory_info: MemoryInfo
    network_info: NetworkInfo
    supported_usage_classes: tuple[str, ...] = ()
    supported_virtualization_types: tuple[str, ...] = ()
    hypervisor: str = ""
    bare_metal: bool = False
    ebs_info: EbsInfo = EbsInfo()
    instance_storage_info: InstanceStorage | None = None
    gpu_info: Gpus | None = None
    inference_accelerator_info: Accelerators | None = None
    neuron_info: Neuron | None = None
    nitro_enclaves_support: str = ""
    placement_group_info: PlacementGroupInfo = PlacementGroupInfo()

    @property
    def architecture(self) -> str:
        """The first architecture that Kubernetes has a name for, or empty (macOS types)."""
        known = (ARCHITECTURES.get(name, "") for name in self.processor_info.supported_architectures)
        return next((name for name in known if name), "")

    @property
    def can_run_nodes(self) -> bool:
        """Whether it can run EKS nodes: hardware virtualisation, amd64 or arm64 (Karpenter's filter)."""
        return bool(self.architecture) and "hvm" in self.supported_virtualization_types


def read_shape(description: Mapping[str, Any]) -> Shape:
    """Trim one entry of DescribeInstanceTypes.

    Raises:
        InvalidInputError: If the description lacks a field that sizes a node.
    """
    try:
        return msgspec.convert({k: v for k, v in description.items() if v is not None}, Shape)
    except msgspec.ValidationError as error:
        raise InvalidInputError(str(error), subject=f"instance type {description.get('InstanceType', '?')}") from error
