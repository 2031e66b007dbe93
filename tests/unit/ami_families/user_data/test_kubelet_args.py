"""The kubelet's command line."""

from __future__ import annotations

from typing import Any

import pytest

from core.ami_families.user_data.kubelet_args import kubelet_args
from core.errors import InvalidInputError
from tests.unit.ami_families.nodes import changed


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
