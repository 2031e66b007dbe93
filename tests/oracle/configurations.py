"""The EC2NodeClasses for which our catalogue is compared with Karpenter's provider: each AMI family in six configurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

FAMILIES: Final = {
    "al2": "al2@latest",
    "al2023": "al2023@latest",
    "bottlerocket": "bottlerocket@latest",
    "windows2022": "windows2022@latest",
    "custom": "",
}
"""Family → alias of its images; Custom has none."""

CONFIGURATIONS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "max-pods": {"kubelet": {"maxPods": 42}},
    "pods-per-core": {"kubelet": {"podsPerCore": 3, "systemReserved": {"cpu": "200m", "memory": "300Mi"}}},
    "eviction": {
        "kubelet": {
            "evictionHard": {"memory.available": "5%", "nodefs.available": "15%"},
            "kubeReserved": {"memory": "1Gi"},
        }
    },
    "raid0": {"instanceStorePolicy": "RAID0"},
    "volume": {
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": "77Gi"}}],
    },
}

OWN_USER_DATA: Final = {
    "al2": "#!/bin/bash\necho own\n",
    "al2023": "#!/bin/bash\necho own\n",
    "bottlerocket": '[settings.kernel]\nlockdown = "integrity"\n',
    "windows2022": "Write-Host own",
    "custom": "own",
}
"""Family → the user's own data of the configuration `volume`."""

MAX_PODS: Final = 42
"""Karpenter's launches fill in what the type holds; the user data of all classes is asked for with this number."""


def classes(*, with_max_pods: bool = False) -> Iterator[dict[str, Any]]:
    """The manifests, named FAMILY.CONFIGURATION."""
    for family, alias in FAMILIES.items():
        for name, spec in CONFIGURATIONS.items():
            images = {"amiSelectorTerms": [{"alias": alias} if alias else {"id": "ami-1"}]}
            own = {"userData": OWN_USER_DATA[family]} if name == "volume" else {}
            kubelet = {**spec.get("kubelet", {}), **({"maxPods": MAX_PODS} if with_max_pods else {})}
            yield {
                "apiVersion": "karpenter.k8s.aws/v1",
                "kind": "EC2NodeClass",
                "metadata": {"name": f"{family}.{name}"},
                "spec": {**images, **({} if alias else {"amiFamily": "Custom"}), **own, **spec, "kubelet": kubelet},
            }
