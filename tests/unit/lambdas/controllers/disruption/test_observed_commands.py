"""What would go is recorded where disruption is only observed: once for each change, and nothing is carried out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from adapters.ledger.writer import TRIED_AGAIN_AFTER, LedgerWriter
from adapters.ports import JsonObject, TransientError
from adapters.run_report import RunReport
from core import labels
from core.disruption import disrupt
from core.ledger.entry import LedgerEntry, decode_entry
from core.ledger.object_keys import read_decision_key
from core.manifests.wire import api_resources as kinds
from core.model.plan import DisruptionPlan
from core.reasons.decision import DecisionKind
from lambdas.controllers.disruption import observed_commands
from lambdas.controllers.disruption.observed_commands import REUSED_FOR, ObservedCommands
from tests.builders import a_snapshot
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod

TICK = timedelta(microseconds=1)
OPEN = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
OBSERVED = {"annotations": {labels.MODE: labels.OBSERVE}}


def a_pool(name: str, **more: object) -> JsonObject:
    """A NodePool that takes the pods that select it by its name."""
    return a_node_pool(name, disruption=OPEN, **more)


@pytest.fixture
def lab() -> Lab:
    """An empty node in each of two NodePools, `watched` and `acting`; `watched` is only observed."""
    lab = Lab()
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    for name in ("watched", "acting"):
        lab.kubernetes.put(a_pool(name), a_pending_pod(name, nodeSelector={labels.NODEPOOL: name}))
    lab.settle()
    lab.kubernetes.put(a_pool("watched", metadata=OBSERVED))
    for name in ("watched", "acting"):
        lab.kubernetes.drop(kinds.PODS, name, "default")
    lab.clock.advance(minutes=1)
    return lab


def would_go(lab: Lab, report: RunReport) -> list[str]:
    """NodePools of the nodes that would go."""
    pool_of = {claim.node_name: claim.plan.node_pool for claim in lab.claims}
    return [pool_of[d.subject] for d in report.decisions if d.kind == DecisionKind.OBSERVE]


def recorded(lab: Lab) -> list[LedgerEntry]:
    """The decisions in the ledger that nobody carries out."""
    entries = [decode_entry(raw) for key, raw in sorted(lab.ledger.objects.items()) if read_decision_key(key)]
    return [entry for entry in entries if entry.is_observed]


def test_commands_of_observed_pools_are_recorded_once_and_not_stored(lab: Lab) -> None:
    report = lab.disrupt()
    assert would_go(lab, report) == ["watched"]
    (command,) = lab.rows.commands.values()
    assert [lab.rows.claims[name].plan.node_pool for name in command.command.claims] == ["acting"]
    assert len(recorded(lab)) == 1
    lab.clock.pause(2 * REUSED_FOR)
    assert would_go(lab, lab.disrupt()) == []
    assert len(recorded(lab)) == 1


def test_of_an_observed_pool_without_commands_nothing_is_recorded(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("back", nodeSelector={labels.NODEPOOL: "watched"}))
    node = next(claim.node_name for claim in lab.claims if claim.plan.node_pool == "watched")
    lab.kubernetes.amend(kinds.PODS, "back", {"spec": {"nodeName": node}, "status": {"phase": "Running"}}, "default")
    assert would_go(lab, lab.disrupt()) == []
    assert recorded(lab) == []


def shadow(lab: Lab) -> list[str]:
    """Run `disrupt` with `mode: shadow`; return the NodePools of the nodes that would go."""
    report = RunReport()
    lab.app.shadow_disruption.run(report, deadline=lab.clock.now() + timedelta(minutes=1))
    assert report.counts["claims"] == 2
    return would_go(lab, report)


def test_what_a_shadow_says_names_its_entry(lab: Lab) -> None:
    """The log of a run is how people find the decision that it is about."""
    report = RunReport()
    lab.app.shadow_disruption.run(report, deadline=lab.clock.now() + timedelta(minutes=1))
    (entry,) = recorded(lab)
    (decision,) = (one for one in report.decisions if one.kind == DecisionKind.OBSERVE)
    assert decision.decision_id == entry.id
    assert decision.message.endswith(f"({entry.id})")


def test_what_the_ledger_did_not_take_is_recorded_by_the_next_run(lab: Lab) -> None:
    lab.ledger.broken = TransientError("s3:PutObject", "503")
    shadow(lab)
    lab.ledger.broken = None
    lab.clock.pause(TRIED_AGAIN_AFTER)
    shadow(lab)
    assert len(recorded(lab)) == 1


def test_a_shadow_records_each_state_of_the_cluster_once(lab: Lab) -> None:
    """A report plays on the records, also on those of which nothing follows."""
    assert shadow(lab) == ["acting"]
    assert shadow(lab) == []
    assert len(recorded(lab)) == 1
    lab.clock.pause(REUSED_FOR)
    assert shadow(lab) == []
    assert len(recorded(lab)) == 1
    lab.kubernetes.put(a_pending_pod("new", nodeSelector={"nobody": "has"}))
    shadow(lab)
    assert len(recorded(lab)) == 2


def test_an_unchanged_cluster_is_decided_again_after_five_minutes_and_not_before(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision of a large cluster takes a minute; but `consolidateAfter` passes without any change."""
    decided: list[datetime] = []

    def deciding(*positional: Any, **named: Any) -> DisruptionPlan:
        decided.append(lab.clock.now())
        return disrupt(*positional, **named)

    monkeypatch.setattr(observed_commands, "disrupt", deciding)
    commands = ObservedCommands(LedgerWriter(None, "prod", lab.clock), lab.clock)
    snapshot, began = a_snapshot(), lab.clock.now()
    for pause in (timedelta(0), REUSED_FOR - TICK, TICK, REUSED_FOR - TICK):
        lab.clock.pause(pause)
        commands.record(snapshot, RunReport(), until=lab.clock.now() + timedelta(minutes=1))
    assert decided == [began, began + REUSED_FOR]
