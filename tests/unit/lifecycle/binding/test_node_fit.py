"""Why a node does not admit a pod; the kubelet would fail such a pod."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.lifecycle.binding.node_fit import objection_of_node
from core.lifecycle.binding.placed_pods import PlacedPods
from core.model.node import Node
from core.model.pod import HostPort, NodeSelectorTerm, Pod
from core.model.values.requirements import Requirement
from core.model.values.taints import HELD, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from core.reasons.binding import BindingReason
from tests.builders import a_pod
from tests.unit.lifecycle.binding.cases import a_held_node, web

IN_B = Requirement.one_of(labels.ZONE, "b")


@pytest.mark.parametrize(
    ("pod", "node", "reason"),
    [
        ({}, {}, None),
        ({}, {"taints": (HELD, Taint("t", NO_SCHEDULE))}, BindingReason.UNTOLERATED_TAINT),
        ({"tolerations": (Toleration("t", "Exists"),)}, {"taints": (HELD, Taint("t", NO_SCHEDULE))}, None),
        ({}, {"taints": (HELD, Taint("t", PREFER_NO_SCHEDULE))}, None),
        ({"node_selector": (IN_B,)}, {}, BindingReason.NODE_AFFINITY),
        ({"required_terms": (NodeSelectorTerm((IN_B,)),)}, {}, BindingReason.NODE_AFFINITY),
        ({"required_terms": (NodeSelectorTerm(()),)}, {}, BindingReason.NODE_AFFINITY),
        ({"required_terms": (NodeSelectorTerm((IN_B,)), NodeSelectorTerm((Requirement(labels.ZONE),)))}, {}, None),
        ({"cpu": "3500m"}, {}, BindingReason.NO_ROOM),
        ({"cpu": "3001m"}, {}, BindingReason.NO_ROOM),
        ({"cpu": "3"}, {}, None),
        ({"cpu": "3", "extra": {"gpu": "0"}}, {}, None),
        ({"cpu": "3", "extra": {"gpu": "1"}}, {}, BindingReason.NO_ROOM),
        ({"host_ports": (HostPort(80),)}, {}, BindingReason.HOST_PORT_TAKEN),
        ({"host_ports": (HostPort(81),)}, {}, None),
        ({"host_ports": (HostPort(81), HostPort(80))}, {}, BindingReason.HOST_PORT_TAKEN),
        (
            {"required_terms": (NodeSelectorTerm((Requirement(labels.ZONE),), uses_fields=True),)},
            {},
            BindingReason.NODE_AFFINITY,
        ),
        ({"cpu": "0", "memory": "0"}, {"allocatable": {"memory": 1 << 34, "pods": 10}}, None),
        ({"extra": {"gpu": "1"}}, {"allocatable": {"cpu": 4000, "memory": 1 << 34, "pods": 10, "gpu": 1}}, None),
    ],
)
def test_each_node_property_can_keep_a_pod_out(
    pod: dict[str, Any], node: dict[str, Any], reason: BindingReason | None
) -> None:
    there: Node = a_held_node(**node)
    other: Pod = web("other", "n", host_ports=(HostPort(80),))
    assert objection_of_node(a_pod(**pod), there, PlacedPods([there], [other])) is reason


def test_what_no_pod_uses_yet_is_all_there() -> None:
    there = a_held_node()
    assert objection_of_node(a_pod("p", cpu="4"), there, PlacedPods([there], [])) is None
    assert objection_of_node(a_pod("p", cpu="4001m"), there, PlacedPods([there], [])) is BindingReason.NO_ROOM
