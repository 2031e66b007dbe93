"""What a node of Bottlerocket reads when it starts."""

from __future__ import annotations

import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ami_families.bottlerocket import BOTTLEROCKET, release_of, write_toml
from core.errors import InvalidInputError
from core.model.values.taints import Taint
from tests.unit.ami_families.nodes import changed


def test_the_release_is_the_aliass_then_the_images() -> None:
    """As SSM's parameters and the rules about releases name it: without the `v`."""
    image = "bottlerocket-aws-k8s-1.34-x86_64-v1.46.0-abc"
    given = [("v1.30.0", image), ("latest", image), ("", image), ("", "mine-vnext")]
    found = [release_of(changed(alias_release=alias, image_name=name)) for alias, name in given]
    assert found == ["1.30.0", "latest", "1.46.0", ""]


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
    [
        ("latest", False),
        ("1.46.0", False),
        ("v1.50.1", False),
        ("1.45.9", True),
        ("2.0.0", False),
        ("0.47.1", True),
        ("", True),
    ],
)
def test_bottlerocket_mounts_local_disks(version: str, names_directories: bool) -> None:
    """Older releases mount nothing unless the directories are named; pods would fill the small root volume."""
    text = BOTTLEROCKET.user_data(changed(raids_instance_store=True, alias_release=version))
    command = tomllib.loads(text)["settings"]["bootstrap-commands"]["000-mount-instance-storage"]
    assert command["commands"][0] == ["apiclient", "ephemeral-storage", "init"]
    assert ("--dirs" in command["commands"][1]) == names_directories
    assert (command["mode"], command["essential"]) == ("always", True)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("not toml", "not valid TOML"),
        ("settings = 3", "settings must be a table"),
        ("[settings]\nkubernetes = 3", "settings.kubernetes must be a table"),
        ("[settings.kubernetes]\nnode-labels = 3", "settings.kubernetes.node-labels must be a table"),
    ],
)
def test_bottlerocket_settings_that_cannot_be_merged_name_the_field(own: str, said: str) -> None:
    """Otherwise the node boots without the user's settings."""
    with pytest.raises(InvalidInputError, match=said) as refused:
        BOTTLEROCKET.user_data(changed(user_data=own))
    assert refused.value.field == "spec.userData"


def test_bottlerocket_gets_each_kubelet_setting_under_its_own_name() -> None:
    """An unknown setting stops the boot, and a lost one is a node without it. The two percentages are strings."""
    block = {
        "systemReserved": {"memory": "1Gi"},
        "kubeReserved": {"cpu": "100m"},
        "evictionHard": {"memory.available": "5%"},
        "evictionSoft": {"memory.available": "9%"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
        "evictionMaxPodGracePeriod": 0,
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 0,
        "cpuCFSQuota": False,
    }
    text = BOTTLEROCKET.user_data(
        changed(labels={}, taints=(Taint("a", "NoSchedule"), Taint("a", "NoExecute", "b")), kubelet=block)
    )
    assert tomllib.loads(text)["settings"]["kubernetes"] == {
        "cluster-name": "shop",
        "api-server": "https://api.example",
        "cluster-certificate": "Q0E=",
        "node-labels": {},
        "node-taints": {"a": [":NoSchedule", "b:NoExecute"]},
        "max-pods": 29,
        "system-reserved": {"memory": "1Gi"},
        "kube-reserved": {"cpu": "100m"},
        "eviction-hard": {"memory.available": "5%"},
        "eviction-soft": {"memory.available": "9%"},
        "eviction-soft-grace-period": {"memory.available": "1m"},
        "eviction-max-pod-grace-period": 0,
        "image-gc-high-threshold-percent": "85",
        "image-gc-low-threshold-percent": "0",
        "cpu-cfs-quota-enforced": False,
    }


# Plain data as TOML.


KEY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
TOML_PLAIN = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.integers(-(2**40), 2**40) | st.booleans()
)


TOML = st.recursive(
    TOML_PLAIN | st.dates(min_value=date(1000, 1, 1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEY, TOML, max_size=4))
def test_toml_round_trips(document: dict[str, Any]) -> None:
    """Otherwise, a user's Bottlerocket setting changes on its way to the node."""
    assert tomllib.loads(write_toml(document)) == document


def test_a_table_of_tables_alone_has_no_header_of_its_own() -> None:
    """Nodes' settings are read by people, too."""
    assert write_toml({"a": {"b": {"c": 1}}}) == "[a.b]\nc = 1\n"


def test_keys_and_tables_have_one_order_and_values_come_first() -> None:
    """Equal settings give equal user data: otherwise each pass would make another launch template."""
    document = {"b": {"y": [{"d": 1, "c": 2}], "x": [1, True]}, "a": date(2026, 1, 2), "empty": {}, "of space": "\x7f"}
    assert write_toml(document) == (
        'a = 2026-01-02\n"of space" = "\\u007F"\n\n[b]\nx = [1, true]\n\n[[b.y]]\nc = 2\nd = 1\n\n[empty]\n'
    )
    assert write_toml(dict(reversed(document.items()))) == write_toml(document)
