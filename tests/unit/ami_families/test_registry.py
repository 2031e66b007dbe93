"""What each family must define, and that no other module compares family names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from core.ami_families.bootstrap import Bootstrap, Cluster
from core.ami_families.custom import CUSTOM
from core.ami_families.family import AmiFamily
from core.ami_families.registry import BY_ALIAS, FAMILIES, family_of

ROOT = Path(__file__).parents[3]
OLD_VERSIONS = {"core/api/v1beta1.py", "core/api/v1alpha5.py"}
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
