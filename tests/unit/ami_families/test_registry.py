"""What each family must define, and that no other module compares family names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from core.ami_families.family import NEURON, NVIDIA, STANDARD, AmiFamily, Bootstrap, Cluster
from core.ami_families.registry import BY_ALIAS, CUSTOM, FAMILIES, family_of
from tests.unit.ami_families.nodes import changed

# What a node of a user's own image reads when it starts.


def test_custom_user_data_is_left_alone() -> None:
    """Custom images are bootstrapped by the user alone."""
    assert CUSTOM.user_data(changed(user_data="anything")) == "anything"


ROOT = Path(__file__).parents[3]
OLD_VERSIONS = {"core/api/older_versions.py"}
"""Instance types that older families support."""

NODE = Bootstrap(
    cluster=Cluster(name="shop", endpoint="https://api.example", service_cidr="10.100.0.0/16"), labels={}, taints=()
)


@pytest.mark.parametrize(
    ("name", "alias", "expected"),
    [
        ("AL2023", "", "AL2023"),
        ("AL2", "al2023@latest", "AL2"),
        ("", "Bottlerocket@v1.2.3", "Bottlerocket"),
        ("", "windows2025@latest", "Windows2025"),
        ("", "", "Custom"),
        ("", "ubuntu@latest", "Custom"),
        ("Ubuntu", "al2023@latest", "Custom"),
    ],
)
def test_the_name_wins_over_the_alias_and_an_unknown_name_is_custom(name: str, alias: str, expected: str) -> None:
    """Otherwise, nodes start as another family's and never join."""
    assert family_of(name, alias) is FAMILIES[expected]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_with_an_alias_says_where_its_images_are(family: AmiFamily) -> None:
    """Otherwise, the alias would be valid, and the class would find no image."""
    paths = [parameter.path for parameter in family.images("1.34", "latest")]
    assert bool(paths) == bool(family.alias)
    assert len(set(paths)) == len(paths)
    assert all(path.startswith("/aws/service/") and path.endswith("/image_id") and "1.34" in path for path in paths)


EKS = "/aws/service/eks/optimized-ami/1.32"
BOTTLEROCKET = "/aws/service/bottlerocket/aws-k8s-1.32"


@pytest.mark.parametrize(
    ("alias", "latest", "pinned"),
    [
        (
            "al2",
            {
                f"{EKS}/amazon-linux-2/recommended/image_id": (STANDARD,),
                f"{EKS}/amazon-linux-2-arm64/recommended/image_id": (STANDARD,),
                f"{EKS}/amazon-linux-2-gpu/recommended/image_id": (NEURON, NVIDIA),
            },
            f"{EKS}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20250715/image_id",
        ),
        (
            "al2023",
            {
                f"{EKS}/amazon-linux-2023/x86_64/standard/recommended/image_id": (STANDARD,),
                f"{EKS}/amazon-linux-2023/arm64/standard/recommended/image_id": (STANDARD,),
                f"{EKS}/amazon-linux-2023/x86_64/nvidia/recommended/image_id": (NVIDIA,),
                f"{EKS}/amazon-linux-2023/arm64/nvidia/recommended/image_id": (NVIDIA,),
                f"{EKS}/amazon-linux-2023/x86_64/neuron/recommended/image_id": (NEURON,),
            },
            f"{EKS}/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.32-v20250715/image_id",
        ),
        (
            "bottlerocket",
            {
                f"{BOTTLEROCKET}/x86_64/latest/image_id": (STANDARD, NEURON),
                f"{BOTTLEROCKET}/arm64/latest/image_id": (STANDARD,),
                f"{BOTTLEROCKET}-nvidia/x86_64/latest/image_id": (NVIDIA,),
                f"{BOTTLEROCKET}-nvidia/arm64/latest/image_id": (NVIDIA,),
            },
            f"{BOTTLEROCKET}-nvidia/arm64/20250715/image_id",
        ),
    ],
)
def test_images_are_where_aws_publishes_them(alias: str, latest: dict[str, object], pinned: str) -> None:
    """As EKS and Bottlerocket document them. Otherwise a pinned fleet moves to the newest image, or GPUs lack a driver."""
    images = BY_ALIAS[alias].images
    assert {parameter.path: parameter.serves for parameter in images("1.32", "latest")} == latest
    assert pinned in [parameter.path for parameter in images("1.32", "v20250715")]


def test_windows_images_serve_nodes_of_their_own_build() -> None:
    """A pod that selects a build of Windows does not run on another one."""
    (found,) = BY_ALIAS["windows2022"].images("1.34", "latest")
    assert found.path == (
        "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.34/image_id"
    )
    operators = {entry["key"]: (entry["operator"], entry["values"]) for entry in found.serves[0]}
    assert operators == {
        "kubernetes.io/os": ("In", ["windows"]),
        "node.kubernetes.io/windows-build": ("In", ["10.0.20348"]),
    }


SIZING = (
    "eni_limited_memory_overhead",
    "eni_limited_pods",
    "takes_any_kubelet_field",
    "registers_taints",
    "needs_service_cidr",
)


@pytest.mark.parametrize(
    ("name", "expected", "takes_pods_per_core", "volumes", "ephemeral"),
    [
        ("AL2", (True, True, False, True, False), True, {"/dev/xvda": 20}, "/dev/xvda"),
        ("AL2023", (True, True, True, True, True), True, {"/dev/xvda": 20}, "/dev/xvda"),
        ("Bottlerocket", (False, True, False, True, False), False, {"/dev/xvda": 6, "/dev/xvdb": 20}, "/dev/xvdb"),
        ("Windows2022", (False, False, False, True, False), True, {"/dev/sda1": 50}, "/dev/sda1"),
        ("Custom", (True, True, True, False, False), True, {}, ""),
    ],
)
def test_a_family_is_sized_as_karpenters(
    name: str, expected: tuple[bool, ...], takes_pods_per_core: bool, volumes: dict[str, int], ephemeral: str
) -> None:
    """Otherwise, more pods are planned onto a node than its kubelet admits."""
    family = FAMILIES[name]
    assert tuple(getattr(family, flag) for flag in SIZING) == expected
    assert (family.supports_kubelet_field("podsPerCore"), family.supports_kubelet_field("maxPods")) == (
        takes_pods_per_core,
        True,
    )
    assert (dict(family.default_volumes), family.ephemeral_device) == (volumes, ephemeral)
    assert family.offers_private_addresses == (family.operating_system == "windows")


@pytest.mark.parametrize(
    ("name", "build"),
    [("Windows2019", "10.0.17763"), ("Windows2022", "10.0.20348"), ("Windows2025", "10.0.26100"), ("AL2023", "")],
)
def test_the_label_of_the_build_is_windows_own(name: str, build: str) -> None:
    assert FAMILIES[name].windows_build == build


@pytest.mark.parametrize("family", BY_ALIAS.values(), ids=BY_ALIAS)
def test_only_families_with_releases_may_be_pinned(family: AmiFamily) -> None:
    """Otherwise, a pin without effect would be taken for a real one."""
    pinned, latest = (family.images("1.34", release) for release in ("v20260101", "latest"))
    assert (pinned != latest) == family.has_releases


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_volume_for_pods_is_one_of_the_familys_devices(family: AmiFamily) -> None:
    """Otherwise, sizing counts on a volume that the node does not have."""
    assert not family.ephemeral_device or family.ephemeral_device in dict(family.default_volumes)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_every_family_that_writes_user_data_names_the_cluster(family: AmiFamily) -> None:
    """Otherwise, the node would not know where to join."""
    assert ("https://api.example" in family.user_data(NODE)) == (family is not CUSTOM)


@pytest.mark.parametrize(
    ("family", "version", "is_published"),
    [
        ("AL2", "1.32", True),
        ("AL2", "1.33", False),
        ("Windows2025", "1.34", False),
        ("Windows2025", "1.35", True),
        ("Windows2025", "1.100", True),
        ("AL2023", "1.99", True),
    ],
)
def test_the_versions_that_a_family_is_published_for_are_known(family: str, version: str, is_published: bool) -> None:
    """Otherwise, the class would say that no image matches, and nobody would know why."""
    problem = FAMILIES[family].why_not_published(version)
    assert (problem == "") == is_published
    assert is_published or (family in problem and version in problem)


def test_no_other_module_compares_family_names() -> None:
    """Otherwise, adding a family takes more than its own module, and code elsewhere treats it wrongly."""
    names = {*FAMILIES, *BY_ALIAS} - {CUSTOM.name}
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for folder in ("core", "installation", "adapters", "lambdas", "cli", "infra")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "ami_families" not in path.parts and str(path.relative_to(ROOT)) not in OLD_VERSIONS
        for text in _texts(path)
        if text in names
    ]
    assert found == []


def _texts(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
