"""Why there is no new node although types are suitable."""

from __future__ import annotations

from core.reasons.pod import PodReason
from core.scheduling.explanation.new_node_refusal import NewNodeRefusal
from core.scheduling.explanation.type_elimination import TypeElimination
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.topology.domain_counts import DomainCounts
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of, group_of


def reason_for(cpu: int) -> str | None:
    context = context_of(types=(a_type("a", cpu="4"),), pods=(a_pod("p"),), node_pools=(a_pool(limits={"cpu": cpu}),))
    (template,), group = context.templates, group_of(context, "p")
    state = PlanState(context, DomainCounts(context.topology, ()), context.plan_constraints(()))
    (step,) = group.steps
    reqs = context.table.narrowed(template.offered, asked=step.alternatives[0])
    elimination = TypeElimination(context, state.constraints, template, group, reqs)
    return NewNodeRefusal(context, state).finding(elimination, step).reason


def test_limits_are_the_reason_only_if_they_leave_nothing() -> None:
    """Otherwise, a user raises a limit that has room."""
    assert (reason_for(3_999), reason_for(4_000)) == (PodReason.LIMIT_REACHED, None)
