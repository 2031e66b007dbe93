"""Rules for the user data of every family."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.ami_families.bootstrap_scripts import AL2
from core.ami_families.bottlerocket import BOTTLEROCKET
from core.ami_families.family import (
    NEURON,
    NVIDIA,
    STANDARD,
    USER_DATA_BYTES_MAX,
    AmiFamily,
    KubernetesVersion,
    read_taint,
    registered_labels,
    registered_taints,
)
from core.ami_families.registry import BY_ALIAS, CUSTOM, FAMILIES
from core.errors import InvalidInputError
from core.model.values.taints import UNREGISTERED, Taint
from tests.unit.ami_families.nodes import CLUSTER, changed


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


# What a node must know to join its cluster.


@pytest.mark.parametrize("family", [AL2, BOTTLEROCKET, BY_ALIAS["windows2022"]], ids=lambda family: family.name)
@pytest.mark.parametrize("text", ["", "dns", "10.0.0.10%x"])
def test_a_dns_server_that_is_no_address_names_the_field(family: AmiFamily, text: str) -> None:
    """Bottlerocket omitted an empty address and started pods with another server than the class names."""
    with pytest.raises(InvalidInputError, match="clusterDNS"):
        family.user_data(changed(kubelet={"clusterDNS": [text]}))


def test_the_kubelet_is_given_only_labels_that_it_may_set() -> None:
    """With one forbidden label the kubelet does not start at all (NodeRestriction)."""
    given_labels = {
        "team": "a",
        labels.ZONE: "us-east-1a",
        "node-restriction.kubernetes.io/x": "1",
        "foo.k8s.io/x": "1",
        "topology.k8s.aws/zone-id": "use1-az1",
    }
    assert registered_labels(given_labels, syncs_taints=True) == {"team": "a", "topology.k8s.aws/zone-id": "use1-az1"}
    assert registered_labels({}, syncs_taints=False) == {labels.DO_NOT_SYNC_TAINTS: "true"}


def test_a_node_is_always_unregistered_at_first() -> None:
    """Otherwise, pods would start on it before its labels and taints are complete."""
    assert registered_taints(["a=b:NoSchedule"]) == (Taint("a", "NoSchedule", "b"), UNREGISTERED)
    assert registered_taints([str(UNREGISTERED), "a:NoExecute"]) == (UNREGISTERED, Taint("a", "NoExecute"))
    with pytest.raises(InvalidInputError, match="a=b"):
        registered_taints(["a=b"])


@pytest.mark.parametrize(
    ("dns_ip", "service_cidr", "expected"),
    [("", "10.100.0.0/16", False), ("", "fd30::/108", True), ("fd30::a", "", True), ("10.100.0.10", "", False)],
)
def test_the_address_family_is_that_of_whatever_is_known(dns_ip: str, service_cidr: str, *, expected: bool) -> None:
    """The address of the DNS service is not known before the cluster is described, its Services' range may not be either."""
    assert msgspec.structs.replace(CLUSTER, dns_ip=dns_ip, service_cidr=service_cidr).is_ipv6 is expected


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("a:NoExecute", Taint("a", "NoExecute")),
        ("example.com/a=b:PreferNoSchedule", Taint("example.com/a", "PreferNoSchedule", "b")),
        ("a=:NoSchedule", Taint("a", "NoSchedule")),
    ],
)
def test_a_taint_is_read_as_the_kubelet_reads_it(text: str, taint: Taint) -> None:
    assert read_taint(text) == taint


@pytest.mark.parametrize(
    "text", ["a b=c:NoSchedule", "a=b c:NoSchedule", "a=b/c:NoSchedule", "a=b:Never", ":NoSchedule"]
)
def test_a_taint_that_the_kubelet_does_not_start_with_is_refused(text: str) -> None:
    """An instance with it runs, costs money, and never becomes a node. A value has no domain, unlike a key."""
    with pytest.raises(InvalidInputError, match="is not a taint") as refused:
        read_taint(text)
    assert refused.value.field == "taints"


@pytest.mark.parametrize(
    ("own", "of_cluster", "found"),
    [
        ([], "", ()),
        ([], "10.0.0.10", ("10.0.0.10",)),
        (["10.1.2.3", "10.1.2.4"], "10.0.0.10", ("10.1.2.3", "10.1.2.4")),
    ],
)
def test_the_dns_servers_are_the_classs_then_the_clusters(
    own: list[str], of_cluster: str, found: tuple[str, ...]
) -> None:
    node = changed(kubelet={"clusterDNS": own}, cluster=msgspec.structs.replace(CLUSTER, dns_ip=of_cluster))
    assert (node.cluster_dns, node.dns_address()) == (found, next(iter(found), ""))


@pytest.mark.parametrize("service_cidr", ["services", "10.100.0.0/30", "10.100.0.1/16"])
def test_service_addresses_that_hold_no_dns_server_name_the_field(service_cidr: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a range of addresses") as refused:
        _ = msgspec.structs.replace(CLUSTER, service_cidr=service_cidr).eks_dns_ip
    assert refused.value.field == "cluster.serviceCIDR"
