"""Nodes, volumes and the small kinds on the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.manifests.wire.objects import (
    ACTIVE_CAPACITY,
    CsiNode,
    Volume,
    WireCapacityBuffer,
    WireCondition,
    WireMetadata,
    WireNode,
    WirePersistentVolume,
    WirePersistentVolumeClaim,
    WirePodDisruptionBudget,
)

# The status of a CapacityBuffer.


def test_the_status_round_trips() -> None:
    status = {"replicas": 3, "unknownField": [1]}
    metadata = {"name": "b", "generation": 4}
    found = msgspec.convert({"metadata": metadata, "spec": {"replicas": 3}, "status": status}, WireCapacityBuffer)
    assert (found.status, found.metadata.generation) == (status, 4)
    assert found.spec.provisioning_strategy == ACTIVE_CAPACITY


def test_a_minimal_node_is_schedulable_and_has_no_resources() -> None:
    found = msgspec.convert({"metadata": {"name": "n"}}, WireNode)
    assert (found.spec.unschedulable, found.status.capacity, found.unreadable) == (False, {}, "")


def test_a_driver_without_a_count_has_no_limit() -> None:
    drivers = [{"name": "ebs.csi.aws.com", "allocatable": {"count": 25}}, {"name": "efs.csi.aws.com"}]
    found = msgspec.convert({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}, CsiNode)
    assert [driver.allocatable and driver.allocatable.count for driver in found.spec.drivers] == [25, None]


def test_for_in_tree_volumes_only_their_presence_is_kept() -> None:
    spec = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    found = msgspec.convert({"metadata": {"name": "v"}, "spec": spec}, WirePersistentVolume)
    assert (found.spec.aws_elastic_block_store is not None, found.spec.local) == (True, None)
    assert msgspec.convert({"metadata": {}}, WirePersistentVolumeClaim).status.phase == "Pending"


def a_budget(**spec: Any) -> WirePodDisruptionBudget:
    return msgspec.convert({"metadata": {"name": "web"}, "spec": spec}, WirePodDisruptionBudget)


@pytest.mark.parametrize("bound", [1, "50%"])
def test_a_bound_is_a_count_or_a_share(bound: int | str) -> None:
    assert a_budget(maxUnavailable=bound).spec.max_unavailable == bound
    assert a_budget(minAvailable=bound).spec.min_available == bound


def test_a_budget_without_a_status_says_nothing_of_what_it_allows() -> None:
    """Otherwise, an absent status would read as no disruption allowed."""
    assert a_budget().status.disruptions_allowed is None


def test_a_volume_names_its_claim() -> None:
    found = msgspec.convert({"name": "data", "persistentVolumeClaim": {"claimName": "db-0"}}, Volume)
    assert found.persistent_volume_claim is not None
    assert found.persistent_volume_claim.claim_name == "db-0"


def test_an_ephemeral_volume_says_from_which_class_its_claim_is_made() -> None:
    template = {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}
    found = msgspec.convert({"name": "scratch", "ephemeral": template}, Volume)
    assert found.ephemeral is not None
    assert found.ephemeral.volume_claim_template.spec.storage_class_name == "gp3"


def test_a_volume_of_the_node_has_no_claim() -> None:
    found = msgspec.convert({"name": "tmp", "emptyDir": {}}, Volume)
    assert (found.persistent_volume_claim, found.ephemeral) == (None, None)


# Field names of Kubernetes objects.


def test_kubernetes_spelling_on_the_wire_and_ours_in_the_code() -> None:
    found = msgspec.convert(
        {
            "name": "p",
            "deletionTimestamp": "2026-11-20T00:00:00Z",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "r"}],
        },
        WireMetadata,
        strict=False,
    )
    assert found.deletion_timestamp is not None
    assert found.owner_references[0].kind == "ReplicaSet"
    assert msgspec.to_builtins(WireCondition("Ready"))["lastTransitionTime"] is None
