"""When claims and instances are in order, so that `reconcile` may skip observations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.observation.stores import OwnRows
from adapters.ports import Instance, TransientError
from core import labels
from core.brakes.brake import Brake, BrakeKind
from core.lifecycle.records import ClaimRecord
from lambdas.controllers.resync.reconciliation_resync import (
    PUNCTUALITY,
    WHOLE_EVERY,
    WITHOUT_PODS_EVERY,
    ObservationScope,
    ReconciliationResync,
    is_in_order,
    versions,
)
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lifecycle.records_for_tests import a_command

World = tuple[tuple[ClaimRecord, ...], tuple[Instance, ...]]


@pytest.fixture(scope="module")
def world() -> World:
    """A claim whose node works, and its instance."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    return lab.claims, lab.cloud.instances()


def with_claim(**changes: Any) -> Callable[[World], World]:
    return lambda world: (tuple(msgspec.structs.replace(one, **changes) for one in world[0]), world[1])


def with_instance(**changes: Any) -> Callable[[World], World]:
    return lambda world: (world[0], tuple(msgspec.structs.replace(one, **changes) for one in world[1]))


def beside(**changes: Any) -> Callable[[World], World]:
    """A second instance, like the first but for these."""
    return lambda world: (world[0], (*world[1], msgspec.structs.replace(world[1][0], **changes)))


@pytest.mark.parametrize(
    ("change", "is_ordered"),
    [
        (lambda world: world, True),
        (beside(instance_id="i-other", tags={"Name": "of somebody else"}), True),
        (beside(instance_id="i-other"), False),
        (beside(instance_id="i-other", state="terminated"), False),
        (with_instance(state="terminated"), False),
        (with_instance(tags={}), False),
        (lambda world: (world[0], ()), False),
        (lambda world: ((), world[1]), False),
        (with_claim(is_disrupting=True), False),
        (with_claim(reserved={}), False),
    ],
)
def test_each_claim_has_its_instance_and_each_instance_its_claim(
    world: World, change: Callable[[World], World], is_ordered: bool
) -> None:
    """Only then may a round pass over the sweeps that look for the others."""
    claims, instances = change(world)
    assert labels.CLAIM in world[1][0].tags
    assert is_in_order(claims, instances) is is_ordered


class Rounds:
    """The resync of a sandbox that has just observed a cluster with one working node, and rounds after it."""

    def __init__(self, lab: Lab | None = None, *, is_whole: bool = True, recorded: timedelta = timedelta(0)) -> None:
        self.lab = lab or Lab()
        if lab is None:
            self.lab.kubernetes.put(a_pending_pod("p"))
            self.lab.settle()
        self.stores, self.now = self.lab.app.adapters.stores, self.lab.clock.now()
        self.resync = ReconciliationResync(self.stores)
        self.view = self.lab.app.shared.observer.observe()
        self.first = self.scope()
        self.resync.seen(self.view, self.now, self.now + recorded, is_whole=is_whole)

    def due(self, after: timedelta = timedelta(0)) -> tuple[ObservationScope, OwnRows | None]:
        return self.resync.due(self.lab.cloud.instances(), self.now + after)

    def scope(self, after: timedelta = timedelta(0)) -> ObservationScope:
        return self.due(after)[0]


SECOND = timedelta(seconds=1)
NONE, WITHOUT_PODS, WHOLE = ObservationScope.NONE, ObservationScope.WITHOUT_PODS, ObservationScope.WHOLE


def test_an_observation_holds_for_its_time() -> None:
    rounds = Rounds()
    early = WITHOUT_PODS_EVERY - PUNCTUALITY
    assert (rounds.first, rounds.due()) == (WHOLE, (NONE, rounds.stores.own_rows()))
    assert [rounds.scope(after) for after in (early - SECOND, early)] == [NONE, WITHOUT_PODS]
    assert rounds.due(WHOLE_EVERY - SECOND) == (WITHOUT_PODS, rounds.stores.own_rows())
    assert rounds.due(WHOLE_EVERY) == (WHOLE, None)
    rounds.resync.end()
    assert rounds.due() == (WHOLE, None)


def test_an_observation_without_pods_replaces_no_whole_one() -> None:
    rounds = Rounds(is_whole=False)
    assert rounds.due() == (WHOLE, None)
    rounds.resync.seen(rounds.view, rounds.now, rounds.now, is_whole=True)
    later = rounds.now + WHOLE_EVERY - SECOND
    rounds.resync.seen(rounds.view, later, later, is_whole=False)
    assert [rounds.scope(WHOLE_EVERY - SECOND), rounds.scope(WHOLE_EVERY)] == [NONE, WHOLE]


def test_what_others_record_since_the_observation_ends_it_and_what_it_recorded_itself_does_not() -> None:
    rounds = Rounds(recorded=SECOND)
    assert (rounds.stores.changes.last(), rounds.scope()) == (rounds.now + SECOND, NONE)
    for moment, expected in ((-SECOND, NONE), (timedelta(0), WHOLE), (2 * SECOND, WHOLE)):
        rounds.stores.changes.record(rounds.now + moment)
        assert rounds.due() == (expected, rounds.stores.own_rows())


def test_a_brake_is_looked_at_once() -> None:
    rounds = Rounds()
    rounds.lab.brakes.hold(Brake(BrakeKind.PAUSE, "paused by a test"), rounds.now)
    assert [rounds.due(), rounds.due()] == [(WHOLE, None), (NONE, rounds.stores.own_rows())]


def test_commands_and_instances_without_claims_have_everything_observed() -> None:
    rounds = Rounds()
    assert rounds.resync.due((), rounds.now) == (WHOLE, rounds.stores.own_rows())
    rounds.lab.rows.commands["c"] = a_command(verify_at=rounds.now)
    assert rounds.due() == (WHOLE, rounds.stores.own_rows())


def test_a_cluster_without_claims_or_with_reservations_is_observed_without_pods_in_each_round() -> None:
    """Its first user waits for the status of a NodePool; reservations change without an event."""
    assert Rounds(Lab()).scope() is WITHOUT_PODS
    rounds = Rounds()
    selecting = {"spec": {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}}
    view = msgspec.structs.replace(rounds.view, node_classes={**rounds.view.node_classes, "reserved": selecting})
    rounds.resync.seen(view, rounds.now, rounds.now, is_whole=True)
    assert rounds.scope() is WITHOUT_PODS


def test_an_observation_without_pods_suffices_while_nothing_in_it_is_new_or_due() -> None:
    rounds = Rounds()
    view, snapshot = rounds.view, rounds.view.snapshot
    assert rounds.resync.suffices(view)
    assert not ReconciliationResync(rounds.stores).suffices(view)
    (node,), (claim,) = snapshot.nodes, snapshot.node_claims
    unready = msgspec.structs.replace(snapshot, nodes=(msgspec.structs.replace(node, is_ready=False),))
    assert not rounds.resync.suffices(msgspec.structs.replace(view, snapshot=unready))
    old = msgspec.structs.replace(claim, expire_after=timedelta(hours=1), created_at=snapshot.now - timedelta(hours=1))
    overdue = msgspec.structs.replace(snapshot, node_claims=(old,))
    assert not rounds.resync.suffices(msgspec.structs.replace(view, snapshot=overdue))
    for changed in ({"node_pools": {}}, {"node_classes": {}}):
        assert not rounds.resync.suffices(msgspec.structs.replace(view, **changed))


def test_what_is_new_is_recorded_for_disrupt_even_if_the_table_does_not_take_it() -> None:
    rounds = Rounds()
    rounds.stores.changes.record(rounds.now - SECOND)
    rounds.resync.seen(rounds.view, rounds.now, rounds.now, is_whole=False)
    assert rounds.stores.changes.last() == rounds.now - SECOND, "nothing is new"

    def fail(call: str) -> None:
        if call == "record":
            raise TransientError("dynamodb:PutItem", "throttled")

    rounds.lab.rows.before_call = fail
    rounds.resync.seen(msgspec.structs.replace(rounds.view, node_pools={}), rounds.now, rounds.now, is_whole=False)
    rounds.lab.rows.before_call = lambda _: None
    assert rounds.scope() is NONE


def test_versions_name_each_object_in_order() -> None:
    own = {"name": "b", "uid": "u", "resourceVersion": "7", "labels": {}}
    assert versions([{"metadata": own}, {"metadata": {"name": "a"}}, {"metadata": None}, {}]) == (
        ("", "", ""),
        ("", "", ""),
        ("a", "", ""),
        ("b", "u", "7"),
    )
