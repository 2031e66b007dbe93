"""What a node reads when it starts."""

from __future__ import annotations

import email
import tomllib
from datetime import date
from email.message import Message
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.ami_families.al2 import AL2
from core.ami_families.al2023 import AL2023
from core.ami_families.bootstrap import Bootstrap, Cluster, registered_labels, registered_taints
from core.ami_families.bottlerocket import BOTTLEROCKET
from core.ami_families.custom import CUSTOM
from core.ami_families.family import USER_DATA_BYTES_MAX, AmiFamily
from core.ami_families.registry import BY_ALIAS
from core.ami_families.user_data.toml_text import write_toml
from core.ami_families.user_data.yaml_text import write_yaml
from core.errors import InvalidInputError
from core.model.values.taints import UNREGISTERED, Taint

CLUSTER = Cluster(
    name="shop", endpoint="https://api.example", certificate_authority="Q0E=", service_cidr="10.100.0.0/16"
)
NODE = Bootstrap(
    cluster=CLUSTER,
    labels={"karpenter.sh/nodepool": "general", "team": "a"},
    taints=(Taint("gpu", "NoSchedule", "yes"), UNREGISTERED),
    max_pods=29,
)


def changed(**changes: Any) -> Bootstrap:
    return msgspec.structs.replace(NODE, **changes)


def documents(text: str) -> list[Message]:
    """Read as cloud-init reads it: by Python's own MIME parser."""
    parsed = email.message_from_string(text)
    assert parsed.is_multipart()
    return [part for part in parsed.walk() if not part.is_multipart()]


def node_config(text: str) -> Any:
    last = documents(text)[-1]
    assert last.get_content_type() == "application/node.eks.aws"
    return yaml.safe_load(str(last.get_payload()))


def test_an_al2023_node_joins_with_its_labels_and_taints() -> None:
    """Without any of this the instance runs, costs money, and never becomes a node."""
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
    """A user's kubelet setting would be dropped in silence."""
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
    """Nodeadm fails on the node, where nobody looks."""
    with pytest.raises(InvalidInputError, match="Services"):
        AL2023.user_data(changed(cluster=msgspec.structs.replace(CLUSTER, service_cidr="")))


@pytest.mark.parametrize(
    ("own", "content_type"),
    [
        ("#!/bin/bash\necho apiVersion: node.eks.aws/v1alpha1\n", "text/x-shellscript"),
        ("echo hi", "text/x-shellscript"),
        ("\tapiVersion: node.eks.aws/v1alpha1\n", "text/x-shellscript"),
        ("cat <<END\napiVersion: node.eks.aws/v1alpha1\nEND\n", "text/x-shellscript"),
        ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n", "application/node.eks.aws"),
        ("# ours\n\n---\nkind: NodeConfig\napiVersion : node.eks.aws/v1alpha1\n", "application/node.eks.aws"),
        ("\"kind\": NodeConfig\n'apiVersion': 'node.eks.aws/v1alpha1'\n", "application/node.eks.aws"),
        ('{"kind": "NodeConfig", "apiVersion": "node.eks.aws/v1alpha1"}', "application/node.eks.aws"),
        ('{\n  "apiVersion": "node.eks.aws/v1alpha1",\n  "kind": "NodeConfig"\n}\n', "application/node.eks.aws"),
    ],
)
def test_the_users_own_document_comes_first_under_its_type(own: str, content_type: str) -> None:
    """Nodeadm lets later documents win: the user's must not undo how the node joins."""
    first, last = documents(AL2023.user_data(changed(user_data=own)))
    assert first.get_content_type() == content_type
    assert str(first.get_payload()).strip() == own.strip()
    assert last.get_content_type() == "application/node.eks.aws"


@pytest.mark.parametrize("family", [AL2, AL2023])
@pytest.mark.parametrize("ending", ["--BOUND--", ""])
def test_the_users_archive_is_taken_apart_and_kept(family: Any, ending: str) -> None:
    """An archive inside an archive would be handed to no interpreter."""
    own = (
        'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="BOUND"\r\n\r\n--BOUND\r\n'
        "Content-Type: text/x-shellscript\r\nX-Note: kept\r\n\r\n#!/bin/sh\r\necho 1\r\n\r\n--BOUND\r\n"
        f"Content-Type: text/cloud-config\r\n\r\npackages: [jq]\r\n{ending}"
    )
    first, second, _ = documents(family.user_data(changed(user_data=own)))
    assert (first.get_content_type(), first["X-Note"]) == ("text/x-shellscript", "kept")
    assert str(first.get_payload()).strip() == "#!/bin/sh\necho 1"
    assert second.get_content_type() == "text/cloud-config"


@pytest.mark.parametrize("own", ["MIME-Version: 1.0\n\nno boundary", 'Content-Type: x; boundary="b"\n\nnothing'])
def test_a_broken_archive_names_the_field(own: str) -> None:
    """The user must learn that userData is at fault, not EC2."""
    with pytest.raises(InvalidInputError, match=r"spec\.userData"):
        AL2023.user_data(changed(user_data=own))


def test_bottlerocket_keeps_the_users_settings_under_ours() -> None:
    """A user's setting must not cut the node off, and ours must not wipe theirs."""
    own = """
[settings.kubernetes]
max-pods = 3
log-level = 4
[settings.kubernetes.node-labels]
team = "theirs"
own = "kept"
[settings.kubernetes.node-taints]
dropped = ["x:NoSchedule"]
[settings.host-containers.admin]
enabled = true
[settings.bootstrap-containers.x]
essential = false
"""
    block = {
        "evictionHard": {"memory.available": "5%"},
        "kubeReserved": {"cpu": "100m"},
        "imageGCHighThresholdPercent": 80,
        "cpuCFSQuota": False,
        "clusterDNS": ["10.1.2.3"],
    }
    settings = tomllib.loads(BOTTLEROCKET.user_data(changed(user_data=own, kubelet=block)))["settings"]
    kubernetes = settings["kubernetes"]
    assert kubernetes["node-labels"] == {"team": "a", "own": "kept", "karpenter.sh/nodepool": "general"}
    assert kubernetes["node-taints"] == {"gpu": ["yes:NoSchedule"], "karpenter.sh/unregistered": [":NoExecute"]}
    assert (kubernetes["max-pods"], kubernetes["log-level"]) == (29, 4)
    assert kubernetes["cluster-name"] == "shop"
    assert kubernetes["api-server"] == "https://api.example"
    assert kubernetes["cluster-certificate"] == "Q0E="
    assert kubernetes["cluster-dns-ip"] == "10.1.2.3"
    assert kubernetes["eviction-hard"] == {"memory.available": "5%"}
    assert kubernetes["kube-reserved"] == {"cpu": "100m"}
    assert kubernetes["image-gc-high-threshold-percent"] == "80"
    assert kubernetes["cpu-cfs-quota-enforced"] is False
    assert settings["host-containers"] == {"admin": {"enabled": True}}
    assert settings["bootstrap-containers"] == {"x": {"essential": False}}


@pytest.mark.parametrize(
    ("version", "names_directories"),
    [("latest", False), ("1.46.0", False), ("v1.50.1", False), ("1.45.9", True), ("", True)],
)
def test_bottlerocket_mounts_local_disks(version: str, names_directories: bool) -> None:
    """Older releases bind nothing unless told which directories; pods would fill the small root volume."""
    text = BOTTLEROCKET.user_data(changed(raids_instance_store=True, alias_release=version))
    command = tomllib.loads(text)["settings"]["bootstrap-commands"]["000-mount-instance-storage"]
    assert command["commands"][0] == ["apiclient", "ephemeral-storage", "init"]
    assert ("--dirs" in command["commands"][1]) == names_directories
    assert (command["mode"], command["essential"]) == ("always", True)


@pytest.mark.parametrize("family", [AL2, BOTTLEROCKET, BY_ALIAS["windows2022"]], ids=lambda family: family.name)
@pytest.mark.parametrize("text", ["", "dns", "10.0.0.10%x"])
def test_a_dns_server_that_is_no_address_names_the_field(family: AmiFamily, text: str) -> None:
    """Bottlerocket left an empty one out and started pods with another server than the class names."""
    with pytest.raises(InvalidInputError, match="clusterDNS"):
        family.user_data(changed(kubelet={"clusterDNS": [text]}))


@pytest.mark.parametrize("own", ["not toml", "[settings]\nkubernetes = 3"])
def test_bottlerocket_settings_that_cannot_be_merged_name_the_field(own: str) -> None:
    """Otherwise the node boots without the user's settings."""
    with pytest.raises(InvalidInputError, match=r"spec\.userData"):
        BOTTLEROCKET.user_data(changed(user_data=own))


def test_an_al2_node_calls_the_bootstrap_script() -> None:
    """AL2 nodes still exist on clusters that have not moved on."""
    block = {"systemReserved": {"memory": "100Mi"}, "evictionHard": {"memory.available": "7%"}, "podsPerCore": 2}
    text = AL2.user_data(changed(kubelet=block, raids_instance_store=True, user_data="#!/bin/sh\necho x\n"))
    own, script = (str(part.get_payload()) for part in documents(text))
    assert own.strip() == "#!/bin/sh\necho x"
    assert "/etc/eks/bootstrap.sh 'shop' --apiserver-endpoint 'https://api.example' --b64-cluster-ca 'Q0E='" in script
    assert "--use-max-pods false" in script
    assert "--local-disks raid0" in script
    expected = (
        '--node-labels="karpenter.sh/nodepool=general,team=a" '
        '--register-with-taints="gpu=yes:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=29 '
        '--pods-per-core=2 --system-reserved="memory=100Mi" --eviction-hard="memory.available<7%"'
    )
    assert f"--kubelet-extra-args '{expected}'" in script


def test_a_windows_node_calls_the_bootstrap_script() -> None:
    """Windows pods would wait for ever."""
    text = BY_ALIAS["windows2022"].user_data(changed(user_data="Write-Host hi"))
    assert text.startswith("<powershell>\nWrite-Host hi\n")
    assert "-EKSClusterName 'shop' -APIServerEndpoint 'https://api.example' -Base64ClusterCA 'Q0E='" in text
    assert text.endswith("</powershell>")


@pytest.mark.parametrize(
    ("service_cidr", "dns", "is_ipv6"),
    [
        ("172.16.0.0/16", "172.16.0.10", False),
        ("10.96.3.0/24", "10.96.3.10", False),
        ("fd30:1::/108", "fd30:1::a", True),
    ],
)
def test_nodes_that_call_a_bootstrap_script_are_told_where_the_cluster_dns_is(
    service_cidr: str, dns: str, is_ipv6: bool
) -> None:
    """The script guesses 10.100.0.10 or 172.20.0.10, and pods start without DNS where Services are elsewhere."""
    node = changed(cluster=msgspec.structs.replace(CLUSTER, service_cidr=service_cidr))
    script = AL2.user_data(node)
    assert f"--dns-cluster-ip '{dns}'" in script
    assert ("--ip-family ipv6" in script) == is_ipv6
    assert f"-DNSClusterIP '{dns}'" in BY_ALIAS["windows2022"].user_data(node)


@pytest.mark.parametrize("service_cidr", ["", "10.100.0.0/16"])
def test_a_class_own_dns_server_comes_first(service_cidr: str) -> None:
    """NodeLocal DNSCache would be passed by."""
    cluster = msgspec.structs.replace(CLUSTER, service_cidr=service_cidr)
    script = AL2.user_data(changed(cluster=cluster, kubelet={"clusterDNS": ["169.254.20.10"]}))
    assert "--dns-cluster-ip '169.254.20.10'" in script
    assert "10.100.0.10" not in script


def test_custom_user_data_is_left_alone() -> None:
    """Custom images are bootstrapped by the user alone."""
    assert CUSTOM.user_data(changed(user_data="anything")) == "anything"


def test_user_data_that_ec2_would_refuse_is_refused_here() -> None:
    """EC2's message names no object; ours does."""
    with pytest.raises(InvalidInputError, match=str(USER_DATA_BYTES_MAX)):
        CUSTOM.user_data(changed(user_data="x" * (USER_DATA_BYTES_MAX + 1)))


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
    """Pods would start on it before its labels and taints are complete."""
    assert registered_taints(["a=b:NoSchedule"]) == (Taint("a", "NoSchedule", "b"), UNREGISTERED)
    assert registered_taints([str(UNREGISTERED), "a:NoExecute"]) == (UNREGISTERED, Taint("a", "NoExecute"))
    with pytest.raises(InvalidInputError, match="a=b"):
        registered_taints(["a=b"])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
PLAIN = st.recursive(
    TEXT | st.integers(-(2**40), 2**40) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEY, PLAIN, max_size=4))
def test_yaml_reads_back_what_was_written(document: dict[str, Any]) -> None:
    """A label or setting with an odd character would change on its way to the node."""
    assert yaml.safe_load(write_yaml(document)) == document


TOML_PLAIN = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.integers(-(2**40), 2**40) | st.booleans()
)
TOML = st.recursive(
    TOML_PLAIN | st.dates(min_value=date(1000, 1, 1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEY, TOML, max_size=4))
def test_toml_reads_back_what_was_written(document: dict[str, Any]) -> None:
    """A Bottlerocket setting of the user's would change on its way to the node."""
    assert tomllib.loads(write_toml(document)) == document
