"""Rules for the user data of every family."""

from __future__ import annotations

import msgspec
import pytest

from core.ami_families.family import NEURON, NVIDIA, STANDARD, USER_DATA_BYTES_MAX, KubernetesVersion
from core.ami_families.registry import CUSTOM, FAMILIES
from core.errors import InvalidInputError
from tests.unit.ami_families.nodes import changed


def test_user_data_that_ec2_would_refuse_is_refused_early() -> None:
    """EC2's message does not name the object; ours does."""
    with pytest.raises(InvalidInputError, match=str(USER_DATA_BYTES_MAX)):
        CUSTOM.user_data(changed(user_data="x" * (USER_DATA_BYTES_MAX + 1)))
    text = "x" * USER_DATA_BYTES_MAX
    assert CUSTOM.user_data(changed(user_data=text)) == text


GIB = 2**30


@pytest.mark.parametrize(
    ("name", "system", "gib", "until", "begins", "boots_arm"),
    [
        ("AL2", "linux", 20, (1, 32), None, True),
        ("AL2023", "linux", 20, None, None, True),
        ("Bottlerocket", "linux", 20, None, None, True),
        ("Windows2019", "windows", 50, None, None, False),
        ("Windows2022", "windows", 50, None, None, False),
        ("Windows2025", "windows", 50, None, (1, 35), False),
        ("Custom", "linux", 20, None, None, True),
    ],
)
def test_what_a_family_is(
    name: str,
    system: str,
    gib: int,
    until: KubernetesVersion | None,
    begins: KubernetesVersion | None,
    boots_arm: bool,
) -> None:
    """As the guide of EKS has it: ephemeral storage without volumes of the class, and the first and last Kubernetes."""
    family = FAMILIES[name]
    assert (family.name, family.operating_system) == (name, system)
    assert family.default_ephemeral_bytes == gib * GIB
    assert (family.kubernetes_until, family.kubernetes_from) == (until, begins)
    assert (family.boots("m5.large", "amd64"), family.boots("m6g.large", "arm64")) == (True, boots_arm)
    assert not family.boots("m5.large", "riscv64")


def test_a_family_does_not_boot_on_what_it_excludes() -> None:
    """The name up to the dot counts, not its beginning."""
    excluding = msgspec.structs.replace(CUSTOM, excluded_type_families=("a1",))
    assert [excluding.boots(name, "arm64") for name in ("a1.large", "a10.large", "a1", "m6g.a1")] == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("begins", "until", "version", "said"),
    [
        (None, None, "1.34", ""),
        (None, (1, 32), "1.32", ""),
        (None, (1, 32), "1.33", "Custom images end with Kubernetes 1.32, the cluster runs 1.33: use another family"),
        (None, (1, 32), "2.0", "Custom images end with Kubernetes 1.32, the cluster runs 2.0: use another family"),
        (None, (1, 32), "1.32.9-eks", ""),
        ((1, 35), None, "1.35", ""),
        ((1, 35), None, "1.34", "Custom images begin with Kubernetes 1.35, the cluster runs 1.34: use another family"),
        ((1, 35), None, "1.100", ""),
        (None, (1, 32), "1.32.1", ""),
        (
            (1, 30),
            (1, 32),
            "1.29",
            "Custom images begin with Kubernetes 1.30, the cluster runs 1.29: use another family",
        ),
        ((1, 30), (1, 32), "1.31", ""),
        ((1, 30), (1, 32), "1.33", "Custom images end with Kubernetes 1.32, the cluster runs 1.33: use another family"),
    ],
)
def test_images_are_published_from_one_kubernetes_until_another(
    begins: KubernetesVersion | None, until: KubernetesVersion | None, version: str, said: str
) -> None:
    family = msgspec.structs.replace(CUSTOM, kubernetes_from=begins, kubernetes_until=until)
    assert family.why_not_published(version) == said


# Which instance types the published images are for.


def test_no_instance_type_is_served_by_two_kinds_of_image() -> None:
    """Otherwise, a GPU node boots without its driver, by the order in which images are listed."""
    operators = [{entry["key"]: entry["operator"] for entry in kind} for kind in (STANDARD, NVIDIA, NEURON)]
    plain, nvidia, neuron = operators
    assert set(plain) == {*nvidia, *neuron}
    assert set(plain.values()) == {"DoesNotExist"}
    assert {*nvidia.values(), *neuron.values()} == {"Exists"}
    assert not set(nvidia) & set(neuron)
