"""What a Windows node reads when it starts."""

from __future__ import annotations

import msgspec

from core.ami_families.registry import BY_ALIAS
from tests.unit.ami_families.nodes import CLUSTER, changed


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
