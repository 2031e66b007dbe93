"""Budgets hold at the moment at which a node begins to leave, and not only when the cluster was observed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from adapters.ports import Impairment
from adapters.run_report import RunReport
from core.manifests.wire import resources
from core.reasons.code import TerminationReason
from core.reasons.runs import CommandReason
from lambdas.controllers.budget_places import BudgetPlaces
from lambdas.controllers.sweeps.sweep import ReconcileRound, Seen
from tests.builders import NOW
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node

CLOSES = timedelta(minutes=10)
"""When the window opens in which no node may go."""

BUDGETS = [{"nodes": "100%"}, {"nodes": "0", "schedule": "10 0 * * *", "duration": "1h"}]


def just_before_the_window(**template: Any) -> Lab:
    """A lab with one node without pods, ten seconds before its NodePool's budget forbids that it goes."""
    lab = Lab()
    disruption = {"consolidateAfter": "0s", "budgets": BUDGETS}
    lab.kubernetes.put(a_node_pool(disruption=disruption, template=template), a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.clock.advance(seconds=(NOW + CLOSES - lab.clock.now()).total_seconds() - 10)
    return lab


def swept_late(lab: Lab, sweep: str, *, by: float, reads_take: float = 0) -> None:
    """Observe the cluster, and run one sweep some seconds later; each of its reads of a row takes `reads_take` seconds."""
    seen = Seen((), lab.app.shared.observer.observe())
    lab.clock.advance(seconds=by)
    lab.rows.before_call = lambda made: lab.clock.advance(seconds=reads_take if made == "read" else 0)
    round_ = ReconcileRound(seen, RunReport(), lab.clock.now() + timedelta(minutes=5), lab.clock)
    next(found for found in lab.app.sweeps if found.name == sweep).run(round_)
    assert round_.failed == ()


@pytest.mark.parametrize(("by", "goes"), [(5, True), (20, False)])
def test_a_window_that_opens_within_a_round_keeps_what_has_expired(by: float, *, goes: bool) -> None:
    """A round lasts minutes: nodes began to leave in a time for which the NodePool forbids it."""
    lab = just_before_the_window(expireAfter="5m")
    swept_late(lab, "expiry", by=by)
    assert (lab.claim.deletion is not None) == goes


@pytest.mark.parametrize(("by", "goes"), [(5, True), (20, False)])
def test_a_window_that_opens_within_a_round_keeps_impaired_instances(by: float, *, goes: bool) -> None:
    lab = just_before_the_window()
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", NOW - timedelta(hours=1))]
    swept_late(lab, "impairedInstances", by=by)
    assert (lab.claim.deletion is not None) == goes


@pytest.mark.parametrize("sweep", ["expiry", "impairedInstances"])
def test_a_window_that_opens_while_the_claim_is_read_keeps_its_node(sweep: str) -> None:
    """A read that DynamoDB throttles takes seconds, and budgets were read before it."""
    lab = just_before_the_window(expireAfter="5m")
    lab.cloud.failing = [Impairment(lab.claim.instance_id, "system", NOW - timedelta(hours=1))]
    swept_late(lab, sweep, by=5, reads_take=10)
    assert lab.claim.deletion is None


def test_a_window_that_opens_after_the_observation_drops_the_command() -> None:
    """The check of one command after another takes up to twenty seconds, and reading a large cluster as long."""
    lab = just_before_the_window()
    lab.clock.advance(seconds=-16)
    lab.disrupt()
    (message,) = lab.work.take()
    lab.clock.advance(seconds=20)

    def pass_time(made: str) -> None:
        if made == "read" and lab.kubernetes.before_call is not observing:
            lab.rows.before_call = lambda _: None
            lab.clock.advance(seconds=10)

    def observing(made: str) -> None:
        if made == "list priorityclasses":
            lab.kubernetes.before_call = lambda _: None

    lab.kubernetes.before_call, lab.rows.before_call = observing, pass_time
    reasons = [decision.reason for decision in lab.execute(message).decisions if decision.kind == "abandon"]
    assert reasons == [CommandReason.BUDGET_SPENT]
    assert not lab.claim.is_disrupting


def test_windows_are_read_again_only_when_one_opens_or_closes() -> None:
    """Each claim that is to leave asks: in a large cluster, counting its nodes for each would take the round's time."""
    lab = just_before_the_window()
    places = BudgetPlaces(lab.app.shared.observer.observe(), TerminationReason.EXPIRED, lab.clock)
    found = [places.now()]
    for seconds in (5, 5, 3599, 1):
        lab.clock.advance(seconds=seconds)
        found.append(places.now())
    assert [bounds["default"] for bounds in found] == [1, 1, 0, 0, 1]
    assert (found[0] is found[1], found[2] is found[3]) == (True, True)


@pytest.mark.parametrize(("nodes", "expected"), [("0", 0), ("1", 1), ("100%", 1)])
def test_places_are_those_of_the_reason_and_of_the_claims_that_hold_one(nodes: str, expected: int) -> None:
    lab = a_working_node()
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [{"nodes": nodes, "reasons": ["Drifted"]}]}))
    places = BudgetPlaces(lab.app.shared.observer.observe(), TerminationReason.DRIFTED, lab.clock)
    assert places.now() == {"default": expected}
