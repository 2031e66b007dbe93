"""EC2 types with real shapes and on-demand prices, and the usual DaemonSets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

from benchmarks.workloads.manifests import CAPACITY_TYPE, daemon_set, node_pool, requirement
from core.api.objects import JsonObject

LABEL: Final = "karpenter.k8s.aws/instance-"
_FAMILIES: Final = ("c", "m", "r")
_GENERATION_MIN: Final = 5
_ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
_FILE: Final = "ec2-us-east-1.catalog.json.gz"


def ec2_catalogue(data: Path) -> JsonObject:
    """The catalogue in the data folder; if there is none, the built-in one reduced to the same families and zones."""
    path = data / _FILE
    if path.is_file():
        catalogue: JsonObject = json.loads(gzip.decompress(path.read_bytes()))
        return catalogue
    from core.catalogue import document
    from simulator.market.embedded import builtin_catalogue

    instance_types = json.loads(document.encode(builtin_catalogue("us-east-1")))["instanceTypes"]
    for kind in instance_types:
        kind["offerings"] = [offering for offering in kind["offerings"] if offering["zone"] in _ZONES]
    return {"instanceTypes": [kind for kind in instance_types if kind["offerings"] and _is_general(kind)]}


def plain_types(catalogue: JsonObject) -> JsonObject:
    """Only types for general purposes: families c, m and r of the fifth generation and newer."""
    return {"instanceTypes": [kind for kind in catalogue["instanceTypes"] if _is_general(kind)]}


def gpu_types(catalogue: JsonObject) -> JsonObject:
    """Only types with NVIDIA GPUs."""
    return {"instanceTypes": [kind for kind in catalogue["instanceTypes"] if "nvidia.com/gpu" in kind["capacity"]]}


def ec2_cluster(cpus_max: int = 0) -> list[JsonObject]:
    """An on-demand NodePool and the usual DaemonSets: network, proxy, volumes, logs.

    Args:
        cpus_max: The largest node, in vCPU; 0 for any.
    """
    rules = [requirement(CAPACITY_TYPE, "In", "on-demand")]
    if cpus_max:
        rules.append(requirement(f"{LABEL}cpu", "Lt", str(cpus_max + 1)))
    return [
        node_pool(*rules),
        daemon_set("network", cpu=50, memory=0),
        daemon_set("proxy", cpu=100, memory=0),
        daemon_set("volumes", cpu=30, memory=120),
        daemon_set("logs", cpu=100, memory=200),
    ]


def _is_general(kind: JsonObject) -> bool:
    labels = kind["requirements"]
    category, generation = labels.get(f"{LABEL}category", [""])[0], labels.get(f"{LABEL}generation", ["0"])[0]
    return category in _FAMILIES and int(generation) >= _GENERATION_MIN
