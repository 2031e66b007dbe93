"""Nodes and rules for the tests of bindings."""

from __future__ import annotations

from typing import Any

from core import labels
from core.model.pod import LabelSelector, Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Node
from core.model.values.requirements import Requirement
from core.model.values.taints import HELD
from tests.builders import a_pod

WEB = {"app": "web"}
OF_WEB = LabelSelector((Requirement.one_of("app", "web"),))


def a_held_node(name: str = "n", *, zone: str = "a", **changes: Any) -> Node:
    """A held, ready node with four processors."""
    fields = {
        "labels": {labels.ZONE: zone, labels.HOSTNAME: name},
        "taints": (HELD,),
        "allocatable": {"cpu": 4000, "memory": 1 << 34, "pods": 10},
        "is_ready": True,
    }
    return Node(name=name, **{**fields, **changes})


def web(name: str, node: str = "", **changes: Any) -> Pod:
    """A pod of the workload that the rules here select, bound to a node if one is named."""
    return a_pod(name, labels=WEB, node_name=node, **changes)


def a_spread(max_skew: int = 1, key: str = labels.ZONE, **changes: Any) -> TopologySpread:
    """A DoNotSchedule constraint over web pods."""
    return TopologySpread(key, max_skew, selector=OF_WEB, **changes)


def a_term(key: str = labels.ZONE, **changes: Any) -> PodAffinityTerm:
    """An affinity term that selects web pods."""
    return PodAffinityTerm(key, selector=OF_WEB, **changes)
