"""Each dollar appears once in each table of a report."""

from __future__ import annotations

import msgspec
import pytest

from core.cost_report import (
    IDLE,
    NAMESPACE,
    UNSEEN,
    CostReport,
    ReportBuilder,
    ReportedDecision,
    cost,
    lives,
    node_shares,
    overlap,
)
from core.ledger.outcome import DecisionOutcome, InstanceLife, OutcomeState
from core.model.plan import Blocked, DisruptionCost, DisruptionPlan
from core.model.snapshot import Options
from core.model.state_node import state_nodes
from core.model.values.commitment import Commitment, ReservedInstances
from tests.builders import NOW, a_node_of, a_pod, a_type
from tests.unit.cost_report.period_for_tests import HOUR, a_life, a_look

# Each instance counts once, for as long as it ran.


def outcome_of(life: InstanceLife) -> DecisionOutcome:
    at = life.ended_at or life.launched_at
    return DecisionOutcome(decision="d", part=life.instance, state=OutcomeState.DONE, at=at, instance=life)


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


# Namespaces share a node by requests.


def test_namespaces_share_a_node_by_the_larger_request_share_and_never_more_than_all_of_it() -> None:
    (state,) = state_nodes(a_look())
    assert node_shares(state) == {"data": 0.25, "shop": 0.5, IDLE: 0.25}
    full = a_look(pods=tuple(a_pod(n, cpu="3", namespace=n, node_name="node-1") for n in ("x", "y")))
    assert node_shares(state_nodes(full)[0]) == {"x": 0.5, "y": 0.5}
    exact = a_look(pods=tuple(a_pod(n, cpu="2", namespace=n, node_name="node-1") for n in ("x", "y")))
    assert node_shares(state_nodes(exact)[0]) == {"x": 0.5, "y": 0.5, IDLE: 0.0}


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


def test_what_commitments_cover_is_told_beside_what_was_spent() -> None:
    """The proven minimum leaves it out, so that the fleet beside it must, too."""
    found = report_with(ReservedInstances(name="ri", instance_type="m5.large", count=1))
    assert found.minimum is not None
    assert (found.cost, found.covered, found.minimum.spent) == (200_000_000, 200_000_000, 0)
    assert all(sum(rows.values()) == found.cost for rows in found.by.values())


def test_a_commitment_that_covers_nothing_is_told_as_such() -> None:
    found = report_with(ReservedInstances(name="ri", instance_type="c5.large", count=1))
    assert found.minimum is not None
    assert (found.covered, found.minimum.spent) == (0, 200_000_000)


def test_without_commitments_nothing_is_said_of_them() -> None:
    assert report_with().covered is None


def report_with(*commitments: Commitment) -> CostReport:
    """The report of two hours of one on-demand node."""
    claim, node = a_node_of(a_type("m5.large", cpu="4", memory="16Gi", price=0.1, capacity_types=("on-demand",)))
    look = a_look(node_claims=(claim,), nodes=(node,), options=Options(commitments=commitments))
    builder = ReportBuilder([a_life()], NOW, NOW + 2 * HOUR)
    builder.see(ReportedDecision(look, DisruptionPlan(now=NOW, cost=DisruptionCost(lower_bound=0))))
    return builder.report()


@pytest.mark.parametrize("gone_after", [None, 3])
def test_an_instance_older_than_the_ledger_is_known_from_snapshots(gone_after: int | None) -> None:
    builder = ReportBuilder([], NOW, NOW + 4 * HOUR)
    builder.see(ReportedDecision(a_look()))
    if gone_after is not None:
        builder.see(ReportedDecision(a_look(hours=gone_after, node_claims=(), nodes=(), pods=())))
    assert builder.report().cost == (gone_after or 4) * 100_000_000


def test_on_demand_prices_are_those_of_the_zone_whatever_ran_there() -> None:
    """A spot node in a cheap zone, one in a dear zone, one whose type or zone the catalogue no longer has."""
    sold = a_type(
        "m5.large", cpu="4", memory="16Gi", zones=("us-east-1a", "us-east-1b"), capacity_types=("on-demand", "spot")
    )
    dollars = {("us-east-1a", "on-demand"): 3, ("us-east-1b", "on-demand"): 5}
    offerings = tuple(
        msgspec.structs.replace(o, price=dollars.get((o.zone, o.capacity_type), 1) * 10**9) for o in sold.offerings
    )
    look = a_look(node_claims=(), nodes=(), pods=())
    listed = msgspec.structs.replace(
        look,
        catalogue=msgspec.structs.replace(
            look.catalogue, default=(msgspec.structs.replace(sold, offerings=offerings),)
        ),
    )
    lives = [
        a_life("i-a", hours=1),
        msgspec.structs.replace(a_life("i-b", hours=1), zone="us-east-1b"),
        msgspec.structs.replace(a_life("i-c", hours=1, price=7 * 10**9), zone="us-east-1c"),
        msgspec.structs.replace(a_life("i-d", hours=1, price=11 * 10**9), instance_type="gone.large"),
    ]
    builder = ReportBuilder(lives, NOW, NOW + HOUR)
    builder.see(ReportedDecision(listed))
    assert builder.report().on_demand == (3 + 5 + 7 + 11) * 10**9


def test_a_node_without_a_life_hides_no_other() -> None:
    """A node that is not ours stands before one of ours."""
    look = a_look()
    foreign = msgspec.structs.replace(look.nodes[0], name="a-foreign", provider_id="aws:///us-east-1a/i-foreign")
    builder = ReportBuilder([a_life(hours=1)], NOW, NOW + HOUR)
    builder.see(ReportedDecision(msgspec.structs.replace(look, nodes=(foreign, *look.nodes))))
    found = builder.report()
    assert found.by[NAMESPACE] == {"shop": 50_000_000, "data": 25_000_000, IDLE: 25_000_000}
