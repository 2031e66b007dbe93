"""A run repeats the answer of the last one only while the world is the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.observation.stores import PlanCache, snapshot_digest
from core import labels
from core.disruption.expiration import SHARE, SOON, expires_at
from core.model.node_pool import Budget, Disruption, NodeClass
from core.model.plan import CONSOLIDATABLE, Condition
from core.model.pod import Owner, Pod
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type

MINUTE, TICK = timedelta(minutes=1), timedelta(microseconds=1)
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


def test_an_answer_is_repeated_for_the_same_world_and_a_limited_time() -> None:
    """The time counts from when it was found, not from when it was last repeated."""
    keeps = timedelta(minutes=5)
    cache: PlanCache[str] = PlanCache(keeps)
    assert cache.recall("world", NOW) is None
    cache.keep("world", NOW, "nothing to do")
    for later, digest, expected in (
        (timedelta(0), "world", "nothing to do"),
        (keeps - TICK, "world", "nothing to do"),
        (keeps - TICK, "another", None),
        (keeps, "world", None),
    ):
        assert cache.recall(digest, NOW + later) == expected
    cache.keep("another", NOW, "a plan")
    assert (cache.recall("world", NOW), cache.recall("another", NOW)) == (None, "a plan")


def fleet(**changes: Any) -> Snapshot:
    """A node that is initialized and consolidatable since some time, and its NodePool."""
    claim, node = a_node_of(a_type())
    return msgspec.structs.replace(
        a_snapshot(types=(a_type(),), node_claims=(claim,), nodes=(node,), nominated_until={"n": NOW + SOON}), **changes
    )


def test_moments_that_say_nothing_new_change_nothing() -> None:
    """Each would cost a plan: since when a condition holds, when a pod last came or went, how long a nomination lasts."""
    snapshot = fleet()
    (claim,) = snapshot.node_claims
    since = {name: Condition(condition.status, changed_at=NOW) for name, condition in claim.conditions.items()}
    for changes in (
        {"node_claims": (msgspec.structs.replace(claim, conditions=since),)},
        {"node_claims": (msgspec.structs.replace(claim, last_pod_event_at=NOW),)},
        {"nominated_until": {"n": NOW + 2 * SOON}},
    ):
        assert snapshot_digest(fleet(**changes)) == snapshot_digest(snapshot)


def test_what_holds_since_these_moments_counts() -> None:
    snapshot = fleet()
    (claim,), (node,) = snapshot.node_claims, snapshot.nodes
    fewer = dict(list(claim.conditions.items())[1:])
    lost = {**claim.conditions, CONSOLIDATABLE: Condition("False")}
    other_prices = a_snapshot(types=(a_type(price=0.2),)).catalogue
    digests = {
        snapshot_digest(changed)
        for changed in (
            snapshot,
            fleet(node_claims=(msgspec.structs.replace(claim, conditions=fewer),)),
            fleet(node_claims=(msgspec.structs.replace(claim, conditions=lost),)),
            fleet(nominated_until={}),
            fleet(nodes=(msgspec.structs.replace(node, is_ready=False),)),
            fleet(catalogue=other_prices),
        )
    }
    assert len(digests) == 6


def test_what_begins_or_ends_with_time_counts() -> None:
    """A pod, a node or a budget that lets go, and a node that expires soon: nothing in the cluster changes with it."""
    hour = timedelta(hours=1)
    (claim,), (node,) = fleet().node_claims, fleet().nodes
    lasting = msgspec.structs.replace(claim, created_at=NOW, expire_after=SHARE * SOON)
    ends = expires_at(lasting)
    assert ends is not None
    too_early = NOW + hour + SOON - ends
    for_an_hour = {labels.DO_NOT_DISRUPT: "1h"}
    window = Budget("0", schedule=f"0 {(NOW + hour).hour} * * *", duration=hour)
    worlds = (
        fleet(pods=(a_pod(annotations=for_an_hour, node_name=node.name, started_at=NOW),)),
        fleet(nodes=(msgspec.structs.replace(node, annotations=for_an_hour, created_at=NOW),)),
        fleet(node_pools=(a_pool(disruption=Disruption(budgets=(window,))),)),
        fleet(node_claims=(msgspec.structs.replace(lasting, created_at=NOW + too_early),)),
    )
    for world in worlds:
        just_before, then = (msgspec.structs.replace(world, now=NOW + hour + by) for by in (-2 * MINUTE, 2 * MINUTE))
        assert snapshot_digest(world) == snapshot_digest(just_before) != snapshot_digest(then)
