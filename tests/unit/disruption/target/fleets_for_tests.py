"""Targets of small clusters."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.decide import TargetDecision
from core.disruption.target.realization import Realization, Realizations
from core.disruption.target.target_fleet import TargetFleet, target_fleet
from core.model.plan import Command
from core.model.snapshot import Options, Snapshot
from core.packing.search_budget import SearchBudget

WHOLE_WAY: Final = Options(ignore_budgets=True)
STEPS: Final = 20


def fleet_of(snapshot: Snapshot) -> TargetFleet:
    """The nodes that a target of this snapshot decides about."""
    found = target_fleet(DisruptionPass(snapshot))
    assert found is not None
    return found


def drained(fleet: TargetFleet, *names: str) -> Realization:
    """What becomes of the pods if these nodes go."""
    keeps = np.array([candidate.name not in names for candidate in fleet.candidates])
    return Realizations(fleet, is_gated=False, keep_discount=0).of(keeps, None, None)


def decided(disruption_pass: DisruptionPass) -> list[Command]:
    """The commands of the target; the pass is told why nodes stay."""
    return TargetDecision(disruption_pass, SearchBudget(STEPS)).commands()
