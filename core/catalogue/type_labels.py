"""The labels that a node carries because of its instance type (`karpenter.k8s.aws/instance-*` and Kubernetes' own)."""

from __future__ import annotations

import re
from typing import Final

from core import labels
from core.ami_families.family import AmiFamily
from core.catalogue.shape import NetworkInfo, Shape

_NAME: Final = re.compile(r"(^[a-z]+)(-[0-9]+tb)?([0-9]+).*\.")
"""Category, memory size (high-memory types) and generation, parsed from the name like Karpenter does."""

_SPEED: Final = re.compile(r"(?P<burst>Up to )?(?:(?P<cards>\d+)x )?(?P<gbps>[\d.]+) Gigabit\Z")


def type_labels(shape: Shape, family: AmiFamily, region: str) -> dict[str, tuple[str, ...]]:
    """Every label but name, zone and capacity type; one that does not apply is left out."""
    single = {
        labels.ARCH: shape.architecture,
        labels.OS: _operating_system(shape, family),
        labels.WINDOWS_BUILD: family.windows_build,
        labels.REGION: region,
        labels.NITRO_SANDBOX: "true" if shape.nitro_enclaves_support == "supported" else "",
        **{
            f"{labels.AWS_GROUP}/instance-{suffix}": value
            for part in (_name(shape), _size(shape), _bandwidth(shape), _gpu(shape), _accelerator(shape))
            for suffix, value in part.items()
        },
    }
    found: dict[str, tuple[str, ...]] = {key: (value,) for key, value in single.items() if value}
    found[f"{labels.AWS_GROUP}/instance-hypervisor"] = (shape.hypervisor,)
    found[labels.TENANCY] = ("dedicated", "default")
    return dict(sorted(found.items()))


def _operating_system(shape: Shape, family: AmiFamily) -> str:
    return family.operating_system if shape.architecture in family.architectures else ""


def _name(shape: Shape) -> dict[str, str]:
    family, _, size = shape.instance_type.partition(".")
    match = _NAME.match(shape.instance_type)
    return {
        "family": family,
        "size": size,
        "category": match.group(1) if match else "",
        "generation": match.group(3) if match else "",
        "capability-flex": "true" if "-flex" in family else "false",
    }


def _size(shape: Shape) -> dict[str, str]:
    store = shape.instance_storage_info
    return {
        "cpu": str(shape.v_cpu_info.default_v_cpus),
        "cpu-manufacturer": _kebab(shape.processor_info.manufacturer),
        "cpu-sustained-clock-speed-mhz": str(round(shape.processor_info.sustained_clock_speed_in_ghz * 1000)),
        "memory": str(shape.memory_info.size_in_mib),
        "local-nvme": str(store.total_size_in_gb) if store and store.nvme_support != "unsupported" else "",
        "encryption-in-transit-supported": str(shape.network_info.encryption_in_transit_supported).lower(),
    }


def _bandwidth(shape: Shape) -> dict[str, str]:
    """Return bandwidths in Mbps; the network's is the sustained one."""
    ebs, network = shape.ebs_info, _network_mbps(shape.network_info)
    optimized = ebs.ebs_optimized_info if ebs.ebs_optimized_support == "default" else None
    return {
        "ebs-bandwidth": str(optimized.maximum_bandwidth_in_mbps) if optimized else "",
        "network-bandwidth": str(network) if network else "",
    }


def _network_mbps(network: NetworkInfo) -> int:
    """Return EC2's figure; for `Up to …` the baseline of all cards; None if EC2 gives no figure (old types)."""
    stated = _SPEED.match(network.network_performance)
    if stated is None:
        return 0
    if stated.group("burst"):
        return sum(round(card.baseline_bandwidth_in_gbps * 1000) for card in network.network_cards)
    return int(stated.group("cards") or 1) * round(float(stated.group("gbps")) * 1000)


def _gpu(shape: Shape) -> dict[str, str]:
    """Return the labels of GPUs; none if they are of several kinds."""
    gpus = shape.gpu_info.gpus if shape.gpu_info else ()
    if len(gpus) != 1:
        return {}
    (gpu,) = gpus
    return {
        "gpu-name": _kebab(gpu.name),
        "gpu-manufacturer": _kebab(gpu.manufacturer),
        "gpu-count": str(gpu.count),
        "gpu-memory": str(gpu.memory_info.size_in_mib) if gpu.memory_info else "",
    }


def _accelerator(shape: Shape) -> dict[str, str]:
    """Neuron devices where EC2 describes them, else inference accelerators; only where all are of one kind."""
    neuron = shape.neuron_info.neuron_devices if shape.neuron_info else ()
    if shape.neuron_info:
        if len(neuron) != 1:
            return {}
        return _accelerator_labels(neuron[0].name, "aws", neuron[0].count)
    inference = shape.inference_accelerator_info.accelerators if shape.inference_accelerator_info else ()
    if len(inference) != 1:
        return {}
    return _accelerator_labels(inference[0].name, inference[0].manufacturer, inference[0].count)


def _accelerator_labels(name: str, manufacturer: str, count: int) -> dict[str, str]:
    return {
        "accelerator-name": _kebab(name),
        "accelerator-manufacturer": _kebab(manufacturer),
        "accelerator-count": str(count),
    }


def _kebab(text: str) -> str:
    return text.lower().replace(" ", "-")
