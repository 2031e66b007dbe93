"""The kubelet's command line."""

from __future__ import annotations

import subprocess
from typing import Any

import msgspec
import pytest

from core.ami_families.bootstrap_scripts import AL2, bash_quoted, kubelet_args, powershell_quoted
from core.ami_families.registry import BY_ALIAS
from core.errors import InvalidInputError
from tests.unit.ami_families.nodes import CLUSTER, changed, documents

# What a node of Amazon Linux 2 reads when it starts.


def test_an_al2_node_calls_the_bootstrap_script() -> None:
    """AL2 nodes still exist on clusters that have not moved on."""
    block = {
        "systemReserved": {"memory": "100Mi"},
        "evictionHard": {"memory.available": "7%"},
        "evictionSoft": {"nodefs.available": "9%"},
        "evictionSoftGracePeriod": {"nodefs.available": "2m"},
        "podsPerCore": 2,
    }
    text = AL2.user_data(changed(kubelet=block, raids_instance_store=True, user_data="#!/bin/sh\necho x\n"))
    own, script = (str(part.get_payload()) for part in documents(text))
    assert own.strip() == "#!/bin/sh\necho x"
    assert "/etc/eks/bootstrap.sh 'shop' --apiserver-endpoint 'https://api.example' --b64-cluster-ca 'Q0E='" in script
    assert "--use-max-pods false" in script
    assert "--local-disks raid0" in script
    expected = (
        '--node-labels="karpenter.sh/nodepool=general,team=a" '
        '--register-with-taints="gpu=yes:NoSchedule,karpenter.sh/unregistered:NoExecute" --max-pods=29 '
        '--pods-per-core=2 --system-reserved="memory=100Mi" --eviction-hard="memory.available<7%" '
        '--eviction-soft="nodefs.available<9%" --eviction-soft-grace-period="nodefs.available=2m"'
    )
    assert f"--kubelet-extra-args '{expected}'" in script


def test_an_option_that_nothing_is_known_for_is_left_out() -> None:
    """The script asks EKS for what it is not given; an empty address would be taken for one."""
    cluster = msgspec.structs.replace(CLUSTER, certificate_authority="", service_cidr="")
    script = AL2.user_data(changed(cluster=cluster))
    assert [
        option
        for option in ("--b64-cluster-ca", "--dns-cluster-ip", "--ip-family", "--local-disks")
        if option in script
    ] == []


def test_user_data_of_blanks_is_no_document() -> None:
    assert len(documents(AL2.user_data(changed(user_data=" \n")))) == 1


# What a Windows node reads when it starts.


def test_a_windows_node_calls_the_bootstrap_script() -> None:
    """Otherwise, Windows pods would wait forever."""
    text = BY_ALIAS["windows2022"].user_data(changed(user_data="Write-Host hi"))
    assert text.startswith("<powershell>\nWrite-Host hi\n")
    assert "-EKSClusterName 'shop' -APIServerEndpoint 'https://api.example' -Base64ClusterCA 'Q0E='" in text
    assert text.endswith("</powershell>")


def test_each_release_of_windows_server_has_an_alias() -> None:
    """These are the years that EKS publishes images for, and that EC2NodeClasses name."""
    assert {alias for alias in BY_ALIAS if alias.startswith("windows")} == {"windows2019", "windows2022", "windows2025"}


def test_an_argument_without_a_value_is_left_out() -> None:
    """PowerShell would take the next argument's name for its value."""
    cluster = msgspec.structs.replace(CLUSTER, certificate_authority="", service_cidr="")
    text = BY_ALIAS["windows2022"].user_data(changed(cluster=cluster, user_data="\n"))
    assert text.startswith("<powershell>\n[string]$EKSBootstrapScriptFile")
    assert "-Base64ClusterCA" not in text
    assert "-DNSClusterIP" not in text
    assert "-KubeletExtraArgs '--node-labels=" in text


# Arguments of bootstrap scripts.


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


def test_settings_become_arguments_in_one_order() -> None:
    """Otherwise, equal classes give other user data, and with it another launch template."""
    block = {
        "cpuCFSQuota": False,
        "imageGCHighThresholdPercent": 85,
        "kubeReserved": {"memory": "1Gi", "cpu": "100m"},
        "evictionSoftGracePeriod": {"memory.available": "1m30s"},
    }
    found = kubelet_args(changed(kubelet=block, labels={"b": "2", "a": "1"}, max_pods=58)).split(" ")
    assert found == [
        '--node-labels="a=1,b=2"',
        '--register-with-taints="gpu=yes:NoSchedule,karpenter.sh/unregistered:NoExecute"',
        "--max-pods=58",
        '--kube-reserved="cpu=100m,memory=1Gi"',
        '--eviction-soft-grace-period="memory.available=1m30s"',
        "--image-gc-high-threshold=85",
        "--cpu-cfs-quota=false",
    ]


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"kubeReserved": {"cpu": "1,memory=9Gi"}}, "spec.kubelet.kubeReserved"),
        ({"evictionHard": {"memory.available": '5%" --v=9'}}, "spec.kubelet.evictionHard"),
        ({"systemReserved": {"cpu extra": "1"}}, "spec.kubelet.systemReserved"),
        ({"podsPerCore": "2; reboot"}, "spec.kubelet.podsPerCore"),
        ({"evictionMaxPodGracePeriod": "30"}, "spec.kubelet.evictionMaxPodGracePeriod"),
    ],
)
def test_a_setting_stays_within_its_argument(block: dict[str, Any], field: str) -> None:
    """A shell, systemd and the kubelet each split the line: what gets out of its argument becomes another one."""
    with pytest.raises(InvalidInputError) as refused:
        kubelet_args(changed(kubelet=block))
    assert refused.value.field == field


def test_every_setting_has_its_argument_and_its_sign() -> None:
    """The kubelet does not start with `memory.available=5%` as a threshold, and a lost setting is a node without it."""
    block = {
        "podsPerCore": 4,
        "systemReserved": {"memory": "2Gi"},
        "kubeReserved": {"cpu": "100m"},
        "evictionHard": {"nodefs.available": "10%", "memory.available": "5%"},
        "evictionSoft": {"memory.available": "10%"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
        "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 85,
        "imageGCLowThresholdPercent": 80,
        "cpuCFSQuota": True,
    }
    found = kubelet_args(changed(kubelet=block, labels={}, max_pods=58)).split(" ")
    assert found[1:] == [
        "--max-pods=58",
        "--pods-per-core=4",
        '--system-reserved="memory=2Gi"',
        '--kube-reserved="cpu=100m"',
        '--eviction-hard="memory.available<5%,nodefs.available<10%"',
        '--eviction-soft="memory.available<10%"',
        '--eviction-soft-grace-period="memory.available=1m"',
        "--eviction-max-pod-grace-period=60",
        "--image-gc-high-threshold=85",
        "--image-gc-low-threshold=80",
        "--cpu-cfs-quota=true",
    ]


# Quoting for the shells that read user data.


@pytest.mark.parametrize("text", ["plain", "it's", "$(id)", "`id`", '"', "\\", "'; echo no; '"])
def test_bash_reads_back_the_quoted_text(text: str) -> None:
    """Otherwise, parts of the text are executed."""
    script = f"printf %s {bash_quoted(text, field='f')}"
    assert subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode() == text  # noqa: S603, S607


def test_powershell_text_ends_at_typographic_quotes_too() -> None:
    """Every kind of quote must be doubled, not only the plain one."""
    assert powershell_quoted("it's \u2019x\u2018", field="f") == "'it''s \u2019\u2019x\u2018\u2018'"


@pytest.mark.parametrize("text", ["a\nb", "a\x00", "</PowerShell>"])
def test_text_that_no_quote_can_hold_is_refused_with_its_field(text: str) -> None:
    """EC2Launch cuts the script at its tag before PowerShell sees a quote."""
    with pytest.raises(InvalidInputError, match=r"cluster\.name: .* cannot be part of a script"):
        powershell_quoted(text, field="cluster.name")


def test_bash_gets_no_control_characters() -> None:
    """A line break in an argument would begin another command for what parses it again."""
    with pytest.raises(InvalidInputError, match=r"cluster\.name: .* cannot be part of a script"):
        bash_quoted("a\nb", field="cluster.name")
    assert bash_quoted("</powershell>", field="f") == "'</powershell>'"
