"""The rows of a plan's claims: their names, and what is known of their pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.observation.cluster_state import ClusterState
from adapters.store import Lease
from core import labels
from core.lifecycle.records import ClaimRecord
from core.model.node_pool import NodeClass
from core.model.plan import Plan
from core.model.pod import Pod
from core.scheduling import schedule
from lambdas.controllers.launching.launch_requests import LaunchRequests
from lambdas.controllers.launching.launching import Launcher
from lambdas.controllers.provisioning.claim_records import ClaimRecords
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.brakes import FakeBrakes
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, FakeCloud

LEASE = Lease("planner", 7)
MINUTE = timedelta(minutes=1)


class World:
    """A plan for these pods, one claim each, and who makes its rows."""

    def __init__(self, *pods: Pod, at_most: int = 10) -> None:
        clock = FakeClock(NOW)
        stores = Rows().stores(FakeBrakes(clock))
        launcher = Launcher(LaunchRequests(FakeCloud(clock), stores, cluster="c"), stores.claims, cluster="c")
        self.records = ClaimRecords(launcher, clock, at_most=at_most)
        self.snapshot = a_snapshot(
            types=(a_type(),),
            node_pools=(a_pool(),),
            pods=pods,
            node_classes=(NodeClass(name="default", spec_hash="h-1", is_ready=True),),
        )
        self.plan = schedule(self.snapshot)

    def rows(self, *, decision: str = "d-1", used: int = 0) -> tuple[list[ClaimRecord], Plan]:
        view = ClusterState(snapshot=self.snapshot, claims={}, commands=(), node_pools={}, node_classes={})
        return self.records.of_plan(self.plan, decision, view, LEASE, used=used, heard_at=NOW - MINUTE)

    def change(self, **changes: Any) -> None:
        """Change the first planned claim."""
        first, *others = self.plan.claims
        claims = (msgspec.structs.replace(first, **changes), *others)
        self.plan = msgspec.structs.replace(self.plan, claims=claims)


def waiting(name: str, **changes: Any) -> Pod:
    return a_pod(name, cpu="1500m", is_marked_unschedulable=True, **changes)


def test_names_are_unique_in_a_run_and_for_ever() -> None:
    """The lease's stamp never comes again, and a run may plan several times under one lease."""
    world = World(waiting("a"), waiting("b"))
    assert [record.name for record in world.rows()[0]] == [f"default-{LEASE.stamp}-{n}" for n in (0, 1)]
    assert [record.name for record in world.rows(used=2)[0]] == [f"default-{LEASE.stamp}-{n}" for n in (2, 3)]


def test_a_row_has_the_hash_of_its_class_and_the_id_of_its_decision() -> None:
    ((record,), plan) = World(waiting("a")).rows()
    assert (record.plan.annotations[labels.NODECLASS_HASH], record.plan.annotations[labels.DECISION]) == ("h-1", "d-1")
    assert plan.unschedulable == ()


def test_claims_that_are_alike_share_a_launch_within_what_a_run_launches() -> None:
    pods = [waiting(name) for name in "abc"]
    assert [record.shares for record in World(*pods).rows()[0]] == [3, 3, 3]
    assert [record.shares for record in World(*pods, at_most=2).rows()[0]] == [2, 2, 1]
    assert [record.shares for record in World(*pods, at_most=0).rows()[0]] == [1, 1, 1]


class TestMoments:
    """How long pods waited is measured from these."""

    def test_of_the_first_pod_count(self) -> None:
        early, late = NOW - 3 * MINUTE, NOW - 2 * MINUTE
        first = a_pod("a", cpu="100m", created_at=late, unschedulable_since=late, is_marked_unschedulable=True)
        other = a_pod("b", cpu="100m", created_at=early, unschedulable_since=early, is_marked_unschedulable=True)
        ((record,), _) = World(first, other).rows()
        moments = record.moments
        assert (moments.pods_created_at, moments.pods_marked_at, moments.heard_at) == (early, early, NOW - MINUTE)

    def test_that_are_unknown_are_left_out(self) -> None:
        ((record,), _) = World(waiting("a", created_at=None)).rows()
        assert (record.moments.pods_created_at, record.moments.pods_marked_at) == (None, None)


class TestPodsThatAreAwaited:
    """A claim whose pods found another place meanwhile is not launched."""

    def test_all_wait_for_a_node(self) -> None:
        ((record,), _) = World(waiting("a")).rows()
        assert record.awaits_pods

    @pytest.mark.parametrize("changes", [{"pods": ()}, {"buffer_pods": ("default/room",)}])
    def test_none_wait_where_the_node_is_for_other_reasons_too(self, changes: dict[str, Any]) -> None:
        world = World(waiting("a"))
        world.change(**changes)
        assert not world.rows()[0][0].awaits_pods

    def test_none_wait_where_one_must_leave_its_node(self) -> None:
        world = World(waiting("a"))
        bound = waiting("bound", node_name="n")
        world.snapshot = msgspec.structs.replace(world.snapshot, pods=(*world.snapshot.pods, bound))
        world.change(pods=("default/a", "default/bound"))
        assert not world.rows()[0][0].awaits_pods


def test_pods_of_a_claim_that_cannot_be_launched_are_told_why_and_the_others_are_launched() -> None:
    world = World(waiting("a"), waiting("b"))
    world.change(instance_types=())
    records, plan = world.rows()
    assert [record.name for record in records] == [f"default-{LEASE.stamp}-0"]
    (left_out,) = plan.unschedulable
    assert left_out.pod == "default/a"
    assert left_out.message
