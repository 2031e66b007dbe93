"""What a Windows node reads when it starts."""

from __future__ import annotations

from core.ami_families.registry import BY_ALIAS
from tests.unit.ami_families.nodes import (
    changed,
)


def test_a_windows_node_calls_the_bootstrap_script() -> None:
    """Otherwise, Windows pods would wait forever."""
    text = BY_ALIAS["windows2022"].user_data(changed(user_data="Write-Host hi"))
    assert text.startswith("<powershell>\nWrite-Host hi\n")
    assert "-EKSClusterName 'shop' -APIServerEndpoint 'https://api.example' -Base64ClusterCA 'Q0E='" in text
    assert text.endswith("</powershell>")


def test_each_release_of_windows_server_has_an_alias() -> None:
    """These are the years that EKS publishes images for, and that EC2NodeClasses name."""
    assert {alias for alias in BY_ALIAS if alias.startswith("windows")} == {"windows2019", "windows2022", "windows2025"}
