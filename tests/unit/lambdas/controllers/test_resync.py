"""`disrupt` runs when something may have changed, and not while nothing has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.messages import WokenBy, wake_up, woken_by
from core.brakes import Brake, BrakeKind
from core.catalogue.build import MarketFacts
from core.catalogue.document import Market
from core.disruption.budget_openings import AHEAD
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.manifests.wire import resources
from core.model.plan import Hold
from lambdas.controllers.resync import JUST_EARLY, READ_EVERY, BudgetCheck, DisruptionResync
from tests.builders import NOW, a_node_of, a_snapshot, a_type
from tests.fakes.lab import SETTINGS, Lab, a_node_pool, a_pending_pod
from tests.fakes.world import FakeClock, FakeKubernetes
from tests.unit.lifecycle.records_for_tests import a_leaving, a_plan, a_record

# Runs of the schedule read no claims while there are none, and all of them as soon as there may be one.


def claim_reads(lab: Lab) -> list[str]:
    """Let every later reading of all claims be noted in the list that is returned."""
    read, claims = list[str](), lab.app.adapters.claims
    every = claims.all

    def noted() -> tuple[object, ...]:
        read.append("all")
        return every()

    claims.all = noted  # type: ignore[method-assign, assignment]  # a gauge on the way
    return read


def an_idle_lab() -> Lab:
    """Both functions have read that there are no claims."""
    lab = Lab()
    lab.provision()
    lab.disrupt()
    lab.clock.advance(minutes=1)
    return lab


def test_no_claims_are_read_while_there_are_none() -> None:
    lab = an_idle_lab()
    read = claim_reads(lab)
    lab.provision()
    lab.disrupt()
    assert read == []


def test_a_recorded_change_has_them_read_again() -> None:
    """Otherwise, `disrupt` finds a new node's claim minutes late."""
    lab = an_idle_lab()
    lab.app.provisioning.record_change()
    read = claim_reads(lab)
    lab.disrupt()
    lab.provision()
    assert len(read) == 2


def test_they_are_read_again_after_some_minutes() -> None:
    """A record may be lost."""
    lab = an_idle_lab()
    read = claim_reads(lab)
    lab.clock.pause(READ_EVERY)
    lab.provision()
    lab.disrupt()
    assert len(read) == 2


def test_a_message_has_them_read() -> None:
    lab = an_idle_lab()
    read = claim_reads(lab)
    lab.disrupt(is_woken=True)
    assert read


def test_a_cluster_that_was_empty_gets_its_nodes_and_gives_them_back() -> None:
    lab = an_idle_lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    assert lab.claims
    lab.disrupt()
    read = claim_reads(lab)
    lab.disrupt()
    assert read, "claims exist, so they are read"


def test_a_brake_is_not_read_while_nothing_waits() -> None:
    """It would stop nothing; with a pending pod it does."""
    lab = an_idle_lab()
    lab.brakes.hold(Brake(BrakeKind.STOP, "a person stopped it"), lab.clock.now())
    assert "stopped" not in lab.provision().counts
    lab.kubernetes.put(a_pending_pod("p"))
    assert "stopped" in lab.provision().counts
    assert not lab.claims


# Whether budgets let any node go is known from NodePools and claims alone; nothing else is listed for it.


CLOSED = {"nodes": "0"}


class World:
    """NodePools, and the check of one sandbox."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock(NOW)
        self.kubernetes = FakeKubernetes(self.clock)
        self.check = BudgetCheck(self.kubernetes, msgspec.structs.replace(SETTINGS, **settings), self.clock)

    def budgets(self, *budgets: dict[str, Any], after: str = "0s") -> None:
        self.kubernetes.put(a_node_pool(disruption={"consolidateAfter": after, "budgets": list(budgets)}))


def claims(count: int, **changes: Any) -> list[ClaimRecord]:
    return [msgspec.structs.replace(a_record(**changes), name=f"c{number}") for number in range(count)]


@pytest.fixture
def world() -> World:
    return World()


def test_closed_budgets_need_no_run_and_open_ones_do(world: World) -> None:
    for budget, needs in ((CLOSED, False), ({"nodes": "1"}, True), (CLOSED, False)):
        world.budgets(budget)
        assert world.check.needs_run(claims(1)) is needs
        assert world.check.are_closed is not needs


def test_nothing_but_node_pools_and_calendars_is_listed(world: World) -> None:
    """Calendars may replace budgets."""
    calls: list[str] = []
    world.budgets(CLOSED)
    world.kubernetes.before_call = calls.append
    world.check.needs_run(claims(1))
    assert calls == ["list nodepools", "list calendars"]


@pytest.mark.parametrize(
    ("going", "needs"),
    [
        ([], True),
        ([a_record(is_disrupting=True)], False),
        ([msgspec.structs.replace(a_leaving(), is_disrupting=True)], False),
        ([msgspec.structs.replace(a_leaving(), is_disrupting=False)], True),
        ([msgspec.structs.replace(a_leaving(terminated_at=NOW), is_disrupting=True)], True),
        ([a_record(ClaimPhase.REGISTERED, is_disrupting=True)], True),
        ([a_record(plan=a_plan(node_pool="other"), is_disrupting=True)], True),
    ],
    ids=["none", "by command", "leaving", "leaving uncounted", "terminated", "never initialized", "of another pool"],
)
def test_a_node_that_goes_takes_the_place_of_another(world: World, going: list[ClaimRecord], *, needs: bool) -> None:
    world.budgets({"nodes": "1"})
    assert world.check.needs_run([*claims(1), *going]) is needs


def test_shares_count_initialized_nodes_only(world: World) -> None:
    """Ten per cent of nine nodes is one, rounded up; of none it is none."""
    world.budgets({"nodes": "10%"})
    assert not world.check.needs_run(claims(9, phase=ClaimPhase.REGISTERED))
    assert world.check.needs_run(claims(9))


@pytest.mark.parametrize(("gates", "needs"), [("NodeRepair=true", True), ("NodeRepair=false", False)])
def test_a_budget_for_repair_counts_if_nodes_are_repaired(gates: str, *, needs: bool) -> None:
    """A budget without reasons is for all of them; the voluntary ones are closed here."""
    world = World(feature_gates=gates)
    world.budgets({"nodes": "0", "reasons": ["Empty", "Drifted", "Underutilized"]})
    assert world.check.needs_run(claims(1)) is needs


@pytest.mark.parametrize(("before", "needs"), [(timedelta(seconds=1), False), (timedelta(0), True)])
def test_a_window_that_opens_soon_needs_runs_before_it(before: timedelta, *, needs: bool) -> None:
    """ConsolidateAfter counts from the pods that a pass has seen."""
    world = World()
    world.budgets({"nodes": "0", "schedule": "0 0 * * *", "duration": "10h"}, after="1h")
    world.clock.advance(seconds=(timedelta(hours=9) - AHEAD - before).total_seconds())
    assert world.check.needs_run(claims(1)) is needs


def test_the_node_pools_of_a_pass_say_whether_the_next_run_must_ask(world: World) -> None:
    assert not world.check.are_closed
    world.check.note((), claims(1))
    assert world.check.are_closed


@pytest.fixture
def lab() -> Lab:
    """A node with a ReplicaSet's pod that keeps it; `disrupt` has run and skips observations."""
    lab = Lab()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    lab.kubernetes.put(a_pending_pod("p", cpu="3", metadata={"ownerReferences": [owner]}))
    lab.settle()
    lab.bind("p")
    for _ in range(3):
        lab.clock.advance(minutes=2)
        lab.disrupt()
    assert skips(lab)
    return lab


def skips(lab: Lab) -> bool:
    return "skippedRuns" in lab.disrupt().counts


def test_it_rests_while_nothing_changes(lab: Lab) -> None:
    lab.clock.advance(minutes=1)
    assert skips(lab)


def test_a_new_market_reading_ends_the_resync_period(lab: Lab) -> None:
    """Otherwise, a cheaper offering is found late."""
    now = lab.clock.now()
    facts = MarketFacts(shapes=(), market=Market(region="r"), shapes_read_at=now, prices_read_at=now)
    lab.app.adapters.catalogues.save(facts)
    assert not skips(lab)
    assert skips(lab)


def test_a_message_of_the_audit_log_ends_the_resync_period(lab: Lab) -> None:
    """Otherwise, a changed NodePool, or a pod that went while another came, is seen minutes late."""
    lab.clock.advance(seconds=1)
    lab.app.provisioning.record_change()
    assert not skips(lab)
    record = {"body": msgspec.json.encode(wake_up("NodePoolChanged")).decode()}
    own_record = {"body": msgspec.json.encode(wake_up("again", NOW)).decode()}
    assert woken_by({"Records": [own_record, record]}) is WokenBy.NEWS
    assert woken_by({"Records": [own_record]}) is WokenBy.ITSELF
    assert woken_by({}) is WokenBy.SCHEDULE


def test_a_job_pod_prevents_skipping(lab: Lab) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    node = lab.claim.node_name
    pod = a_pending_pod("j", metadata={"ownerReferences": [job]}, nodeName=node)
    lab.kubernetes.put({**pod, "status": {"phase": "Running", "conditions": []}})
    lab.clock.advance(seconds=1)
    lab.app.provisioning.record_change()
    assert not skips(lab)
    lab.clock.advance(minutes=1)
    assert not skips(lab)


def test_a_changed_budget_is_seen_within_the_longest_resync_period(lab: Lab) -> None:
    seen = []
    for _ in range(13):
        lab.clock.advance(minutes=1)
        seen.append(not skips(lab))
    assert any(seen)


@pytest.mark.parametrize(("early", "holds"), [(JUST_EARLY, False), (JUST_EARLY + timedelta(milliseconds=1), True)])
def test_a_run_just_before_something_is_due_waits_for_it(early: timedelta, holds: bool) -> None:
    """Otherwise, a node that may go is kept for another round: the demo cost 1.9 % more."""
    lab, minute = Lab(), timedelta(minutes=1)
    claim, _ = a_node_of(a_type())
    claim = msgspec.structs.replace(claim, hold=Hold(NOW + minute, "DrainGivenBack", ""))
    resync = DisruptionResync(lab.kubernetes, lab.app.adapters.stores.changes, lab.clock, lab.clock.pause)
    assert not resync.is_valid(b"same", lab.clock.now())
    resync.begin(b"same", NOW, a_snapshot(node_claims=(claim,)))
    lab.clock.advance(seconds=(minute - early).total_seconds())
    assert resync.is_valid(b"same", lab.clock.now()) is holds
    assert lab.clock.now() == NOW + minute - (early if holds else timedelta(0))


DISRUPTION_RESYNC_CLOSED = {"disruption": {"consolidateAfter": "10m", "budgets": [{"nodes": "0"}]}}


def test_closed_budgets_are_checked_before_anything_else_is_listed(lab: Lab) -> None:
    """Otherwise, waiting all week for a window of three hours costs a list of all pods each minute."""
    lab.kubernetes.amend(resources.NODE_POOLS, "default", {"spec": DISRUPTION_RESYNC_CLOSED})
    lab.app.provisioning.record_change()
    lab.disrupt()  # a run lists NodePools anyway, and finds their budgets closed
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    report = lab.disrupt()
    assert report.counts["closedBudgets"] == 1
    assert calls == ["list nodepools", "list calendars"]


def test_pods_are_observed_before_a_window_opens_so_that_consolidate_after_is_over(lab: Lab) -> None:
    """Otherwise, a node that has been idle all week is kept for another ten minutes of the window."""
    minute = timedelta(minutes=1)
    opens = lab.clock.now().replace(second=0, microsecond=0) + 30 * minute
    start, lasting = opens - timedelta(hours=23), timedelta(hours=23)
    window = {"nodes": "0", "schedule": f"{start.minute} {start.hour} * * *", "duration": "23h"}
    assert lasting == timedelta(hours=23)
    disruption = {"consolidateAfter": "10m", "budgets": [{"nodes": "100%"}, window]}
    lab.kubernetes.amend(resources.NODE_POOLS, "default", {"spec": {"disruption": disruption}})
    slept = []
    while lab.clock.now() < opens + minute:
        if "closedBudgets" in lab.disrupt().counts:
            slept.append(opens - lab.clock.now())
        lab.clock.advance(minutes=1)
    assert slept
    assert min(slept) > 10 * minute
    assert min(slept) < 15 * minute


def test_a_decision_cut_short_by_time_is_stored_and_continued(lab: Lab) -> None:
    """Otherwise, the decision for a large rollout ends at the time-out and is lost, each time (users-demand 1.6)."""
    lab.kubernetes.amend(resources.NODE_POOLS, "default", {"spec": {"weight": 7}})
    lab.app.provisioning.record_change()
    report = lab.disrupt(time=timedelta(seconds=1))
    assert report.counts["cutOffDecisions"] == 1
    assert not skips(lab), "the next run observes what this one skipped"
