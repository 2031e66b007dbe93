"""Nodes and volumes on the wire."""

from __future__ import annotations

import msgspec

from core.manifests.wire.cluster import CsiNode, WireNode, WirePersistentVolume, WirePersistentVolumeClaim


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
