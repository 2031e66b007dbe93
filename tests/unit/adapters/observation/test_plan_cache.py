"""A run repeats the answer of the last one only while the world is the same."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.observation.plan_cache import snapshot_digest
from core.disruption.conditions.expiration import SOON
from core.model.node_pool import NodeClass
from core.model.pod import Owner, Pod
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_pod

WORLD = Snapshot(now=NOW, pods=(a_pod("a"), a_pod("b")))

CHANGES = {
    "node_name": "n",
    "labels": {"tier": "web"},
    "annotations": {"karpenter.sh/do-not-disrupt": "true"},
    "owners": (Owner("ReplicaSet", "r"),),
    "phase": "Running",
    "deleted_at": NOW,
    "is_ready": True,
    "spec": a_pod("c", cpu="3").spec,
}


def with_pod(**changes: object) -> Snapshot:
    first, *others = WORLD.pods
    return msgspec.structs.replace(WORLD, pods=(msgspec.structs.replace(first, **changes), *others))


def test_time_alone_changes_nothing() -> None:
    later = msgspec.structs.replace(WORLD, now=NOW + timedelta(minutes=1))
    assert snapshot_digest(later) == snapshot_digest(WORLD)


@pytest.mark.parametrize("field", sorted(CHANGES))
def test_every_field_of_a_pod_counts(field: str) -> None:
    assert snapshot_digest(with_pod(**{field: CHANGES[field]})) != snapshot_digest(WORLD)


def test_equal_pods_have_equal_digests_whichever_objects_they_share() -> None:
    """A sandbox that read the same world twice holds other objects."""
    copies = tuple(msgspec.json.decode(msgspec.json.encode(pod), type=Pod) for pod in WORLD.pods)
    again = msgspec.structs.replace(WORLD, pods=copies)
    assert again.pods[0].spec is not WORLD.pods[0].spec
    assert snapshot_digest(again) == snapshot_digest(WORLD)


def test_one_more_object_of_any_kind_counts() -> None:
    assert snapshot_digest(msgspec.structs.replace(WORLD, marked_for_deletion=("c",))) != snapshot_digest(WORLD)
    assert snapshot_digest(msgspec.structs.replace(WORLD, pods=WORLD.pods[:1])) != snapshot_digest(WORLD)


def test_a_reservation_that_begins_to_end_soon_counts() -> None:
    """The last answer may move pods into it."""
    leaves = NOW + SOON + timedelta(minutes=1)
    before = msgspec.structs.replace(WORLD, node_classes=(NodeClass(name="a", reservation_ends={"cr-1": leaves}),))
    after = msgspec.structs.replace(before, now=NOW + timedelta(minutes=1))
    assert snapshot_digest(after) != snapshot_digest(before)
