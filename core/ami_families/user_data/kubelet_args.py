"""The kubelet's command line, for families whose bootstrap takes one (AL2, Windows). Same settings, same text.

The line is parsed several times: by a shell, by systemd, which splits it at blanks and quotes, and by the kubelet, which splits
values at commas. Nothing in it may therefore contain any of these; the content of labels and taints is checked before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.ami_families.bootstrap import Bootstrap
from core.errors import InvalidInputError
from core.model.values.label_syntax import shown

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
_PIECE: Final = re.compile(r"[A-Za-z0-9.%+µμ-]*")
"""Allows signals, resources, quantities, percentages and durations; no more."""


def kubelet_args(bootstrap: Bootstrap) -> str:
    """All arguments, separated by spaces.

    Raises:
        InvalidInputError: If a setting would not stay within its argument; the error names the setting.
    """
    return " ".join(_args(bootstrap))


def _args(bootstrap: Bootstrap) -> Iterator[str]:
    if bootstrap.labels:
        yield _flag("node-labels", ",".join(f"{k}={v}" for k, v in sorted(bootstrap.labels.items())))
    yield _flag("register-with-taints", ",".join(str(taint) for taint in bootstrap.taints))
    yield f"--max-pods={bootstrap.max_pods}"
    block: Mapping[str, Any] = bootstrap.kubelet
    if block.get("podsPerCore"):
        yield f"--pods-per-core={_number(block, 'podsPerCore')}"
    for setting, flag, sign in _MAPPINGS:
        entries = block.get(setting)
        if entries:
            pieces = {key: _piece(str(entries[key]), f"spec.kubelet.{setting}") for key in sorted(entries)}
            names = {key: _piece(key, f"spec.kubelet.{setting}") for key in pieces}
            yield _flag(flag, ",".join(f"{names[key]}{sign}{pieces[key]}" for key in pieces))
    for setting, flag in _SCALARS:
        if block.get(setting) is not None:
            yield f"--{flag}={_number(block, setting)}"


def _number(block: Mapping[str, Any], setting: str) -> str:
    """A whole number, or true or false."""
    if not isinstance(block[setting], int):
        raise InvalidInputError(f"{shown(str(block[setting]))} is not a number", field=f"spec.kubelet.{setting}")
    return json.dumps(block[setting])


def _piece(text: str, field: str) -> str:
    if _PIECE.fullmatch(text) is None:
        raise InvalidInputError(f"{shown(text)} cannot be part of an argument of the kubelet", field=field)
    return text


def _flag(name: str, value: str) -> str:
    return f"--{name}={json.dumps(value)}"
