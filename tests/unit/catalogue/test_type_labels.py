"""The labels that a node has because of its type."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.ami_families.al2023 import AL2023
from core.catalogue.type_labels import type_labels
from tests.unit.catalogue.one_type import shape
from tests.unit.catalogue.sized_types import (
    default_types,
)


def test_labels_describe_the_machine() -> None:
    """NodePools and pods select on these."""
    found = {key.removeprefix(f"{labels.AWS_GROUP}/"): v for key, v in default_types()["g5.48xlarge"].labels.items()}
    assert found["instance-gpu-name"] == ("a10g",)
    assert found["instance-gpu-count"] == ("8",)
    assert found["instance-category"] == ("g",)
    assert found["instance-generation"] == ("5",)
    assert found["instance-size"] == ("48xlarge",)
    assert found["instance-local-nvme"] == ("7600",)
    assert found[labels.ARCH] == ("amd64",)
    assert default_types()["c7g.large"].labels[labels.ARCH] == ("arm64",)
    assert default_types()["u7i-12tb.224xlarge"].labels[f"{labels.AWS_GROUP}/instance-category"] == ("u",)
    assert default_types()["c7i-flex.large"].labels[f"{labels.AWS_GROUP}/instance-capability-flex"] == ("true",)
    inferentia = default_types()["inf2.xlarge"].labels
    assert inferentia[f"{labels.AWS_GROUP}/instance-accelerator-name"] == ("inferentia2",)
    assert inferentia[f"{labels.AWS_GROUP}/instance-accelerator-manufacturer"] == ("aws",)


@pytest.mark.parametrize(
    ("name", "mbps"),
    [
        ("m5.large", ("750",)),
        ("c6in.32xlarge", ("200000",)),
        ("p4d.24xlarge", ("400000",)),
        ("c5n.18xlarge", ("100000",)),
        ("m4.large", None),
    ],
)
def test_network_bandwidth_is_the_sustained_rate(name: str, mbps: tuple[str, ...] | None) -> None:
    """Otherwise, a NodePool that requires bandwidth gets burstable machines, or twice what a machine has."""
    assert default_types()[name].labels.get(f"{labels.AWS_GROUP}/instance-network-bandwidth") == mbps


GROUP = f"{labels.AWS_GROUP}/instance-"


def aws_labels(name: str = "m5.large", **changes: Any) -> dict[str, str]:
    """The labels of AWS that a type has, by what follows `instance-`."""
    found = type_labels(shape(InstanceType=name, **changes), AL2023, "eu-west-3")
    return {key.removeprefix(GROUP): " or ".join(values) for key, values in found.items() if key.startswith(GROUP)}


PLAIN = {
    "family": "m5", "size": "large", "category": "m", "generation": "5", "capability-flex": "false", "cpu": "2",
    "cpu-manufacturer": "intel", "cpu-sustained-clock-speed-mhz": "3100", "memory": "8192", "hypervisor": "nitro",
    "encryption-in-transit-supported": "false", "tenancy": "dedicated or default",
}  # fmt: skip


def test_a_type_has_exactly_the_labels_that_its_description_names() -> None:
    """Karpenter leaves out a label whose value is unknown: a NodePool that requires it must not get the type."""
    assert aws_labels() == PLAIN
    found = type_labels(shape(), AL2023, "eu-west-3")
    assert {key: values for key, values in found.items() if not key.startswith(GROUP)} == {
        labels.ARCH: ("amd64",),
        labels.OS: ("linux",),
        labels.REGION: ("eu-west-3",),
    }


NETWORK = {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10}
GPU = {"Name": "Radeon Pro V520", "Manufacturer": "AMD", "Count": 2, "MemoryInfo": {"SizeInMiB": 8192}}
OF_GPU = {"gpu-name": "radeon-pro-v520", "gpu-manufacturer": "amd", "gpu-count": "2", "gpu-memory": "8192"}
INFERENCE = {"Name": "Qualcomm AI100", "Manufacturer": "Qualcomm", "Count": 8}
OF_INFERENCE = {
    "accelerator-name": "qualcomm-ai100", "accelerator-manufacturer": "qualcomm", "accelerator-count": "8",
}  # fmt: skip
TRAINIUM = {"NeuronDevices": [{"Name": "Trainium", "Count": 16}]}
OF_TRAINIUM = {"accelerator-name": "trainium", "accelerator-manufacturer": "aws", "accelerator-count": "16"}


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"NitroEnclavesSupport": "unsupported"}, {}),
        ({"ProcessorInfo": {"SupportedArchitectures": ["x86_64"], "Manufacturer": "Amazon Web Services"}},
         {"cpu-manufacturer": "amazon-web-services", "cpu-sustained-clock-speed-mhz": "0"}),
        ({"NetworkInfo": {**NETWORK, "EncryptionInTransitSupported": True}}, {"encryption-in-transit-supported": "true"}),
        ({"InstanceStorageInfo": {"TotalSizeInGB": 75, "NvmeSupport": "required"}}, {"local-nvme": "75"}),
        ({"InstanceStorageInfo": {"TotalSizeInGB": 75, "NvmeSupport": "unsupported"}}, {}),
        ({"EbsInfo": {"EbsOptimizedSupport": "default", "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 4750}}},
         {"ebs-bandwidth": "4750"}),
        ({"EbsInfo": {"EbsOptimizedSupport": "supported", "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 4750}}}, {}),
        ({"EbsInfo": {"EbsOptimizedSupport": "default"}}, {}),
        ({"GpuInfo": {"Gpus": [GPU]}}, OF_GPU),
        ({"GpuInfo": {"Gpus": [GPU, GPU]}}, {}),
        ({"GpuInfo": {"Gpus": [{**GPU, "MemoryInfo": None}]}}, {k: v for k, v in OF_GPU.items() if k != "gpu-memory"}),
        ({"InferenceAcceleratorInfo": {"Accelerators": [INFERENCE]}}, OF_INFERENCE),
        ({"InferenceAcceleratorInfo": {"Accelerators": [INFERENCE, INFERENCE]}}, {}),
        ({"InferenceAcceleratorInfo": {"Accelerators": []}}, {}),
        ({"NeuronInfo": TRAINIUM}, OF_TRAINIUM),
        ({"NeuronInfo": TRAINIUM, "InferenceAcceleratorInfo": {"Accelerators": [INFERENCE]}}, OF_TRAINIUM),
        ({"NeuronInfo": {"NeuronDevices": []}, "InferenceAcceleratorInfo": {"Accelerators": [INFERENCE]}}, {}),
        ({"Hypervisor": "xen"}, {"hypervisor": "xen"}),
    ],
)  # fmt: skip
def test_each_part_of_a_description_changes_its_labels_and_no_others(
    changes: dict[str, Any], more: dict[str, str]
) -> None:
    """Devices of several kinds have no label of one kind (Karpenter)."""
    assert aws_labels(**changes) == PLAIN | more


@pytest.mark.parametrize(
    ("performance", "cards", "mbps"),
    [
        ("High", [], None),
        ("10 Gigabit", [], "10000"),
        ("12.5 Gigabit", [], "12500"),
        ("4x 100 Gigabit", [], "400000"),
        ("Up to 10 Gigabit", [0.75], "750"),
        ("Up to 10 Gigabit", [1.25, 0.5], "1750"),
        ("Up to 10 Gigabit", [], None),
        ("10 Gigabit or so", [], None),
    ],
)
def test_bandwidth_is_ec2s_figure_or_the_baseline_of_all_cards(
    performance: str, cards: list[float], mbps: str | None
) -> None:
    network = {
        **NETWORK,
        "NetworkPerformance": performance,
        "NetworkCards": [{"BaselineBandwidthInGbps": g} for g in cards],
    }
    assert aws_labels(NetworkInfo=network).get("network-bandwidth") == mbps


@pytest.mark.parametrize(
    ("name", "category", "generation", "flex"),
    [
        ("c7i-flex.8xlarge", "c", "7", "true"),
        ("u-6tb1.metal", "u", "1", "false"),
        ("p6-b200.48xlarge", "p", "6", "false"),
        ("x2iedn.xlarge", "x", "2", "false"),
        ("Unknown.large", None, None, "false"),
    ],
)
def test_category_and_generation_come_from_the_name(
    name: str, category: str | None, generation: str | None, flex: str
) -> None:
    found = aws_labels(name)
    assert (found.get("category"), found.get("generation"), found["capability-flex"]) == (category, generation, flex)


@pytest.mark.parametrize(("support", "values"), [("supported", ("true",)), ("unsupported", None), ("", None)])
def test_only_a_type_with_enclaves_has_their_label(support: str, values: tuple[str] | None) -> None:
    assert type_labels(shape(NitroEnclavesSupport=support), AL2023, "r").get(labels.NITRO_SANDBOX) == values
