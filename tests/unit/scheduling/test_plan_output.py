"""Claims with the names that the plan gives them."""

from __future__ import annotations

from datetime import timedelta

from core import labels
from core.model.values.requirements import Requirement
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.plan_output import planned_claims
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of


def test_claims_are_numbered_by_pool_and_list_their_types_by_price() -> None:
    """Otherwise, two claims of a plan have one name, or a launch begins with an expensive type."""
    expensive, cheap = a_type("a", cpu="4", price=0.4), a_type("b", cpu="4", price=0.3)
    own = Requirement.one_of("team", "x")
    context = context_of(
        types=(expensive, cheap), pods=(a_pod("p", cpu="3"), a_pod("q", cpu="3")), node_pools=(a_pool("main", own),)
    )
    solution = GreedyScheduler(context, queue_of(context, [(context.pending, False)]), frozenset(), frozenset()).run()
    first, second = planned_claims(solution.claims, context.axis, context.table.well_known)
    assert (first.name, second.name) == ("main-0", "main-1")
    assert first.instance_types == ("b", "a")
    assert first.labels["team"] == "x"
    assert sorted((*first.pods, *second.pods)) == ["default/p", "default/q"]
    asked = {requirement.key: requirement.values for requirement in first.requirements}
    assert asked[labels.CAPACITY_TYPE] == tuple(sorted((labels.ON_DEMAND, labels.SPOT)))
    assert first.resources["cpu"] == 3000


def test_a_claim_has_the_terms_of_its_node_pool() -> None:
    """A term that is lost here reaches no node: it would never expire, and its drain would never end."""
    terms = {"expire_after": timedelta(hours=1), "termination_grace_period": timedelta(minutes=1)}
    flexible = Requirement(labels.INSTANCE_TYPE, True, (), min_values=1)
    context = context_of(types=(a_type(),), pods=(a_pod(),), node_pools=(a_pool("main", flexible, **terms),))
    solution = GreedyScheduler(context, queue_of(context, [(context.pending, False)]), frozenset(), frozenset()).run()
    (claim,) = planned_claims(solution.claims, context.axis, context.table.well_known)
    assert {name: getattr(claim, name) for name in terms} == terms
    assert (claim.annotations[labels.MIN_VALUES_RELAXED], claim.min_values_relaxed) == ("false", False)
