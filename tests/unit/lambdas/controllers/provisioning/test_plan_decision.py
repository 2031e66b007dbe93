"""Plans are made once for what stays as it is, name EC2's refusals, and are in the ledger before they are carried out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.ledger.writer import DecisionDraft
from adapters.run_report import RunReport
from core.ledger.summary import DecisionSummary, of_provisioning
from core.model.plan import Plan, StoredDrain
from core.reasons.pod import PodReason
from lambdas.controllers.provisioning.plan_decision import REUSED_FOR, PlanDecision
from tests.builders import a_stored_target
from tests.fakes.lab import Lab, a_pending_pod

LARGE = "64"


class World:
    """A cluster in which pods of this size wait, and its decisions."""

    def __init__(self, cpu: str = "1") -> None:
        self.lab = Lab()
        self.lab.kubernetes.put(a_pending_pod("p", cpu=cpu))
        self.decision: PlanDecision = self.lab.app.provisioning.decision
        self.view = self.lab.app.shared.observer.observe()
        self.report = RunReport()

    def plan(self, digest: str = "a", **snapshot: Any) -> tuple[Plan, DecisionDraft]:
        view = msgspec.structs.replace(self.view, snapshot=msgspec.structs.replace(self.view.snapshot, **snapshot))
        return self.decision.plan(view, digest, self.report)

    def refused(self) -> list[PodReason]:
        return [found.reason for found in self.plan()[0].unschedulable]


def test_a_plan_is_counted_and_made_again_as_long_as_it_launches_nodes() -> None:
    world = World()
    plan, draft = world.plan()
    cost = plan.cost
    assert world.report.counts == {
        "plannedMicrodollars": cost.hourly // 1000,
        "boundMicrodollars": (cost.lower_bound or 0) // 1000,
    }
    assert 0 < (cost.lower_bound or 0) <= cost.hourly
    assert (bool(draft.id), draft.snapshot, draft.is_observed) == (True, world.view.snapshot, False)
    again, other = world.plan()
    assert (again == plan, again is plan, bool(other.id)) == (True, False, True)


def test_a_plan_that_launches_nothing_is_reused_while_nothing_changes() -> None:
    """Pods that no node can hold wait for days; each plan of a large cluster takes seconds."""
    world = World(LARGE)
    plan, draft = world.plan()
    assert (bool(plan.unschedulable), plan.claims, bool(draft.id)) == (True, (), True)
    again, without = world.plan()
    assert (again is plan, without) == (True, DecisionDraft())
    assert world.plan("b")[0] is not plan
    plan, _ = world.plan()
    assert world.plan(stored_target=a_stored_target(StoredDrain("n", 1, 1)))[0] is not plan
    plan, _ = world.plan()
    world.lab.clock.advance(seconds=REUSED_FOR.total_seconds() - 1)
    assert world.plan()[0] is plan
    world.lab.clock.advance(seconds=1)
    assert world.plan()[0] is not plan


def test_a_pod_that_ec2_alone_keeps_from_a_node_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another is too large for every type, whatever EC2 refuses; where it refuses nothing, nothing more is planned."""
    world, large = World(), World(LARGE)
    catalogue = world.view.snapshot.catalogue
    types = tuple(
        msgspec.structs.replace(
            one, offerings=tuple(msgspec.structs.replace(offer, available=False) for offer in one.offerings)
        )
        for one in catalogue.default
    )
    refusing = msgspec.structs.replace(catalogue, default=types)
    assert [found.reason for found in world.plan(catalogue=refusing)[0].unschedulable] == [
        PodReason.NO_OFFERING_AVAILABLE
    ]
    assert PodReason.NO_OFFERING_AVAILABLE not in {
        found.reason for found in large.plan(catalogue=refusing)[0].unschedulable
    }
    monkeypatch.setattr(large.decision._observer.open_market, "without_refusals", None)
    large.lab.clock.advance(seconds=REUSED_FOR.total_seconds())
    assert large.refused() != []


def test_a_decision_is_in_the_ledger_with_what_it_launches_binds_and_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    kept: list[tuple[DecisionDraft, DecisionSummary]] = []
    monkeypatch.setattr(
        world.lab.app.adapters.ledger, "try_write", lambda draft, summary, _: kept.append((draft, summary))
    )
    plan, draft = world.plan()
    summary = world.decision.keep(draft, [], plan, world.report)
    assert summary == of_provisioning([], (), ())
    refused, draft = World(LARGE).plan()
    summary = world.decision.keep(draft, [], refused, world.report)
    assert summary.refused == tuple((found.pod, found.reason) for found in refused.unschedulable) != ()
    assert kept[-1] == (draft, summary)
    assert world.report.decision_id == draft.id
