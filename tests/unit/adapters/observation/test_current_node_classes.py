"""An edited EC2NodeClass launches nothing based on the status of its old spec."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from adapters.observation.current_node_classes import KEPT_FOR, CurrentNodeClasses
from adapters.ports import JsonObject, TransientError
from core import labels
from core.api.status import is_stale
from core.manifests.wire import api_resources as kinds
from core.model.node_pool import NodePool
from tests.builders import NOW, a_class_manifest
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


def resolved(generation: int, ami: str = "ami-old") -> JsonObject:
    ready = {"type": "Ready", "status": "True", "observedGeneration": generation}
    return {"amis": [{"id": ami}], "conditions": [ready]}


def edited() -> JsonObject:
    return a_class_manifest(metadata={"generation": 2, "uid": "u"}, status=resolved(1))


@pytest.mark.parametrize(("generation", "stale"), [(1, True), (2, False)])
def test_a_status_belongs_to_a_generation(generation: int, stale: bool) -> None:
    assert is_stale(a_class_manifest(metadata={"generation": 2}, status=resolved(generation))) is stale


def test_a_class_without_a_status_is_not_stale() -> None:
    assert not is_stale(a_class_manifest(metadata={"generation": 2}))


def test_without_resolving_an_edited_class_is_not_ready() -> None:
    """Otherwise, replacements get the old image and the new hash, and never drift."""
    (found,) = CurrentNodeClasses().all([edited()], NOW)
    assert "amis" not in found["status"]
    assert found["status"]["conditions"][0]["status"] == "False"


def test_with_resolving_it_is_resolved_again_once_a_while() -> None:
    calls: list[str] = []

    def resolve(manifest: JsonObject, _: Sequence[NodePool]) -> JsonObject:
        calls.append(manifest["metadata"]["name"])
        return resolved(2, "ami-new")

    current = CurrentNodeClasses(resolve)
    for now in (NOW, NOW + timedelta(seconds=1), NOW + KEPT_FOR):
        (found,) = current.all([edited()], now)
        assert found["status"]["amis"] == [{"id": "ami-new"}]
    assert len(calls) == 2


def test_ec2_is_asked_about_what_the_pools_of_the_class_may_launch() -> None:
    """A NodePool of another class, or one that cannot be read, says nothing about it."""
    asked: list[str] = []

    def resolve(_: JsonObject, node_pools: Sequence[NodePool]) -> JsonObject:
        asked.extend(pool.name for pool in node_pools)
        return resolved(2)

    unreadable = {**a_node_pool("unreadable"), "spec": {"template": 3}}
    other = a_node_pool("other")
    other["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "other"
    CurrentNodeClasses(resolve).all([edited()], NOW, [a_node_pool("own"), unreadable, other])
    assert asked == ["own"]


def test_a_class_that_cannot_be_resolved_is_not_ready() -> None:
    def fail(_: JsonObject, __: Sequence[NodePool]) -> JsonObject:
        raise TransientError("ec2:DescribeSubnets", "timed out")

    (found,) = CurrentNodeClasses(fail).all([edited()], NOW)
    assert found["status"]["conditions"][0]["status"] == "False"


def ordered(lab: Lab) -> Any:
    """The parameters of the last request to EC2."""
    return lab.cloud.orders[-1]


def test_pods_do_not_wait_for_the_status_and_get_nodes_of_the_new_spec() -> None:
    """Otherwise, the node keeps the new hash and the old image forever."""
    lab = Lab()
    lab.reconcile()
    old = lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default")
    lab.kubernetes.amend(
        kinds.EC2_NODE_CLASSES, "default", {"metadata": {"generation": 2}, "spec": {"detailedMonitoring": True}}
    )
    assert is_stale(lab.kubernetes.raw(kinds.EC2_NODE_CLASSES, "default"))
    lab.cloud.resolution = resolved(2, "ami-new")
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert ordered(lab).node_class["status"]["amis"] == [{"id": "ami-new"}]
    assert lab.claim.plan.annotations[labels.NODECLASS_HASH] != old["metadata"]["annotations"][labels.NODECLASS_HASH]


def test_a_claim_planned_before_the_edit_has_the_hash_of_the_launched_spec() -> None:
    """Otherwise, it is replaced for a drift that it does not have."""
    lab = Lab(launches_per_run=1)
    lab.reconcile()
    lab.kubernetes.put(a_pending_pod("a", cpu="3"), a_pending_pod("b", cpu="3"))
    lab.provision()
    lab.kubernetes.amend(
        kinds.EC2_NODE_CLASSES, "default", {"metadata": {"generation": 2}, "spec": {"detailedMonitoring": True}}
    )
    lab.tick(2)
    hashes = [claim.plan.annotations[labels.NODECLASS_HASH] for claim in lab.claims if claim.machine is not None]
    assert len(set(hashes)) == 2
