"""Computes how much capacity a node of a shape has: Karpenter's formulas, in whole numbers."""

from __future__ import annotations

from functools import cache
from typing import Final

from core.catalogue.document import Shape
from core.catalogue.kubelet import Sizing
from core.model.values import quantity
from core.model.values.quantity import MIB, PPM

# How many pods with security groups of their own a type can run, which the VPC resource controller's branch interfaces limit.
#
# EC2's API does not report them; these are the controller's published limits of August 2026, which Karpenter 1.15 has, too. A
# type that is not listed supports none.


POD_ENI: Final = "vpc.amazonaws.com/pod-eni"

_TABLE: Final = """
c6g c6gd c7g c7gd c7gn m6g m6gd m7g m7gd r6g r6gd r7g r7gd :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 metal=107
c8ib c8in m8ib m8idb m8idn m8in r8ib r8idb r8idn r8in :
    large=8 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=110 16xlarge=106 24xlarge=106 32xlarge=106 48xlarge=98
    96xlarge=98 metal-48xl=98 metal-96xl=98
mac-m3ultra mac-m4 mac-m4max mac-m4pro mac1 mac2 mac2-m1ultra mac2-m2 mac2-m2pro :
    metal=6
c8g c8gd m8g m8gd r8g r8gd x8g :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 24xlarge=107 48xlarge=107
    metal-24xl=107 metal-48xl=107
m5d m5dn m5n r5b r5d r5dn r5n :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 24xlarge=107 metal=107
c5a c5ad m5a m5ad r5a r5ad :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 24xlarge=107
c6i c6id m6i m6id r6i r6id :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107 32xlarge=107 metal=107
c8gb c8gn m8gb m8gn r8gb r8gn :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=52 12xlarge=50 16xlarge=106 24xlarge=98 48xlarge=98
    metal-24xl=98 metal-48xl=98
c8i c8id m8i m8id r8i r8id :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=82 12xlarge=110 16xlarge=106 24xlarge=106 32xlarge=98 48xlarge=98
    96xlarge=98 metal-48xl=98 metal-96xl=98
c6in m6idn m6in r6idn r6in :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107 32xlarge=106 metal=106
c9g c9gd m9g m9gd :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=52 12xlarge=50 16xlarge=106 24xlarge=98 48xlarge=98
    metal-48xl=98
p5e p5en p6-b200 p6-b300 :
    48xlarge=120
c6a m6a r6a :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107 32xlarge=107 48xlarge=107
    metal=107
c7a m7a r7a :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107 32xlarge=107
    48xlarge=107 metal-48xl=107
c8a m8a r8a :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=82 12xlarge=110 16xlarge=106 24xlarge=106 48xlarge=98
    metal-24xl=106 metal-48xl=98
c8i-flex m8i-flex r8i-flex :
    large=3 xlarge=8 2xlarge=18 4xlarge=34 8xlarge=52 12xlarge=110 16xlarge=106
dl1 p4d p4de :
    24xlarge=62
u7in-16tb u7in-24tb u7in-32tb :
    224xlarge=106
c5 c5d :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 9xlarge=54 12xlarge=54 18xlarge=107 24xlarge=107 metal=107
c7g-flex m7g-flex :
    medium=1 large=3 xlarge=8 2xlarge=18 4xlarge=34 8xlarge=54
c7i-flex m7i-flex :
    large=3 xlarge=8 2xlarge=18 4xlarge=34 8xlarge=54 12xlarge=114 16xlarge=107
c8g-flex m8g-flex :
    medium=1 large=3 xlarge=8 2xlarge=18 4xlarge=34 8xlarge=54 12xlarge=54 16xlarge=47
c8ine m8ine :
    large=8 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=110
dl2q p3dn :
    24xlarge=107
i4g im4gn :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 16xlarge=107
m5 r5 :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 24xlarge=107 metal=120
m7i r7i :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107 48xlarge=107
    metal-24xl=107 metal-48xl=107
u7i-6tb u7i-8tb :
    112xlarge=107
a1 :
    medium=10 large=9 xlarge=18 2xlarge=38 4xlarge=54 metal=54
c5n :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 9xlarge=54 18xlarge=107 metal=107
c6gn :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107
c7i :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107 32xlarge=107 48xlarge=107
    metal-24xl=107 metal-48xl=107
d3 :
    xlarge=42 2xlarge=92 4xlarge=118 8xlarge=119
d3en :
    xlarge=24 2xlarge=58 4xlarge=118 6xlarge=118 8xlarge=118 12xlarge=119
f2 :
    6xlarge=84 12xlarge=114 48xlarge=107
g4ad :
    xlarge=12 2xlarge=12 4xlarge=11 8xlarge=10 16xlarge=6
g4dn :
    xlarge=39 2xlarge=39 4xlarge=59 8xlarge=58 12xlarge=54 16xlarge=118 metal=107
g5 :
    xlarge=4 2xlarge=17 4xlarge=34 8xlarge=84 12xlarge=107 16xlarge=114 24xlarge=107 48xlarge=115
g5g :
    xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 16xlarge=107 metal=107
g6 :
    xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107 48xlarge=107
g6e :
    xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=112 16xlarge=107 24xlarge=102 48xlarge=82
g6f :
    large=10 xlarge=18 2xlarge=38 4xlarge=54
g7 :
    2xlarge=38 4xlarge=54 8xlarge=82 12xlarge=110 24xlarge=98 48xlarge=98
g7e :
    2xlarge=120 4xlarge=120 8xlarge=120 12xlarge=120 24xlarge=120 48xlarge=120
gr6 :
    4xlarge=54 8xlarge=84
gr6f :
    4xlarge=54
hpc7g :
    4xlarge=118 8xlarge=118 16xlarge=118
i3 :
    metal=120
i3en :
    large=5 xlarge=12 2xlarge=28 3xlarge=38 6xlarge=54 12xlarge=54 24xlarge=107 metal=107
i4i :
    large=9 xlarge=6 2xlarge=26 4xlarge=52 8xlarge=112 12xlarge=112 16xlarge=120 24xlarge=105 32xlarge=120 metal=120
i7i :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=84 16xlarge=107 24xlarge=107 48xlarge=107 metal-24xl=107
    metal-48xl=107
i7ie :
    large=19 xlarge=27 2xlarge=27 3xlarge=27 6xlarge=54 12xlarge=54 18xlarge=107 24xlarge=107 48xlarge=107
    metal-24xl=107 metal-48xl=107
i8g :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 24xlarge=107 48xlarge=107 metal-24xl=107
    metal-48xl=107
i8ge :
    large=19 xlarge=27 2xlarge=27 3xlarge=25 6xlarge=52 12xlarge=50 18xlarge=106 24xlarge=106 48xlarge=98 metal-24xl=106
    metal-48xl=98
inf1 :
    xlarge=38 2xlarge=38 6xlarge=54 24xlarge=111
inf2 :
    xlarge=18 8xlarge=84 24xlarge=107 48xlarge=107
is4gen :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54
m5zn :
    large=13 xlarge=29 2xlarge=62 3xlarge=92 6xlarge=114 12xlarge=107 metal=107
m8azn :
    medium=3 large=8 xlarge=18 3xlarge=34 6xlarge=54 12xlarge=106 24xlarge=106 metal-12xl=106 metal-24xl=106
p5 :
    4xlarge=58 48xlarge=120
r7iz :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 32xlarge=107 metal-16xl=107
    metal-32xl=107
trn1 :
    2xlarge=17 32xlarge=82
trn1n :
    32xlarge=120
u-3tb1 :
    56xlarge=6
u7i-12tb :
    224xlarge=107
vt1 :
    3xlarge=38 6xlarge=54 24xlarge=107
x2gd :
    medium=10 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 metal=107
x2idn :
    16xlarge=107 24xlarge=107 32xlarge=107 metal=107
x2iedn :
    xlarge=11 2xlarge=27 4xlarge=54 8xlarge=114 16xlarge=107 24xlarge=107 32xlarge=107 metal=107
x2iezn :
    2xlarge=62 4xlarge=114 6xlarge=114 8xlarge=114 12xlarge=107 metal=107
x8aedz :
    large=8 xlarge=18 3xlarge=34 6xlarge=54 12xlarge=106 24xlarge=106 metal-12xl=106 metal-24xl=106
x8i :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=82 12xlarge=110 16xlarge=106 24xlarge=106 32xlarge=98 48xlarge=98
    64xlarge=98 96xlarge=98 metal-48xl=98 metal-96xl=98
z1d :
    large=13 xlarge=28 2xlarge=58 3xlarge=54 6xlarge=54 12xlarge=107 metal=107
"""
"""Families that share one set of limits, a colon, then size=limit."""


def branch_interfaces(instance_type: str) -> int:
    """Branch interfaces of a type, zero where it has none."""
    family, _, size = instance_type.partition(".")
    return _limits().get(family, {}).get(size, 0)


@cache
def _limits() -> dict[str, dict[str, int]]:
    limits: dict[str, dict[str, int]] = {}
    families: list[str] = []
    sizes: dict[str, int] = {}
    for word in _TABLE.split():
        if "=" in word:
            size, _, count = word.partition("=")
            sizes[size] = int(count)
        elif word == ":":
            sizes = {}
            limits |= dict.fromkeys(families, sizes)
            families = []
        else:
            families.append(word)
    return limits


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
