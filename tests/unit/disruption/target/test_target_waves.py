"""Which commands of a target may begin, and with budgets ignored, how all of a small fleet's nodes go."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.target_search import SMALL
from core.disruption.target.target_waves import Target, target_waves
from core.model.catalogue import Catalogue
from core.model.node_pool import Budget, Disruption
from core.model.pod import PodAffinityTerm
from core.model.snapshot import Options, Snapshot
from core.model.values.requirements import Requirement
from tests.builders import a_node_of, a_pool, a_selector, a_type
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of, half_full


def three_for_one(options: Options) -> Snapshot:
    """Three nodes at $0.40 become one at $0.50; one may go at a time, which does not pay on its own."""
    one = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    old, new = a_type("old", cpu="4", price=0.4), a_type("new", cpu="16", price=0.5)
    pairs = [a_node_of(old, f"n{n}") for n in range(3)]
    pods = tuple(pod_on(f"n{n}", cpu="3500m") for n in range(3))
    return world(*pairs, pods=pods, node_pools=(one,), options=options, catalogue=Catalogue(default=(old, new)))


@pytest.mark.parametrize(("options", "together"), [(Options(), []), (WHOLE_WAY, [("n0", "n1", "n2")])])
def test_nodes_that_pay_only_together_go_together_with_budgets_ignored(
    options: Options, together: list[tuple[str, ...]]
) -> None:
    """No node went: the first wave did not pay."""
    plan = disrupt(three_for_one(options))
    assert [command.nodes for command in plan.commands] == together
    assert plan.cost.before - plan.cost.after == (700_000_000 if together else 0)


@pytest.mark.parametrize(("options", "waves"), [(Options(), [1]), (WHOLE_WAY, [1, 2, 3])])
def test_one_wave_within_budgets_and_all_without(options: Options, waves: list[int]) -> None:
    snapshot = half_full(4, at_once=1, options=options)
    fleet = fleet_of(snapshot)
    found = drained(fleet, "n0", "n1", "n2")
    target = Target(fleet, found, found.claims, fleet.rows.problem.prices.astype(float))
    assert target.drains == {"n0", "n1", "n2"}
    these = target_waves(target, DisruptionPass(snapshot), is_gated=False)
    assert [command.wave for command in these.commands] == waves
    assert these.savings == 200_000_000 * len(waves)
    assert (these.objections, these.saved) == ({}, 0)


@pytest.mark.parametrize("ignore_budgets", [False, True])
def test_a_lone_spot_node_of_a_large_fleet_is_not_replaced_by_types_that_cost_more(*, ignore_budgets: bool) -> None:
    """Karpenter asks for fifteen cheaper types, and here are three; types at up to five times the price do not count."""
    old = a_type("old", cpu="16", memory="64Gi", price=0.8)
    cheaper = [a_type(f"cheaper-{n}", cpu="4", memory="16Gi", price=0.2 + n / 1000) for n in range(3)]
    expensive = [a_type(f"expensive-{n}", cpu="32", memory="128Gi", price=2 + n / 5) for n in range(20)]
    names = [f"n{n:02}" for n in range(SMALL + 5)]
    apart = (PodAffinityTerm(labels.HOSTNAME, a_selector(app="web")),)
    pods = tuple(pod_on(name, cpu="3500m", labels={"app": "web"}, anti_affinity=apart) for name in names)
    spot = Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT)
    gates = msgspec.structs.replace(Options().feature_gates, spot_to_spot_consolidation=True)
    snapshot = world(
        *(a_node_of(old, name, capacity_type=labels.SPOT) for name in names), pods=pods,
        node_pools=(a_pool("default", spot, disruption=Disruption(budgets=(Budget("10%"),))),),
        options=Options(feature_gates=gates, moves="thorough", ignore_budgets=ignore_budgets),
        catalogue=Catalogue(default=(old, *cheaper, *expensive)),
    )  # fmt: skip
    assert disrupt(snapshot).commands == ()


@pytest.mark.parametrize(
    ("options", "gone", "savings"), [(Options(), [], 0), (WHOLE_WAY, [("n0", "n1", "n2")], 7 * 10**8)]
)
def test_of_waves_one_by_one_and_all_nodes_together_the_cheaper_is_taken(
    options: Options, gone: list[tuple[str, ...]], savings: int
) -> None:
    snapshot = three_for_one(options)
    this_pass, fleet = DisruptionPass(snapshot), fleet_of(snapshot)
    found = drained(fleet, "n0", "n1", "n2")
    claims = this_pass.names.named_apart(found.claims)
    these = target_waves(Target(fleet, found, claims, fleet.prices.astype(float)), this_pass, is_gated=False)
    assert ([command.nodes for command in these.commands], these.savings) == (gone, savings)
    assert set(these.objections) == (set() if gone else {"n0", "n1", "n2"})
