"""NodePools and EC2NodeClasses of a world, drawn by its seed."""

from __future__ import annotations

from random import Random
from typing import Final

from core.api.objects import JsonObject
from simulator.campaign.market import ARCHITECTURES

NAMES: Final = ("default", "other", "third")
WINDOW: Final = {"schedule": "*/5 * * * *", "duration": "2m"}
"""A budget window that opens several times during a world."""

_CLASS: Final = "default"


def draw_pools(rng: Random) -> list[JsonObject]:
    """One to three NodePools with limits, budgets, expiry and grace periods of all kinds, and their EC2NodeClass."""
    names = NAMES[: rng.choice((1, 2, 2, 3))]
    return [_node_class(), *(_node_pool(rng, name) for name in names)]


def _node_class() -> JsonObject:
    terms = [{"tags": {"karpenter.sh/discovery": "fleetwright"}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": _CLASS},
        "spec": {
            "role": "FleetwrightNodeRole",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }


def _node_pool(rng: Random, name: str) -> JsonObject:
    spec: JsonObject = {"template": {"spec": _template(rng)}, "disruption": _disruption(rng)}
    if rng.random() < 0.5:
        spec["weight"] = rng.choice((1, 10, 50))
    if rng.random() < 0.4:
        spec["limits"] = rng.choice(({"cpu": "16"}, {"cpu": "32"}, {"cpu": "64"}, {"memory": "128Gi"}, {"nodes": "6"}))
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def _template(rng: Random) -> JsonObject:
    capacity_types = rng.choice((["spot"], ["on-demand"], ["spot", "on-demand"], ["spot", "on-demand"]))
    architectures = rng.choice((ARCHITECTURES[:1], ARCHITECTURES[:1], ARCHITECTURES))
    template: JsonObject = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": _CLASS},
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types},
            {"key": "kubernetes.io/arch", "operator": "In", "values": list(architectures)},
        ],
    }
    template["expireAfter"] = rng.choice(("4m", "7m", "12m")) if rng.random() < 0.35 else "Never"
    if rng.random() < 0.5:
        template["terminationGracePeriod"] = rng.choice(("1m", "3m", "6m"))
    return template


def _disruption(rng: Random) -> JsonObject:
    return {
        "consolidationPolicy": rng.choice(("WhenEmpty", "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized")),
        "consolidateAfter": rng.choice(("0s", "30s", "1m", "2m")),
        "budgets": [_budget(rng) for _ in range(rng.choice((1, 1, 2)))],
    }


def _budget(rng: Random) -> JsonObject:
    budget: JsonObject = {"nodes": rng.choice(("1", "2", "10%", "50%", "100%"))}
    if rng.random() < 0.2:
        budget["reasons"] = [rng.choice(("Empty", "Drifted", "Underutilized"))]
    if rng.random() < 0.15:
        budget |= {"nodes": "0", **WINDOW}
    return budget
