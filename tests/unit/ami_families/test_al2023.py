"""What a node of Amazon Linux 2023 reads when it starts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.ami_families.al2023 import AL2023, SHELL, Part, is_archive, read_archive, write_archive, write_yaml
from core.ami_families.bootstrap_scripts import AL2
from core.errors import InvalidInputError
from tests.unit.ami_families.nodes import CLUSTER, NODE, changed, documents, node_config


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


# Several documents in one user data.


@pytest.mark.parametrize("family", [AL2, AL2023])
@pytest.mark.parametrize("ending", ["--BOUND--", ""])
def test_the_users_archive_is_unpacked_and_its_parts_kept(family: Any, ending: str) -> None:
    """Otherwise, the inner archive is handed to no interpreter."""
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
    """The message must name userData; EC2's does not."""
    with pytest.raises(InvalidInputError, match=r"spec\.userData"):
        AL2023.user_data(changed(user_data=own))


@pytest.mark.parametrize("family", [AL2, AL2023])
@pytest.mark.parametrize(
    ("own", "content_type"),
    [
        ("#cloud-config\npackages: [jq]\n", "text/cloud-config"),
        ("\n#cloud-config \r\npackages: [jq]\n", "text/cloud-config"),
        ("#cloud-config-archive\n- type: text/x-shellscript\n", "text/x-shellscript"),
        ("#!/bin/sh\n#cloud-config\n", "text/x-shellscript"),
    ],
)
def test_a_cloud_config_keeps_its_content_type(family: Any, own: str, content_type: str) -> None:
    """As a script it was executed: every line was a comment or an error, and nothing was applied."""
    first, _ = documents(family.user_data(changed(user_data=own)))
    assert first.get_content_type() == content_type


def test_the_boundary_is_karpenters_unless_a_document_has_it_as_a_line() -> None:
    """Such a line would end the document, and the rest of the user's script would be lost."""
    assert 'boundary="//"' in write_archive([Part.of(SHELL, "echo --//")])
    assert 'boundary="///"' in write_archive([Part.of(SHELL, "echo\n--//")])
    assert 'boundary="////"' in write_archive([Part.of(SHELL, "--//"), Part("X-Note: y\n--///", "z")])


def test_what_stands_before_the_first_boundary_and_after_the_end_is_no_document() -> None:
    own = "content-type: multipart/mixed; BOUNDARY=b; x=y\n\npreamble\n--b\nA: 1\n\nx\n\ny\n--b--\n--b\nB: 2\n\nlost"
    assert is_archive(own)
    assert read_archive(own) == (Part("A: 1", "x\n\ny"),)


# Plain data as YAML.


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
PLAIN = st.recursive(
    TEXT | st.integers(-(2**40), 2**40) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEY, PLAIN, max_size=4))
def test_yaml_round_trips(document: dict[str, Any]) -> None:
    """Otherwise, a label or setting with an odd character changes on its way to the node."""
    assert yaml.safe_load(write_yaml(document)) == document


def test_mappings_and_lists_are_written_as_a_person_would() -> None:
    """A node's user data are read when it does not join."""
    assert write_yaml({"a": [{"b": 1, "c": []}, "x"], "no": {}, "d": ("e",)}) == (
        'a:\n  - b: 1\n    c: []\n  - "x"\n"no": {}\nd:\n  - "e"\n'
    )


def test_a_key_is_as_long_as_yaml_lets_it_be() -> None:
    assert write_yaml({"k" * 128: 1}) == f"{'k' * 128}: 1\n"
    with pytest.raises(InvalidInputError, match="longer than a key may be"):
        write_yaml({"k" * 129: 1})
