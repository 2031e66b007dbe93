"""Targets of small clusters."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.decide import TargetDecision
from core.disruption.target.fleet import TargetFleet, target_fleet
from core.disruption.target.realization import Realization, Realizations
from core.model.catalogue import Catalogue
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command
from core.model.snapshot import Options, PodDisruptionBudget, Snapshot
from core.packing.settings import SearchBudget
from tests.builders import a_node_of, a_pool, a_selector, a_type
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, pod_on, world

WHOLE_WAY: Final = Options(ignore_budgets=True)
STEPS: Final = 20


def half_full(nodes: int, *, at_once: int, **changes: Any) -> Snapshot:
    """Nodes with a tenth of their room used; this many may go at one time."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(str(at_once)),)))
    pairs = [a_node_of(MIDDLE, f"n{n}") for n in range(nodes)]
    pods = tuple(pod_on(f"n{n}", cpu="400m") for n in range(nodes))
    return world(*pairs, **{"pods": pods, "node_pools": (pool,), **changes})


def sharing_a_budget(number: int, *, price: float = 0.5) -> Snapshot:
    """Nodes that can become one; a PodDisruptionBudget lets the pod of one of them go at a time."""
    old, new = a_type("old", cpu="4", price=0.4), a_type("one", cpu=str(4 * number), pods="60", price=price)
    names = [f"n{n:02}" for n in range(number)]
    fields = {"selector": a_selector(app="web"), "max_unavailable": "1", "disruptions_allowed": 1}
    guard = PodDisruptionBudget(namespace="default", name="web", **fields)
    pods = [pod_on(name, cpu="3500m", labels={"app": "web"}) for name in names]
    pairs = [a_node_of(old, name) for name in names]
    return world(*pairs, pods=tuple(pods), budgets=(guard,), catalogue=Catalogue(default=(old, new)))


def fleet_of(snapshot: Snapshot) -> TargetFleet:
    """The nodes that a target of this snapshot decides about."""
    fleet = target_fleet(DisruptionPass(snapshot))
    assert fleet is not None
    return fleet


def drained(fleet: TargetFleet, *names: str) -> Realization:
    """The result for the pods if these nodes go."""
    keeps = np.array([candidate.name not in names for candidate in fleet.candidates])
    return Realizations(fleet, is_gated=False, keep_discount=0).of(keeps, None, None)


def decided(disruption_pass: DisruptionPass) -> list[Command]:
    """The commands of the target; the pass records why nodes stay."""
    return TargetDecision(disruption_pass, SearchBudget(STEPS)).commands()
