"""A thousand pods of forty Deployments at once, with every kind of constraint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.api.objects import JsonObject
from tests.e2e.scenarios.objects import (
    AMD64,
    deployment,
    near,
    node_pool,
    node_terms,
    prefers,
    requirement,
    spread,
)

DEPLOYMENTS: Final = 40
REPLICAS: Final = 25
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
CAPACITY: Final = "karpenter.sh/capacity-type"
SIZES: Final = (("250m", "256Mi"), ("500m", "1Gi"), ("1", "1Gi"), ("750m", "3Gi"))
DEDICATED: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}

Kind = Callable[[str], JsonObject]

KINDS: Final[tuple[Kind, ...]] = (
    lambda _: {},
    lambda _: {"nodeSelector": {ZONE: "us-east-1b"}},
    lambda _: node_terms(requirement(CAPACITY, "on-demand")),
    lambda app: spread(app, ZONE),
    lambda app: spread(app, HOST, skew=4),
    lambda app: near(app, ZONE),
    lambda app: near(app, HOST, apart=True),
    lambda _: {"nodeSelector": {"pool": "dedicated"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    lambda app: prefers(requirement(ZONE, "us-east-1a")) | spread(app, ZONE, must=False),
    lambda _: node_terms(requirement(ZONE, "us-east-1c", operator="NotIn"), requirement(CAPACITY, operator="Exists")),
)
"""One kind of constraint each; a Deployment takes its kind by its number."""


def pools() -> list[JsonObject]:
    """A pool for everyone, and a tainted one; where kube-scheduler leaves a node empty it goes."""
    both = requirement(CAPACITY, "spot", "on-demand")
    empty_go: JsonObject = {"policy": "WhenEmpty", "consolidate_after": "5s"}
    tainted: JsonObject = {"labels": {"pool": "dedicated"}, "template": {"taints": [DEDICATED]}, "weight": 10}
    return [node_pool("burst", AMD64, both, **empty_go), node_pool("dedicated", AMD64, both, **empty_go, **tainted)]


def workload(namespace: str, replicas: int = REPLICAS, deployments: int = DEPLOYMENTS) -> list[JsonObject]:
    """The Deployments."""
    found = []
    for number in range(deployments):
        app = f"app-{number:02d}"
        cpu, memory = SIZES[number // len(KINDS) % len(SIZES)]
        ports = (8000 + number,) if number == 10 else ()
        found.append(
            deployment(namespace, app, replicas, cpu=cpu, memory=memory, ports=ports, **KINDS[number % len(KINDS)](app))
        )
    return found
