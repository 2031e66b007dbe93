"""Computes a lower bound on the fleet's cost over all possible decisions."""

from __future__ import annotations

import numpy as np

from core.disruption.consolidation import objection
from core.disruption.disruption_pass import DisruptionPass, fleet_price
from core.packing.fleet_target import fleet_bound, promising
from core.packing.relaxation import relax
from core.packing.settings import DEFAULT_SETTINGS
from core.reasons.code import TerminationReason
from core.scheduling.fleet_rows import DrainableNode, FleetRows


def fleet_floor(disruption_pass: DisruptionPass) -> int:
    """Return a lower bound for every decision about this snapshot, in nano-dollars per hour: nodes that may go, plus the rest.

    The bound ignores budgets and rules between pods; it uses only what each pod alone requires of a node.

    Args:
        disruption_pass: A pass that has decided nothing yet.
    """
    snapshot = disruption_pass.snapshot
    repairs = snapshot.options.feature_gates.node_repair
    going, free = [], 0
    for candidate in disruption_pass.survey.candidates:
        may_drift = bool(candidate.drift) and disruption_pass.is_free(candidate, TerminationReason.DRIFTED)
        may_leave = not candidate.protected and (repairs or objection(candidate, disruption_pass) is None)
        if candidate.pool.is_static and (may_drift or repairs):
            free += candidate.price  # its replacement is not known here, so it counts as zero
        elif may_drift or may_leave:
            going.append(candidate)
    if not going:
        return fleet_price(snapshot) - free
    context = disruption_pass.planner.context
    positions = context.positions
    rows = FleetRows(context, [DrainableNode(positions[c.name], c.price, 0) for c in going], ())
    types = np.zeros(0, dtype=np.int64)
    if rows.market is not None:
        types = promising(rows.market, relax(rows.market, DEFAULT_SETTINGS))
    return fleet_price(snapshot) - free - sum(c.price for c in going) + fleet_bound(rows.problem, types)
