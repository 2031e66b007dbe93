"""`disrupt` runs when something may have changed, and not while nothing has."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.messages import WokenBy, wake_up, woken_by
from core.catalogue.facts import MarketFacts
from core.catalogue.market import Market
from core.manifests.wire import api_resources as kinds
from core.model.node_claim import Hold
from lambdas.controllers.resync.disruption_resync import JUST_EARLY, DisruptionResync
from tests.builders import NOW, a_node_of, a_snapshot, a_type
from tests.fakes.lab import Lab, a_pending_pod


@pytest.fixture
def lab() -> Lab:
    """A node with a ReplicaSet's pod that keeps it; `disrupt` has run and skips observations."""
    found = Lab()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    found.kubernetes.put(a_pending_pod("p", cpu="3", metadata={"ownerReferences": [owner]}))
    found.settle()
    found.bind("p")
    for _ in range(3):
        found.clock.advance(minutes=2)
        found.disrupt()
    assert skips(found)
    return found


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
    own = {"body": msgspec.json.encode(wake_up("again", NOW)).decode()}
    assert woken_by({"Records": [own, record]}) is WokenBy.NEWS
    assert woken_by({"Records": [own]}) is WokenBy.ITSELF
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


CLOSED = {"disruption": {"consolidateAfter": "10m", "budgets": [{"nodes": "0"}]}}


def test_closed_budgets_are_checked_before_anything_else_is_listed(lab: Lab) -> None:
    """Otherwise, waiting all week for a window of three hours costs a list of all pods each minute."""
    lab.kubernetes.amend(kinds.NODE_POOLS, "default", {"spec": CLOSED})
    lab.app.provisioning.record_change()
    lab.disrupt()  # a run lists NodePools anyway, and finds their budgets closed
    asked: list[str] = []
    lab.kubernetes.before_call = asked.append
    report = lab.disrupt()
    assert report.counts["closedBudgets"] == 1
    assert len(asked) == 1


def test_pods_are_observed_before_a_window_opens_so_that_consolidate_after_is_over(lab: Lab) -> None:
    """Otherwise, a node that has been idle all week is kept for another ten minutes of the window."""
    minute = timedelta(minutes=1)
    opens = lab.clock.now().replace(second=0, microsecond=0) + 30 * minute
    start, lasting = opens - timedelta(hours=23), timedelta(hours=23)
    window = {"nodes": "0", "schedule": f"{start.minute} {start.hour} * * *", "duration": "23h"}
    assert lasting == timedelta(hours=23)
    disruption = {"consolidateAfter": "10m", "budgets": [{"nodes": "100%"}, window]}
    lab.kubernetes.amend(kinds.NODE_POOLS, "default", {"spec": {"disruption": disruption}})
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
    lab.kubernetes.amend(kinds.NODE_POOLS, "default", {"spec": {"weight": 7}})
    lab.app.provisioning.record_change()
    report = lab.disrupt(time=timedelta(seconds=1))
    assert report.counts["cutOffDecisions"] == 1
    assert not skips(lab), "the next run observes what this one skipped"
