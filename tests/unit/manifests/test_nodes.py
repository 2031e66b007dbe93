"""Reading nodes: their size, readiness and taints."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from core.errors import InvalidInputError
from core.manifests import nodes
from core.manifests.wire import api_resources as kinds
from core.model.node import Node, NodeCondition
from core.model.values.taints import NO_SCHEDULE, Taint
from tests.unit.manifests.objects_for_tests import a_node, written


def test_a_node_has_its_allocatable_and_its_readiness() -> None:
    """Pods are placed by allocatable; liveness and repair depend on readiness."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T00:00:00Z"}
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}, "conditions": [ready]}
    node = a_node(status=status, providerID="aws:///a/i-1")
    assert (node.capacity, node.allocatable, node.provider_id) == ({"cpu": 4000}, {"cpu": 3900}, "aws:///a/i-1")
    assert node.is_ready
    assert node.ready_changed_at is not None
    assert not a_node().is_ready


def test_a_node_without_allocatable_has_its_capacity() -> None:
    """The API server fills it in this way."""
    assert a_node(status={"capacity": {"cpu": "4"}}).allocatable == {"cpu": 4000}


def test_a_cordoned_node_has_the_taint_once() -> None:
    """Kubernetes taints it; a manifest may have the field, the taint or both."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": NO_SCHEDULE}
    expected = (Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE),)
    assert a_node(unschedulable=True).taints == expected
    assert a_node(unschedulable=True, taints=[taint]).taints == expected


def test_an_unknown_effect_names_its_field() -> None:
    """If it were ignored, pods would be planned onto a node that refuses them."""
    with pytest.raises(InvalidInputError) as caught:
        a_node(taints=[{"key": "a", "effect": "Never"}])
    assert caught.value.field == "spec.taints[0].effect"


def test_attach_limits_are_those_of_the_drivers() -> None:
    """A driver without a count has no limit; zero is a limit."""
    drivers = [{"name": "b", "allocatable": {"count": 0}}, {"name": "a", "allocatable": {"count": 25}}, {"name": "c"}]
    assert nodes.attach_limits(written(kinds.CSI_NODES, spec={"drivers": drivers})) == {"a": 25, "b": 0}


def test_a_node_that_cannot_be_read_keeps_its_known_taints_and_takes_no_pod() -> None:
    """Pods that run there go on, and none is planned onto it."""
    taints = [{"key": "a", "effect": "NoSchedule", "value": "v"}, {"key": "b", "effect": "Never"}]
    written_node = written(kinds.NODES, spec={"taints": taints})
    found = nodes.unreadable_node(written_node, InvalidInputError("is wrong", field="spec.b"))
    assert found.taints == (Taint("a", NO_SCHEDULE, "v"), Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE))
    assert found.unreadable == "spec.b: is wrong"
    assert nodes.unreadable_node(written_node, InvalidInputError("is wrong")).unreadable == "is wrong"


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "NoExecute"])
def test_the_three_effects_are_read(effect: str) -> None:
    assert a_node(taints=[{"key": "a", "effect": effect, "value": "v"}]).taints == (Taint("a", effect, "v"),)


def test_conditions_are_in_the_order_of_their_types() -> None:
    """Two readings of one node are then equal."""
    conditions = [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}]
    node = a_node(status={"conditions": conditions})
    assert [(one.type, one.status) for one in node.conditions] == [("DiskPressure", "True"), ("Ready", "False")]
    assert (node.is_ready, node.ready_changed_at) == (False, None)


def test_every_field_of_a_node_is_read() -> None:
    """What is lost is a node of somebody else's, one without a limit of volumes, or one that is not being deleted."""
    moment = datetime(2026, 3, 1, 10, tzinfo=UTC)
    time = "2026-03-01T10:00:00Z"
    meta = {
        "uid": "u",
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
        "creationTimestamp": time,
        "deletionTimestamp": time,
        "finalizers": ["example.com/f"],
    }
    status = {
        "capacity": {"cpu": "4"},
        "allocatable": {"cpu": "3900m"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": time},
            {"type": "DiskPressure", "status": "False", "lastTransitionTime": time},
        ],
    }
    found = nodes.node(
        written(kinds.NODES, meta=meta, spec={"providerID": "aws:///a/i-1"}, status=status), {"ebs.csi.aws.com": 25}
    )
    assert found == Node(
        name="x",
        uid="u",
        provider_id="aws:///a/i-1",
        labels={"team": "a"},
        annotations={"note": "b"},
        created_at=moment,
        deleted_at=moment,
        finalizers=("example.com/f",),
        is_ready=True,
        ready_changed_at=moment,
        conditions=(NodeCondition("DiskPressure", "False", moment), NodeCondition("Ready", "True", moment)),
        capacity={"cpu": 4000},
        allocatable={"cpu": 3900},
        attach_limits={"ebs.csi.aws.com": 25},
    )
    broken = msgspec.structs.replace(written(kinds.NODES), unreadable="status: must be an object")
    with pytest.raises(InvalidInputError, match="status: must be an object"):
        nodes.node(broken)
