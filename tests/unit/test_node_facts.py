"""What EC2 and the catalogue know outranks what Nodes report."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.model.catalogue import Catalogue
from core.model.snapshot import NodeOverlay, Snapshot
from core.model.state_node import state_nodes
from core.model.values import quantity
from core.node_facts import NOTHING_RUNS, UNPROVEN_AFTER, doubted_nodes, with_trusted_nodes
from tests.builders import NOW, a_node_of, a_pod, a_type

TYPE = a_type("m7g.large", cpu="2", memory="8Gi", pods="29")
SMALL_GPU = a_type("g5.xlarge", cpu="4", memory="16Gi", pods="58", extra={"nvidia.com/gpu": "1"})


def _snapshot(instance_type=TYPE, *, overlays=(), **reported: str) -> Snapshot:  # type: ignore[no-untyped-def]
    claim, node = a_node_of(instance_type)
    said = quantity.parse_resources(reported)
    room = {**node.capacity, **said}
    node = msgspec.structs.replace(node, capacity=room, allocatable={**node.allocatable, **said})
    types = Catalogue(default=(TYPE, SMALL_GPU))
    return Snapshot(now=NOW, nodes=(node,), node_claims=(claim,), catalogue=types, overlays=overlays)


@pytest.mark.parametrize(
    ("reported", "resource", "planned"),
    [
        ({"cpu": "512"}, "cpu", 2000),
        ({"memory": "4Ti"}, "memory", 8 * 2**30),
        ({"memory": "9Gi"}, "memory", 9 * 2**30),  # within what the catalogue's estimate may be wrong by
        ({"pods": "5000"}, "pods", 29),
        ({"pods": "110"}, "pods", 110),  # prefixes of addresses
        ({"nvidia.com/gpu": "8"}, "nvidia.com/gpu", 0),
        ({"example.com/dongle": "8"}, "example.com/dongle", 8),  # a plugin of the user
    ],
)
def test_a_node_is_planned_with_at_most_what_its_type_has(
    reported: dict[str, str], resource: str, planned: int
) -> None:
    """Otherwise, one taken-over node gets the pods of the whole cluster."""
    found = with_trusted_nodes(_snapshot(**reported))
    assert found.snapshot.nodes[0].allocatable[resource] == planned
    assert bool(found.doubts) == (quantity.parse_resources(reported)[resource] != planned)


def test_a_plugin_may_share_the_devices_that_a_type_has() -> None:
    """Time slices of a GPU are reported as further GPUs."""
    found = with_trusted_nodes(_snapshot(SMALL_GPU, **{"nvidia.com/gpu": "10"}))
    assert found.snapshot.nodes[0].allocatable["nvidia.com/gpu"] == 10


def test_a_device_that_an_overlay_adds_is_believed() -> None:
    """The user says that such nodes have it."""
    overlay = NodeOverlay(name="o", capacity={"nvidia.com/gpu": 1})
    found = with_trusted_nodes(_snapshot(overlays=(overlay,), **{"nvidia.com/gpu": "1"}))
    assert found.snapshot.nodes[0].allocatable["nvidia.com/gpu"] == 1


def test_a_copy_of_a_provider_id_is_nobodys_twin() -> None:
    """It would look empty, and its instance would be terminated under the pods of the real node."""
    snapshot = _snapshot()
    (real,), (claim,) = snapshot.nodes, snapshot.node_claims
    copy = msgspec.structs.replace(real, name="a-copy")
    found = with_trusted_nodes(msgspec.structs.replace(snapshot, nodes=(copy, real)))
    states = {state.name: state for state in state_nodes(found.snapshot)}
    assert states[real.name].claim_name == claim.name
    assert not states["a-copy"].claim_name
    assert all(state.node is not None and state.node.unreadable for state in states.values())  # neither is disrupted
    closed = {name for name, state in states.items() if any("unschedulable" in taint.key for taint in state.taints)}
    assert closed == {"a-copy"}
    assert [doubt.node for doubt in found.doubts] == ["a-copy", real.name]


def test_a_copy_that_is_left_alone_does_not_take_the_place_of_a_registered_node() -> None:
    """The claim has registered another Node; that one may be gone, but its instance is not this one's."""
    snapshot = _snapshot()
    copy = msgspec.structs.replace(snapshot.nodes[0], name="a-copy")
    found = with_trusted_nodes(msgspec.structs.replace(snapshot, nodes=(copy,))).snapshot
    states = {state.name: state.claim_name for state in state_nodes(found)}
    assert states == {"a-copy": "", snapshot.node_claims[0].name: snapshot.node_claims[0].name}


def test_several_nodes_with_the_id_of_a_claim_that_has_none_yet_are_nobodys() -> None:
    """Which of them is real is not for the Nodes to say."""
    snapshot = _snapshot()
    claim = msgspec.structs.replace(snapshot.node_claims[0], node_name="", conditions={})
    nodes = tuple(msgspec.structs.replace(snapshot.nodes[0], name=name) for name in ("a", "b"))
    found = with_trusted_nodes(msgspec.structs.replace(snapshot, nodes=nodes, node_claims=(claim,))).snapshot
    assert {state.claim_name for state in state_nodes(found) if state.node is not None} == {""}


def test_an_honest_cluster_is_the_same_object() -> None:
    """Most are, and everything that is kept by identity stays."""
    snapshot = _snapshot()
    assert with_trusted_nodes(snapshot).snapshot is snapshot


@pytest.mark.parametrize(
    ("pod", "is_told"),
    [
        ({"phase": "Running"}, False),  # older files say no more
        ({"phase": "Running", "is_ready": True}, False),
        ({"phase": "Running", "is_ready": False}, True),
        ({"phase": "Pending"}, True),  # bound by kube-scheduler, and no kubelet starts it
        ({"phase": "Running", "node_name": "elsewhere"}, True),
    ],
)
@pytest.mark.parametrize("is_ours", [False, True])
@pytest.mark.parametrize("age", [UNPROVEN_AFTER, UNPROVEN_AFTER - timedelta(seconds=1)])
def test_a_node_on_which_nothing_runs_is_told(
    pod: dict[str, Any], age: timedelta, *, is_told: bool, is_ours: bool
) -> None:
    """Anyone who may create Nodes can write an empty one, and honest nodes were drained for its room."""
    snapshot = _snapshot()
    node = msgspec.structs.replace(snapshot.nodes[0], is_ready=True, created_at=NOW - age)
    claims = snapshot.node_claims if is_ours else ()
    pods = (a_pod(**{"node_name": node.name, **pod}),)
    seen = msgspec.structs.replace(snapshot, nodes=(node,), node_claims=claims, pods=pods)
    told = is_told and not is_ours and age == UNPROVEN_AFTER
    assert [doubt.message for doubt in doubted_nodes(seen)] == ([NOTHING_RUNS] if told else [])
