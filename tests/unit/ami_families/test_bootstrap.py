"""What a node must know to join its cluster."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.ami_families.bootstrap import read_taint, registered_labels, registered_taints
from core.ami_families.bootstrap_scripts import AL2
from core.ami_families.bottlerocket import BOTTLEROCKET
from core.ami_families.family import AmiFamily
from core.ami_families.registry import BY_ALIAS
from core.errors import InvalidInputError
from core.model.values.taints import UNREGISTERED, Taint
from tests.unit.ami_families.nodes import CLUSTER, changed


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
