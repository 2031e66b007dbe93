"""Plans within the limits of an account."""

from __future__ import annotations

from core.model.snapshot import Options
from core.model.values.commitment import ReservedInstances
from core.model.values.vcpu_quotas import STANDARD
from core.scheduling.constraints.ec2_quotas import Ec2Quotas
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.solution import Solution
from core.scheduling.replanning.ec2_limits import commitment_contexts, plan_rank, planned_within_ec2_limits
from core.scheduling.replanning.greedy_plans import planned
from tests.builders import a_pod, a_type
from tests.unit.scheduling.reading import context_of

MEDIUM = a_type("m7.large", cpu="2", price=0.1)


def _plan(context: SchedulingContext) -> tuple[Solution, None]:
    return planned(context, frozenset(), consolidation=False)[0], None


def test_a_plan_beyond_a_quota_is_made_again_with_the_quota_as_a_constraint() -> None:
    """A plan within its quotas is made once: the constraint costs time."""
    for on_demand, spot, constrained, waiting in ((100, 100, False, 0), (2, 0, True, 1)):
        quotas = {STANDARD.on_demand: on_demand, STANDARD.spot: spot}
        pods = tuple(a_pod(f"p{number}", cpu="1.5") for number in range(2))
        context, (solution, _) = planned_within_ec2_limits(
            context_of(types=(MEDIUM,), pods=pods, vcpu_quotas=quotas), _plan
        )
        assert (Ec2Quotas in context.constraints) is constrained
        assert plan_rank(solution)[0] == waiting


def test_a_plan_is_made_in_two_contexts_only_while_a_commitment_has_an_unused_amount() -> None:
    """Elsewhere, both plans are the same, and each takes its time."""
    reserved = Options(commitments=(ReservedInstances(name="r", instance_type="m7.large", count=1),))
    assert len(commitment_contexts(context_of(types=(MEDIUM,)), frozenset())) == 1
    assert len(commitment_contexts(context_of(types=(MEDIUM,), options=reserved), frozenset())) == 2
