"""What a node must know to join its cluster."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.ami_families.al2 import AL2
from core.ami_families.bootstrap import registered_labels, registered_taints
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
