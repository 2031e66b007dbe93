"""The catalogue, built from shapes, market and node classes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.ami_families.al2023 import AL2023
from core.catalogue.build import (
    PRICES_STALE_AFTER,
    SHAPES_STALE_AFTER,
    CatalogueBuilder,
    MarketFacts,
    build_catalogue,
    cpu_reserved_millicores,
    instance_types,
    is_compatible,
    kube_reserved,
    overhead,
    type_labels,
)
from core.catalogue.document import read_shape
from core.catalogue.kubelet import KubeletSettings, Sizing, Threshold, sizing_of
from core.catalogue.node_class import read_node_class
from core.model.values.quotas import SizingSettings
from simulator.market.embedded import builtin_market, builtin_shapes
from tests.builders import NOW
from tests.unit.catalogue.one_type import M5, MARKET, offered, shape
from tests.unit.catalogue.sized_types import MIB, default_types, one_type


def test_zones_without_a_subnet_price_nodes_but_launch_none() -> None:
    """Otherwise, claims would be planned into zones where the class has no subnet, and fail at launch forever."""
    node_class = {"metadata": {"name": "c"}, "status": {"subnets": [{"id": "subnet-1", "zone": "us-east-1b"}]}}
    assert [(zone, available) for zone, _, _, available in offered(MARKET, node_class)] == [
        ("a", False),
        ("a", False),
        ("b", True),
    ]


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        ({"connectionTracking": {"udpTimeout": 30}}, {"Hypervisor": "xen"}),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, {}),
        ({"amiSelectorTerms": [{"alias": "al2023@latest"}]}, {"InstanceType": "a1.large"}),
        ({"networkInterfaces": [{"networkCardIndex": 1, "deviceIndex": 0}]}, {}),
        ({"amiFamily": "Windows2022"}, {"ProcessorInfo": {"SupportedArchitectures": ["arm64"]}}),
    ],
)
def test_types_that_contradict_the_class_settings_are_not_launched(
    spec: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Otherwise, EC2 would refuse every launch of such a type."""
    name = changes.get("InstanceType", "m5.large")
    market = msgspec.structs.replace(MARKET, offered={name: ("us-east-1a",)}, on_demand={name: 1}, spot=None)
    built = build_catalogue([shape(**changes)], market, [{"metadata": {"name": "c"}, "spec": spec}])
    assert not any(o.available for o in built.types_for("c")[0].offerings)
    assert all(o.available for o in build_catalogue([shape()], MARKET).default[0].offerings)


def test_a_class_that_cannot_be_read_does_not_affect_others() -> None:
    """Otherwise, one typo in one EC2NodeClass would stop the whole cluster from scaling."""
    bad = {"metadata": {"name": "bad"}, "spec": {"kubelet": {"maxPods": -1}}}
    good = {"metadata": {"name": "good"}, "spec": {"kubelet": {"maxPods": 7}}}
    built = build_catalogue([shape()], MARKET, [bad, good])
    assert built.types_for("bad") == ()
    assert built.types_for("good")[0].capacity["pods"] == 7


def test_the_order_of_descriptions_changes_nothing() -> None:
    """EC2 returns pages in any order; a plan must not depend on it."""
    shapes = list(builtin_shapes())[:40]
    market = builtin_market("us-east-1")
    assert instance_types(shapes, market) == instance_types(reversed(shapes), market)


CARDS = [
    {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 2},
    {"NetworkCardIndex": 1, "MaximumNetworkInterfaces": 1},
]
BUILD_NETWORK = {"EnaSupport": "required", "NetworkCards": CARDS, "EfaInfo": {"MaximumEfaInterfaces": 1}}


def interface(card: int, device: int, kind: str = "interface") -> dict[str, Any]:
    return {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}


def compatible(spec: dict[str, Any], **changes: Any) -> bool:
    return is_compatible(shape(**changes), sizing_of(read_node_class({"spec": spec}), SizingSettings()))


@pytest.mark.parametrize(
    ("interfaces", "network", "fits"),
    [
        ([], {"NetworkCards": []}, True),
        ([interface(0, 0)], {}, True),
        ([interface(0, 1)], {}, True),
        ([interface(0, 2)], {}, False),  # the first card has two, 0 and 1
        ([interface(1, 0)], {}, True),
        ([interface(1, 1)], {}, False),
        ([interface(2, 0)], {}, False),  # there is no third card
        ([interface(0, 0), interface(1, 1)], {}, False),
        ([interface(0, 0)], {"EnaSupport": "unsupported"}, False),
        ([interface(0, 0)], {"NetworkCards": []}, False),
        ([interface(0, 0), interface(0, 1, "efa-only")], {}, True),
        ([interface(0, 0), interface(0, 1, "efa-only"), interface(1, 0, "efa-only")], {}, False),
        ([interface(0, 0)], {"EfaInfo": None}, True),
        ([interface(0, 0), interface(0, 1, "efa-only")], {"EfaInfo": None}, False),
        ([interface(0, 2), interface(0, 0, "efa-only")], {}, False),
    ],
)
def test_interfaces_fit_where_each_has_a_slot_on_its_card(
    interfaces: list[dict[str, Any]], network: dict[str, Any], *, fits: bool
) -> None:
    """EC2 refuses a launch with an interface on a card that the type lacks, or more EFA interfaces than it has."""
    assert compatible({"networkInterfaces": interfaces}, NetworkInfo={**BUILD_NETWORK, **network}) is fits


@pytest.mark.parametrize("hypervisor", ["nitro", "xen"])
@pytest.mark.parametrize("features", [[], ["amd-sev-snp"], ["nested-virtualization"]])
@pytest.mark.parametrize("tracking", [None, {"udpTimeout": 30}])
@pytest.mark.parametrize("nested", [None, {"nestedVirtualization": "disabled"}, {"nestedVirtualization": "enabled"}])
def test_a_setting_excludes_only_the_types_that_lack_what_it_needs(
    hypervisor: str, features: list[str], tracking: dict[str, Any] | None, nested: dict[str, Any] | None
) -> None:
    """Each combination of two settings and two properties of a type."""
    spec = {"connectionTracking": tracking, "cpuOptions": nested}
    processor = {"SupportedArchitectures": ["x86_64"], "SupportedFeatures": features}
    lacks_nitro = tracking is not None and hypervisor == "xen"
    lacks_nesting = nested == {"nestedVirtualization": "enabled"} and features != ["nested-virtualization"]
    found = compatible(spec, Hypervisor=hypervisor, ProcessorInfo=processor)
    assert found is not (lacks_nitro or lacks_nesting)


def test_each_usage_class_has_an_offering_of_its_own() -> None:
    """P4d is sold without spot, and some old types as spot alone."""
    both = [("on-demand", 96_000_000), ("spot", 30_000_000)]
    for sold in (["spot"], ["on-demand"], ["on-demand", "spot"]):
        (found,) = instance_types([shape(SupportedUsageClasses=sold)], MARKET)
        here = [(o.capacity_type, o.price) for o in found.offerings if o.zone == "us-east-1a"]
        assert here == [one for one in both if one[0] in sold]


def test_spot_that_is_no_longer_listed_prices_nodes_and_launches_none() -> None:
    """On-demand instances of the zone are sold as before."""
    unlisted = msgspec.structs.replace(MARKET, unlisted_spot={"m5.large": ("us-east-1a",)})
    assert offered(unlisted) == [
        ("a", "on-demand", 96_000_000, True),
        ("a", "spot", 30_000_000, False),
        ("b", "on-demand", 96_000_000, True),
    ]


def test_types_without_a_class_have_the_settings_of_the_installation() -> None:
    settings = SizingSettings(vm_memory_overhead_ppm=0)
    assert build_catalogue([shape()], MARKET, settings=settings).default[0].capacity["memory"] == 8192 * 2**20


@pytest.mark.parametrize("manifest", [{}, {"metadata": None}, {"metadata": {"name": None}}])
def test_a_class_without_a_name_stops_nothing(manifest: dict[str, Any]) -> None:
    assert build_catalogue([shape()], MARKET, [manifest]).by_node_class.keys() == {""}


def test_sizes_of_earlier_classes_are_kept() -> None:
    """Tables of a plan are kept by the identity of types, and a class may be away for one round."""
    builder = CatalogueBuilder([shape()], MARKET)
    one, other = ({"metadata": {"name": "c"}, "spec": {"kubelet": {"maxPods": pods}}} for pods in (7, 8))
    first = builder.catalogue([one]).types_for("c")
    assert builder.catalogue([other]).types_for("c")[0].capacity["pods"] == 8
    assert builder.catalogue([one]).types_for("c") is first


# What was last read of a region's market.


FACTS = MarketFacts(shapes=(read_shape(M5),), market=MARKET, shapes_read_at=NOW, prices_read_at=NOW)


@pytest.mark.parametrize(
    ("age", "parts"),
    [
        (PRICES_STALE_AFTER - timedelta(seconds=1), ()),
        (PRICES_STALE_AFTER, ("Prices",)),
        (SHAPES_STALE_AFTER - timedelta(seconds=1), ("Prices",)),
        (SHAPES_STALE_AFTER, ("Prices", "InstanceTypes")),
    ],
)
def test_parts_are_stale_after_three_missed_readings(age: timedelta, parts: tuple[str, ...]) -> None:
    """One missed reading is no news: spot prices of an hour ago still order the types."""
    found = FACTS.stale_parts(NOW + age)
    assert tuple(part.name for part in found) == parts
    assert all(f"last read at {NOW:%Y-%m-%d %H:%M} UTC" in part.explanation for part in found)


def test_catalogues_are_built_from_what_was_read() -> None:
    (found,) = FACTS.builder().catalogue([]).default
    assert (found.name, {offering.zone for offering in found.offerings}) == ("m5.large", {"us-east-1a", "us-east-1b"})


def test_prices_are_stale_after_three_hours_and_types_after_a_day_and_a_half() -> None:
    assert (timedelta(hours=3), timedelta(hours=36)) == (PRICES_STALE_AFTER, SHAPES_STALE_AFTER)


# The part of a node that is not allocatable.


@pytest.mark.parametrize(("vcpus", "reserved"), [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (96, 310)])
def test_the_kubelet_keeps_less_of_each_further_core(vcpus: int, reserved: int) -> None:
    """Otherwise, reserved CPU differs from what the node's bootstrap sets."""
    assert cpu_reserved_millicores(vcpus * 1000) == reserved


def test_bottlerocket_reserves_memory_for_its_maximum_of_pods() -> None:
    """Bottlerocket's kubelet computes its reservation from max-pods; a lower estimate overbooks the node."""
    shaped = one_type(
        "m5.xlarge", amiFamily="Bottlerocket", amiSelectorTerms=[{"id": "ami-1"}], kubelet={"maxPods": 110}
    )
    assert shaped.capacity["pods"] == 110
    assert shaped.overhead["memory"] == 1565 * MIB
    assert one_type("m5.xlarge").overhead["memory"] == 993 * MIB


def test_the_kubelet_block_replaces_reservations_name_by_name() -> None:
    """Ignoring a user's reservation overbooks every node of the class."""
    block = {
        "kubeReserved": {"cpu": "200m"},
        "systemReserved": {"memory": "100Mi"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "100%"},
        "evictionSoft": {"memory.available": "50%"},
    }
    shaped, plain = one_type("m5.large", kubelet=block), one_type("m5.large")
    assert shaped.overhead["cpu"] == 200
    five_percent = -(-plain.capacity["memory"] * 5 // 100)
    assert shaped.overhead["memory"] == plain.overhead["memory"] + five_percent
    assert shaped.overhead["ephemeral-storage"] == 2**30


@pytest.mark.parametrize(
    ("millicores", "reserved"),
    [
        (0, 0), (16, 0), (17, 1), (999, 59), (1000, 60), (1099, 60), (1100, 61), (2000, 70), (2199, 70), (2200, 71),
        (4000, 80), (4399, 80), (4400, 81), (448_000, 1190),
    ],
)  # fmt: skip
def test_each_band_is_rounded_down(millicores: int, reserved: int) -> None:
    """The bands end at 1, 2 and 4 cores."""
    assert cpu_reserved_millicores(millicores) == reserved


def test_every_vcpu_counts_as_a_whole_one() -> None:
    """What 448 vCPUs reserve is 60 + 10 + 10 + 444 * 2.5 millicores."""
    assert kube_reserved(shape(VCpuInfo={"DefaultVCpus": 448}), Sizing())["cpu"] == 1190


@pytest.mark.parametrize(("size", "kept"), [(100, 10), (101, 11), (109, 11), (110, 11), (0, 0)])
def test_a_tenth_of_the_storage_is_kept_rounded_up(size: int, kept: int) -> None:
    """Kubernetes evicts below it."""
    found = overhead(shape(), Sizing(), {"ephemeral-storage": size, "memory": 1})
    assert found["ephemeral-storage"] == 2**30 + kept


def test_only_resources_of_the_node_are_kept_and_only_what_is_not_zero() -> None:
    """A node without a resource cannot lose any of it."""
    kubelet = KubeletSettings(
        kube_reserved=(("cpu", 0), ("pid", 5)),
        system_reserved=(("memory", 7), ("pid", 3)),
        eviction_memory=Threshold(amount=11),
        eviction_storage=Threshold(share_ppm=1_000_000),
    )
    found = overhead(shape(), Sizing(kubelet=kubelet), {"cpu": 2000, "memory": 1, "ephemeral-storage": 50, "pods": 9})
    assert found == {"memory": (11 * 29 + 255) * MIB + 7 + 11, "ephemeral-storage": 2**30}


# The labels that a node has because of its type.


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


@pytest.mark.parametrize("support", ["supported", "unsupported", ""])
@pytest.mark.parametrize("enabled", [True, False])
def test_a_class_with_enclaves_launches_only_types_that_have_them(support: str, *, enabled: bool) -> None:
    """EC2 refuses the launch of any other type."""
    is_compatible_with = compatible({"enclaveOptions": {"enabled": enabled}}, NitroEnclavesSupport=support)
    assert is_compatible_with is (not enabled or support == "supported")


@pytest.mark.parametrize("support", ["supported", "unsupported"])
@pytest.mark.parametrize("encrypted", [True, False, None])
def test_encrypted_volumes_are_not_launched_on_types_that_cannot_have_them(
    support: str, *, encrypted: bool | None
) -> None:
    """EC2 refuses such a launch, and the validation of a class picks the cheapest type: m1.small, if nothing is said of it."""
    volume = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}
    if encrypted is not None:
        volume["ebs"] |= {"encrypted": encrypted}  # type: ignore[operator]
    ebs = {"EncryptionSupport": support}
    assert compatible({"blockDeviceMappings": [volume]}, EbsInfo=ebs) is (not encrypted or support == "supported")
    assert compatible({"amiFamily": "AL2023"}, EbsInfo=ebs) is (support == "supported"), (
        "the family's volume is encrypted"
    )
    assert compatible({"amiFamily": "Custom"}, EbsInfo=ebs), "its image brings its volumes"
