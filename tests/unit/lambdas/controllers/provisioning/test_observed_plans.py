"""What would be launched is recorded where launches are only observed, and nothing is launched."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.run_report import RunReport
from core import labels
from core.ledger.entry import LedgerEntry, decode_entry
from core.ledger.object_keys import read_decision_key
from core.manifests.wire import api_resources as kinds
from core.reasons.decision import DecisionKind
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod

OBSERVED = {"annotations": {labels.MODE: labels.OBSERVE}}
HOUR = timedelta(hours=1)


@pytest.fixture
def lab() -> Lab:
    """A pod waits that only an observed NodePool could run, and one for which none of the two has a place."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(metadata=OBSERVED), a_pending_pod("p"), a_pending_pod("large", cpu="400"))
    return lab


def would_launch(report: RunReport) -> int:
    return sum(decision.kind == DecisionKind.OBSERVE for decision in report.decisions)


def recorded(lab: Lab) -> list[LedgerEntry]:
    entries = [decode_entry(raw) for key, raw in sorted(lab.ledger.objects.items()) if read_decision_key(key)]
    return [entry for entry in entries if entry.is_observed]


def test_launches_of_an_observed_pool_are_recorded_once_and_not_made(lab: Lab) -> None:
    assert would_launch(lab.provision()) == 1
    (entry,) = recorded(lab)
    assert len(entry.parts) == 1
    assert (entry.bindings, entry.refused) == ((), ()), "the plan that is carried out says which pods wait"
    lab.clock.advance(minutes=1)
    lab.kubernetes.put(a_pending_pod("other", cpu="400"))
    assert would_launch(lab.provision()) == 0
    assert len(recorded(lab)) == 1
    assert lab.cloud.instances() == ()


def shadow(lab: Lab, *, until: timedelta = HOUR) -> int:
    """Run `provision` with `mode: shadow`; return how many nodes it would launch."""
    report = RunReport()
    lab.app.shadow_provisioning.run(report, until=lab.clock.now() + until)
    lab.clock.advance(minutes=1)
    return would_launch(report)


def test_a_shadow_plans_while_pods_wait_and_once_more_when_they_wait_no_longer() -> None:
    """Otherwise, a report takes a pod's wait for a minute longer than it was."""
    lab = Lab()
    assert (shadow(lab), len(recorded(lab))) == (0, 0)
    lab.kubernetes.put(a_pending_pod("p"))
    assert (shadow(lab), len(recorded(lab))) == (1, 1)
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    assert (shadow(lab), len(recorded(lab))) == (0, 2)
    assert (shadow(lab), len(recorded(lab))) == (0, 2)


@pytest.mark.parametrize(("until", "again"), [(HOUR, 1), (timedelta(0), 0)])
def test_a_shadow_looks_again_soon_while_pods_wait_and_until_its_chain_ends(until: timedelta, again: int) -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    shadow(lab, until=until)
    assert len(lab.wake_ups.take()) == again
