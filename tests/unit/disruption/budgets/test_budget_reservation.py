"""Commands of one pass share the budgets; a trial does not use them up."""

from __future__ import annotations

import msgspec

from core.disruption.budgets.budget_reservation import BudgetReservation
from core.disruption.disruption_pass import DisruptionPass
from core.model.node_pool import Budget, Disruption
from core.reasons.termination import TerminationReason
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, world


def test_a_trial_uses_only_its_own_copy() -> None:
    pools = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),))),)
    cluster = msgspec.structs.replace(world(a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2")), node_pools=pools)
    this_pass = DisruptionPass(cluster)
    first, second = this_pass.survey.candidates
    left: BudgetReservation = this_pass.budgets.reservation()
    assert left.allows(second, TerminationReason.DRIFTED)
    assert left.take(first, TerminationReason.DRIFTED)
    assert not left.allows(second, TerminationReason.DRIFTED)
    assert not left.take(second, TerminationReason.DRIFTED)
    assert this_pass.budgets.reservation().take(second, TerminationReason.DRIFTED)
