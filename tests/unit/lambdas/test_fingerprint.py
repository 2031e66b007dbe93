"""If these failed, a run would repeat the thoughts of a minute ago although the world is another, or think in vain."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.model.pod import Owner, Pod
from core.model.snapshot import Snapshot
from lambdas.observation.plan_cache import fingerprint
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
    assert fingerprint(later) == fingerprint(WORLD)


@pytest.mark.parametrize("field", sorted(CHANGES))
def test_every_field_of_a_pod_counts(field: str) -> None:
    assert fingerprint(with_pod(**{field: CHANGES[field]})) != fingerprint(WORLD)


def test_equal_pods_are_equal_whoever_shares_what() -> None:
    """A sandbox that read the same world twice holds other objects."""
    copies = tuple(msgspec.json.decode(msgspec.json.encode(pod), type=Pod) for pod in WORLD.pods)
    again = msgspec.structs.replace(WORLD, pods=copies)
    assert again.pods[0].spec is not WORLD.pods[0].spec
    assert fingerprint(again) == fingerprint(WORLD)


def test_one_more_of_anything_counts() -> None:
    assert fingerprint(msgspec.structs.replace(WORLD, marked_for_deletion=("c",))) != fingerprint(WORLD)
    assert fingerprint(msgspec.structs.replace(WORLD, pods=WORLD.pods[:1])) != fingerprint(WORLD)
