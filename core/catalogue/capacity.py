"""Computes how much capacity a node of a shape has: Karpenter's formulas, in whole numbers."""

from __future__ import annotations

from typing import Final

from core.catalogue.branch_interfaces import POD_ENI, branch_interfaces
from core.catalogue.shape import Shape
from core.catalogue.sizing import Sizing
from core.model.values import quantity
from core.model.values.quantity import MIB, PPM

DEFAULT_PODS: Final = 110
"""Pods where interface addresses set no limit: Kubernetes' own recommendation, used for Windows."""

HOST_PODS: Final = 2
"""Pods in the host's network, which need no address: kube-proxy and the VPC CNI."""

ADDRESSES_OF_A_PREFIX: Final = 16
"""Of an IPv4 prefix, a /28 (EC2)."""

_SMALL_VCPUS: Final = 30
_PODS_OF_SMALL: Final = 110
_PODS_OF_LARGE: Final = 250
"""The most pods up to this many vCPUs, and above it (EKS, max-pods-calculator)."""

_GPU_RESOURCES: Final = {"NVIDIA": quantity.NVIDIA_GPU, "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}
_ARM_FIRMWARE_MIB: Final = 64
NEURON: Final = "aws.amazon.com/neuron"
NEURON_CORE: Final = "aws.amazon.com/neuroncore"
EFA: Final = "vpc.amazonaws.com/efa"
PRIVATE_ADDRESSES: Final = "vpc.amazonaws.com/PrivateIPv4Address"
"""The resource of the addresses that Windows pods take one by one; only Windows nodes offer it."""


def capacity(shape: Shape, sizing: Sizing) -> dict[str, int]:
    """Return the capacity that the node registers with; resources that it lacks are left out."""
    amounts = {
        quantity.CPU: shape.v_cpu_info.default_v_cpus * 1000,
        quantity.MEMORY: memory_mib(shape, sizing) * MIB,
        quantity.EPHEMERAL_STORAGE: _ephemeral_storage(shape, sizing),
        quantity.PODS: pod_count(shape, sizing),
    }
    family = sizing.family
    devices = {
        **_gpus(shape),
        **_neuron(shape),
        EFA: _efa(shape, sizing),
        POD_ENI: branch_interfaces(shape.instance_type),
    }
    if family.offers_private_addresses and family.boots(shape.instance_type, shape.architecture):
        devices[PRIVATE_ADDRESSES] = shape.network_info.ipv4_addresses_per_interface - 1
    return amounts | {name: count for name, count in sorted(devices.items()) if count}


def memory_mib(shape: Shape, sizing: Sizing) -> int:
    """Return the memory that the operating system sees: as nodes reported it, else the sold memory less the hypervisor's share.

    On arm64, firmware takes another 64 MiB. A report below half or above all of the sold memory is from a faulty node
    and is ignored.
    """
    total = shape.memory_info.size_in_mib
    shown = dict(sizing.discovered).get(shape.instance_type, 0)
    if total // 2 <= shown <= total:
        return shown
    if shape.architecture == "arm64":
        total -= _ARM_FIRMWARE_MIB
    return total - -(-total * sizing.settings.vm_memory_overhead_ppm // PPM)


def pod_count(shape: Shape, sizing: Sizing) -> int:
    """How many pods the kubelet admits."""
    kubelet, family = sizing.kubelet, sizing.family
    if kubelet.max_pods is not None:
        count = kubelet.max_pods
    elif family.eni_limited_pods and sizing.delegates_prefixes and (shape.hypervisor == "nitro" or shape.bare_metal):
        count = prefix_pods(shape, sizing)
    elif family.eni_limited_pods:
        count = interface_pods(shape, sizing, reserved_enis=sizing.settings.reserved_enis)
    else:
        count = DEFAULT_PODS
    if kubelet.pods_per_core and family.supports_kubelet_field("podsPerCore"):
        count = min(count, kubelet.pods_per_core * shape.v_cpu_info.default_v_cpus)
    return count


def interface_pods(shape: Shape, sizing: Sizing, *, reserved_enis: int) -> int:
    """Return how many pods the network interfaces have addresses for (AWS VPC CNI without prefix delegation).

    Each interface keeps one address for itself; two pods use the host's network.
    """
    addresses = _pod_addresses(shape, sizing, reserved_enis=reserved_enis)
    return addresses + HOST_PODS if addresses else 0


def prefix_pods(shape: Shape, sizing: Sizing) -> int:
    """Return the number of pods with prefix delegation: one prefix per address, up to the limit of EKS' script."""
    addresses = _pod_addresses(shape, sizing, reserved_enis=sizing.settings.reserved_enis)
    is_small = shape.v_cpu_info.default_v_cpus <= _SMALL_VCPUS
    return (
        min(addresses * ADDRESSES_OF_A_PREFIX + HOST_PODS, _PODS_OF_SMALL if is_small else _PODS_OF_LARGE)
        if addresses
        else 0
    )


def _pod_addresses(shape: Shape, sizing: Sizing, *, reserved_enis: int) -> int:
    """Return how many addresses, or prefixes, the interfaces have besides their own."""
    on_first_card = sum(i.interface_type == "efa-only" and i.network_card_index == 0 for i in sizing.interfaces)
    usable = shape.network_info.default_card.maximum_network_interfaces - reserved_enis - on_first_card
    return max(0, usable) * (shape.network_info.ipv4_addresses_per_interface - 1)


def attach_limit(shape: Shape, sizing: Sizing) -> int | None:
    """Return how many EBS volumes can be attached besides the node's own, None if EC2 does not report it.

    Where network interfaces share the limit, one more interface is subtracted: the VPC CNI attaches a second one as
    soon as the node starts. For most types this yields 25, as the EBS CSI driver has long reported.
    """
    limit = shape.ebs_info.maximum_ebs_attachments
    if not limit:
        return None
    shared = shape.ebs_info.attachment_limit_type == "shared"
    warm_interface = 1 if shared and shape.network_info.default_card.maximum_network_interfaces > 1 else 0
    return max(0, limit - warm_interface - sizing.root_volumes)


def _ephemeral_storage(shape: Shape, sizing: Sizing) -> int:
    store = shape.instance_storage_info
    if sizing.uses_instance_store and store is not None and store.total_size_in_gb:
        return store.total_size_in_gb * 10**9
    return sizing.ephemeral_bytes


def _gpus(shape: Shape) -> dict[str, int]:
    counts: dict[str, int] = {}
    for gpu in shape.gpu_info.gpus if shape.gpu_info else ():
        resource = _GPU_RESOURCES.get(gpu.manufacturer)
        if resource:
            counts[resource] = counts.get(resource, 0) + gpu.count
    return counts


def _neuron(shape: Shape) -> dict[str, int]:
    devices = shape.neuron_info.neuron_devices if shape.neuron_info else ()
    if not devices:
        return {}
    cores = devices[0].core_info.count if devices[0].core_info else 0
    return {NEURON: sum(device.count for device in devices), NEURON_CORE: devices[0].count * cores}


def _efa(shape: Shape, sizing: Sizing) -> int:
    if sizing.interfaces:
        return sizing.efa_only_interfaces
    efa = shape.network_info.efa_info
    return efa.maximum_efa_interfaces if efa else 0
