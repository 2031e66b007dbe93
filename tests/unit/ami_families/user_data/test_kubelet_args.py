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
