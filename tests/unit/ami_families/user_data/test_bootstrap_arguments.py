"""Arguments of bootstrap scripts."""

from __future__ import annotations

import msgspec
import pytest

from core.ami_families.al2 import AL2
from core.ami_families.registry import BY_ALIAS
from tests.unit.ami_families.nodes import (
    CLUSTER,
    changed,
)


@pytest.mark.parametrize(
    ("service_cidr", "dns", "is_ipv6"),
    [
        ("172.16.0.0/16", "172.16.0.10", False),
        ("10.96.3.0/24", "10.96.3.10", False),
        ("fd30:1::/108", "fd30:1::a", True),
    ],
)
def test_bootstrap_scripts_get_the_clusters_dns_address(service_cidr: str, dns: str, is_ipv6: bool) -> None:
    """Otherwise, the script guesses the address, and pods have no DNS in a cluster with other Service addresses."""
    node = changed(cluster=msgspec.structs.replace(CLUSTER, service_cidr=service_cidr))
    script = AL2.user_data(node)
    assert f"--dns-cluster-ip '{dns}'" in script
    assert ("--ip-family ipv6" in script) == is_ipv6
    assert f"-DNSClusterIP '{dns}'" in BY_ALIAS["windows2022"].user_data(node)


@pytest.mark.parametrize("service_cidr", ["", "10.100.0.0/16"])
def test_a_class_with_its_own_dns_server_wins(service_cidr: str) -> None:
    """Otherwise, NodeLocal DNSCache is bypassed."""
    cluster = msgspec.structs.replace(CLUSTER, service_cidr=service_cidr)
    script = AL2.user_data(changed(cluster=cluster, kubelet={"clusterDNS": ["169.254.20.10"]}))
    assert "--dns-cluster-ip '169.254.20.10'" in script
    assert "10.100.0.10" not in script
