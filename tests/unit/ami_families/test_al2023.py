"""What a node of Amazon Linux 2023 reads when it starts."""

from __future__ import annotations

import msgspec
import pytest

from core.ami_families.al2023 import AL2023
from core.errors import InvalidInputError
from tests.unit.ami_families.nodes import (
    CLUSTER,
    NODE,
    changed,
    documents,
    node_config,
)


def test_an_al2023_node_joins_with_its_labels_and_taints() -> None:
    """If any of this is missing, the instance runs, costs money, and never becomes a node."""
    config = node_config(AL2023.user_data(NODE))
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert config["spec"]["cluster"] == {
        "name": "shop",
        "apiServerEndpoint": "https://api.example",
        "certificateAuthority": "Q0E=",
        "cidr": "10.100.0.0/16",
    }
    kubelet = config["spec"]["kubelet"]
    assert kubelet["config"]["maxPods"] == 29
    assert kubelet["config"]["registerWithTaints"] == [
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
    ]
    assert kubelet["flags"] == ['--node-labels="karpenter.sh/nodepool=general,team=a"']


def test_al2023_passes_every_kubelet_setting_on() -> None:
    """Otherwise, a user's kubelet setting would be dropped in silence."""
    block = {
        "clusterDNS": ["10.1.2.3"],
        "evictionHard": {"memory.available": "7%"},
        "podsPerCore": 4,
        "topologyManagerPolicy": "single-numa-node",
        "allowedUnsafeSysctls": ["net.core.somaxconn"],
    }
    config = node_config(AL2023.user_data(changed(kubelet=block, raids_instance_store=True)))
    assert config["spec"]["kubelet"]["config"].items() >= block.items()
    assert config["spec"]["instance"] == {"localStorage": {"strategy": "RAID0"}}


def test_al2023_without_service_addresses_is_refused() -> None:
    """Nodeadm fails on the node, where no user sees it."""
    with pytest.raises(InvalidInputError, match="Services"):
        AL2023.user_data(changed(cluster=msgspec.structs.replace(CLUSTER, service_cidr="")))


@pytest.mark.parametrize(
    ("own", "content_type"),
    [
        ("#!/bin/bash\necho apiVersion: node.eks.aws/v1alpha1\n", "text/x-shellscript"),
        ("echo hi", "text/x-shellscript"),
        ("\tapiVersion: node.eks.aws/v1alpha1\n", "text/x-shellscript"),
        ("cat <<END\napiVersion: node.eks.aws/v1alpha1\nEND\n", "text/x-shellscript"),
        ("apiVersion: v1\nkind: ConfigMap\n", "text/x-shellscript"),
        ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n", "application/node.eks.aws"),
        ("# ours\n\n---\nkind: NodeConfig\napiVersion : node.eks.aws/v1alpha1\n", "application/node.eks.aws"),
        ("\"kind\": NodeConfig\n'apiVersion': 'node.eks.aws/v1alpha1'\n", "application/node.eks.aws"),
        ('{"kind": "NodeConfig", "apiVersion": "node.eks.aws/v1alpha1"}', "application/node.eks.aws"),
        ('{\n  "apiVersion": "node.eks.aws/v1alpha1",\n  "kind": "NodeConfig"\n}\n', "application/node.eks.aws"),
    ],
)
def test_the_users_own_document_comes_first_with_its_type(own: str, content_type: str) -> None:
    """In nodeadm, later documents win: the user's must not change how the node joins."""
    first, last = documents(AL2023.user_data(changed(user_data=own)))
    assert first.get_content_type() == content_type
    assert str(first.get_payload()).strip() == own.strip()
    assert last.get_content_type() == "application/node.eks.aws"


def test_a_node_without_labels_of_ours_and_without_disks_says_nothing_of_them() -> None:
    spec = node_config(AL2023.user_data(changed(labels={})))["spec"]
    assert (spec.keys(), spec["kubelet"].keys()) == ({"cluster", "kubelet"}, {"config"})
    assert "clusterDNS" not in spec["kubelet"]["config"]


def test_nodes_join_with_the_services_range_and_take_any_kubelet_field() -> None:
    """A node does not start without the range, and nodeadm merges whatever the kubelet knows."""
    assert (AL2023.needs_service_cidr, AL2023.takes_any_kubelet_field) == (True, True)
