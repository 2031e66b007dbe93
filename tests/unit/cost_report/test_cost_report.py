"""Each instance counts once, for as long as it ran; each dollar appears once in each table."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.cost_report.instance_hours import cost, lives, overlap
from core.cost_report.node_shares import IDLE, node_shares
from core.cost_report.report import NAMESPACE, UNSEEN, ReportBuilder, ReportedDecision
from core.ledger.outcome import DecisionOutcome, InstanceLife, OutcomeState
from core.model.plan import Blocked, DisruptionCost, DisruptionPlan
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type

HOUR = timedelta(hours=1)
TYPE = a_type("m5.large", cpu="4", memory="16Gi", price=0.1)


def a_life(instance: str = "i-node-1", *, hours: float | None = None, price: int = 100_000_000) -> InstanceLife:
    return InstanceLife(
        instance=instance,
        claim=f"claim-of-{instance}",
        node_pool="default",
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="spot",
        price=price,
        launched_at=NOW,
        ended_at=None if hours is None else NOW + hours * HOUR,
    )


def outcome_of(life: InstanceLife) -> DecisionOutcome:
    at = life.ended_at or life.launched_at
    return DecisionOutcome(decision="d", part=life.instance, state=OutcomeState.DONE, at=at, instance=life)


def a_look(*, hours: float = 0, **changes: object) -> Snapshot:
    claim, node = a_node_of(TYPE)
    pods = (
        a_pod("a", cpu="2", memory="1Gi", namespace="shop", node_name="node-1"),
        a_pod("b", cpu="1", memory="1Gi", namespace="data", node_name="node-1"),
    )
    fields = {"now": NOW + hours * HOUR, "node_claims": (claim,), "nodes": (node,), "pods": pods}
    return a_snapshot(types=(TYPE,), **{**fields, **changes})


def test_an_instance_reported_twice_counts_once() -> None:
    """`execute` may terminate it, and `reconcile` may find it gone; a retried message reports it again."""
    launch = a_life()
    end = msgspec.structs.replace(a_life(hours=2), launched_at=NOW - HOUR)
    (life,) = lives(
        [outcome_of(launch), outcome_of(end), outcome_of(msgspec.structs.replace(end, ended_at=NOW + 3 * HOUR))]
    )
    assert (life.launched_at, life.ended_at) == (NOW, NOW + 2 * HOUR)
    assert cost(life.price, overlap(life, NOW + HOUR, NOW + 9 * HOUR)) == 100_000_000
    assert not overlap(life, NOW + 3 * HOUR, NOW + 4 * HOUR)


def test_namespaces_share_a_node_by_the_larger_request_share_and_never_more_than_all_of_it() -> None:
    (state,) = state_nodes(a_look())
    assert node_shares(state) == {"data": 0.25, "shop": 0.5, IDLE: 0.25}
    full = a_look(pods=tuple(a_pod(n, cpu="3", namespace=n, node_name="node-1") for n in ("x", "y")))
    assert node_shares(state_nodes(full)[0]) == {"x": 0.5, "y": 0.5}


def test_every_table_sums_to_the_total_including_costs_without_an_observation() -> None:
    builder = ReportBuilder([a_life(hours=2), a_life("i-unseen", hours=1)], NOW, NOW + 4 * HOUR)
    builder.see(ReportedDecision(a_look()))
    found = builder.report()
    assert found.cost == 300_000_000
    assert found.by[NAMESPACE] == {"shop": 100_000_000, UNSEEN: 100_000_000, "data": 50_000_000, IDLE: 50_000_000}
    assert all(sum(rows.values()) == found.cost for rows in found.by.values())
    assert found.on_demand == 300_000_000


def test_idle_capacity_is_charged_to_what_kept_the_node_and_the_minimum_to_its_time() -> None:
    plan = DisruptionPlan(
        now=NOW, blocked=(Blocked("node-1", "DoNotDisrupt", "pod shop/a"),), cost=DisruptionCost(lower_bound=80_000_000)
    )
    builder = ReportBuilder([a_life()], NOW, NOW + 2 * HOUR)
    builder.see(ReportedDecision(a_look(), plan))
    builder.see(ReportedDecision(a_look(hours=1)))
    found = builder.report()
    ((cause, idle),) = found.causes
    assert (cause.reason, cause.message, idle) == ("DoNotDisrupt", "pod shop/a", found.idle)
    assert found.minimum is not None
    assert (found.idle, found.minimum.cost, found.minimum.spent) == (50_000_000, 160_000_000, 200_000_000)


@pytest.mark.parametrize("gone_after", [None, 3])
def test_an_instance_older_than_the_ledger_is_known_from_snapshots(gone_after: int | None) -> None:
    builder = ReportBuilder([], NOW, NOW + 4 * HOUR)
    builder.see(ReportedDecision(a_look()))
    if gone_after is not None:
        builder.see(ReportedDecision(a_look(hours=gone_after, node_claims=(), nodes=(), pods=())))
    assert builder.report().cost == (gone_after or 4) * 100_000_000
