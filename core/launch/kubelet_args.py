"""The kubelet's command line, for families whose bootstrap takes one (AL2, Windows). Same settings, same text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.launch.bootstrap import Bootstrap

_MAPPINGS: Final = (
    ("systemReserved", "system-reserved", "="),
    ("kubeReserved", "kube-reserved", "="),
    ("evictionHard", "eviction-hard", "<"),
    ("evictionSoft", "eviction-soft", "<"),
    ("evictionSoftGracePeriod", "eviction-soft-grace-period", "="),
)
_SCALARS: Final = (
    ("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"),
    ("imageGCHighThresholdPercent", "image-gc-high-threshold"),
    ("imageGCLowThresholdPercent", "image-gc-low-threshold"),
    ("cpuCFSQuota", "cpu-cfs-quota"),
)


def kubelet_args(bootstrap: Bootstrap) -> str:
    """All arguments, separated by spaces."""
    return " ".join(_args(bootstrap))


def _args(bootstrap: Bootstrap) -> Iterator[str]:
    if bootstrap.labels:
        yield _flag("node-labels", ",".join(f"{k}={v}" for k, v in sorted(bootstrap.labels.items())))
    yield _flag("register-with-taints", ",".join(str(taint) for taint in bootstrap.taints))
    yield f"--max-pods={bootstrap.max_pods}"
    block: Mapping[str, Any] = bootstrap.kubelet
    if block.get("podsPerCore"):
        yield f"--pods-per-core={block['podsPerCore']}"
    for setting, flag, sign in _MAPPINGS:
        entries = block.get(setting)
        if entries:
            yield _flag(flag, ",".join(f"{key}{sign}{entries[key]}" for key in sorted(entries)))
    for setting, flag in _SCALARS:
        if block.get(setting) is not None:
            yield f"--{flag}={json.dumps(block[setting])}"


def _flag(name: str, value: str) -> str:
    return f"--{name}={json.dumps(value)}"
