"""A running cluster, with additional pending pods."""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.workloads.diverse import diverse_pods
from benchmarks.workloads.ec2 import ec2_cluster, plain_types
from benchmarks.workloads.manifests import PodShape, Workload, allocatable, mebibytes, node_and_claim, numbered
from benchmarks.workloads.services import MICRO, drawn_services
from core.api.objects import JsonObject

_SERVICES: Final = 300
_SIZES: Final = ("xlarge", "2xlarge", "4xlarge")
_FAMILIES: Final = ("c5", "m5", "r5", "c6i", "m6i", "r6i")
_ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
_PODS_PER_NODE: Final = 5
_FILL: Final = (0.3, 0.85)
"""The range of the share of its CPU to which a node is filled."""


def existing(nodes: int, pending: int, catalogue: JsonObject) -> Workload:
    """Half-full nodes of several families, and pending pods of Karpenter's diverse benchmark."""
    kinds = plain_types(catalogue)
    wanted = {f"{family}.{size}" for family in _FAMILIES for size in _SIZES}
    shapes = [kind for kind in kinds["instanceTypes"] if kind["name"] in wanted]
    draws = np.random.default_rng(3)
    services = [shape for shape, _ in drawn_services("s", _PODS_PER_NODE * nodes, _SERVICES, MICRO, seed=0)]
    pods, cluster = numbered(diverse_pods(pending)), ec2_cluster()
    for number in range(nodes):
        name, kind = f"node-{number:04d}", shapes[int(draws.integers(len(shapes)))]
        cluster += node_and_claim(name, kind, _ZONES[number % len(_ZONES)])
        pods += _running(name, kind, draws, services)
    return Workload(pods, cluster, kinds)


def _running(node: str, kind: JsonObject, draws: np.random.Generator, services: list[PodShape]) -> list[JsonObject]:
    room = allocatable(kind)
    cpu = int(int(room["cpu"].removesuffix("m")) * draws.uniform(*_FILL))
    memory = int(mebibytes(room["memory"]) * _FILL[1])
    pods: list[JsonObject] = []
    while True:
        shape = services[int(draws.integers(len(services)))]
        if shape.cpu > cpu or shape.memory > memory:
            return pods
        cpu, memory = cpu - shape.cpu, memory - shape.memory
        pods.append(shape.manifest(f"{node}-{len(pods)}", node=node))
