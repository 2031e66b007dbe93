"""A simulated fleet counts each saving once, however many snapshots show it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.counterfactual.fleet_simulation import FleetSimulation, SimulatedPeriod, SimulationRules, simulated_periods
from core.counterfactual.overrides import Overrides
from core.counterfactual.simulated_fleet import SimulatedFleet
from core.errors import InvalidInputError
from core.model.node_pool import Budget, Disruption
from core.model.pod import Owner, Pod
from core.model.snapshot import Options, Snapshot
from core.model.values.commitment import ReservedInstances
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TYPE = a_type("m5.large", cpu="4", memory="16Gi", price=0.1, capacity_types=("on-demand",))
LARGE = a_type("m5.xlarge", cpu="8", memory="32Gi", price=0.2, capacity_types=("on-demand",))


def owned(name: str, **more: object) -> Pod:
    return a_pod(name, owners=(Owner(kind="ReplicaSet", name="web", is_controller=True),), **more)


def a_look(minute: int = 0, *, budgets: tuple[Budget, ...] = (Budget(nodes="100%"),), **changes: object) -> Snapshot:
    """Two on-demand nodes; one is empty."""
    pairs = [a_node_of(TYPE, "busy"), a_node_of(TYPE, "idle")]
    disruption = Disruption(budgets=budgets)
    fields = {
        "now": NOW + minute * MINUTE,
        "node_pools": (a_pool(disruption=disruption),),
        "node_claims": tuple(claim for claim, _ in pairs),
        "nodes": tuple(node for _, node in pairs),
        "pods": (owned("a", cpu="3", node_name="busy", phase="Running"),),
    }
    return a_snapshot(types=(TYPE, LARGE), **{**fields, **changes})


def simulated(rules: SimulationRules, *looks: Snapshot, minutes: int) -> SimulatedPeriod:
    simulation = FleetSimulation(rules, looks[0])
    for look in looks[1:]:
        simulation.see(look)
    return simulation.finish(NOW + minutes * MINUTE)


def test_a_saving_counts_once_however_often_it_is_observed() -> None:
    """Karpenter keeps its empty node here; ten snapshots would count it ten times."""
    ten = [a_look(minute) for minute in range(0, 60, 6)]
    found = simulated(SimulationRules(), *ten, minutes=60)
    assert (found.nodes, sum(found.commands.values())) == (1, 1)
    assert found.cost == 100_000_000
    assert found.cost == simulated(SimulationRules(), ten[0], minutes=60).cost


def test_what_commitments_cover_is_not_charged() -> None:
    """The recorded side never was charged for it, so that an unchanged period seemed to cost more when it was simulated."""
    options = Options(commitments=(ReservedInstances(name="ri", instance_type="m5.large", count=1),))
    look = a_look(options=options)
    recorded, (found,) = simulated_periods([look], [SimulationRules(consolidates=False)], NOW + HOUR)
    assert recorded.cost == found.cost == 100_000_000
    assert simulated_periods([look], [SimulationRules()], NOW + HOUR)[1][0].cost == 0
    assert simulated_periods([a_look()], [SimulationRules()], NOW + HOUR)[1][0].cost == 100_000_000


def test_without_consolidation_each_node_costs_until_the_end() -> None:
    found = simulated(SimulationRules(consolidates=False), a_look(), minutes=90)
    assert found.cost == 3 * 100_000_000
    assert (found.hours, found.moves, found.commands, found.by_pool) == (3.0, 0, {}, {"default": 300_000_000})


def test_new_pods_get_nodes_and_nodes_without_pods_are_removed() -> None:
    new = tuple(owned(f"new-{number}", cpu="3") for number in range(3))
    looks = [a_look(), a_look(10, pods=(*a_look().pods, *new)), a_look(20)]
    found = simulated(SimulationRules(), *looks, minutes=30)
    assert found.waited >= 2
    assert found.launched >= 1
    assert (found.nodes, found.unplaced) == (1, ())


def test_a_successor_replaces_the_pod_that_really_moved() -> None:
    """In the record Karpenter evicted it; in the simulated fleet it did not move."""
    looks = [a_look(), a_look(5, pods=(owned("renamed", cpu="3", node_name="other", phase="Running"),))]
    assert simulated(SimulationRules(), *looks, minutes=10).waited == 0


def test_a_closed_budget_keeps_the_node_until_its_window_ends() -> None:
    """No record has the time at which the window ends; the simulation adds it."""
    window = Budget(nodes="0", schedule=f"{NOW.minute} {NOW.hour} * * *", duration=30 * MINUTE)
    found = simulated(SimulationRules(), a_look(budgets=(window,)), minutes=60)
    assert found.cost == 100_000_000 + 50_000_000


@pytest.mark.parametrize("karpenter", [False, True])
def test_the_alternative_options_are_simulated(karpenter: bool) -> None:
    asked = a_pool(disruption=Disruption(budgets=(Budget(nodes="0"),)))
    rules = SimulationRules(change=Overrides(node_pools=(asked,)).applied_to, karpenter_moves_only=karpenter)
    assert simulated(rules, a_look(), minutes=60).nodes == 2
    assert simulated(SimulationRules(karpenter_moves_only=karpenter), a_look(), minutes=60).nodes == 1


def test_parallel_simulations_do_not_affect_each_other() -> None:
    looks = [a_look(), a_look(30)]
    period, (kept, let_go) = simulated_periods(
        looks, (SimulationRules(consolidates=False), SimulationRules()), NOW + HOUR
    )
    assert (period.snapshots, period.cost) == (2, 200_000_000)
    assert (kept.cost, let_go.cost) == (200_000_000, 100_000_000)
    with pytest.raises(InvalidInputError, match="no snapshot"):
        simulated_periods([], (SimulationRules(),), NOW)


def test_a_fleet_starts_without_leaving_nodes_and_keeps_unmanaged_ones() -> None:
    look = a_look()
    going = msgspec.structs.replace(look.node_claims[1], deleted_at=NOW)
    fleet = SimulatedFleet(msgspec.structs.replace(look, node_claims=(look.node_claims[0], going)))
    assert list(fleet.claims) == ["busy"]
    foreign = msgspec.structs.replace(look, node_claims=look.node_claims[:1])
    simulated = SimulatedFleet(foreign).in_snapshot(foreign, NOW, karpenter_moves_only=False)
    assert sorted(node.name for node in simulated.nodes) == ["busy", "idle"]
