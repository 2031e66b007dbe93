"""Makes the greedy plan cheaper, and proves a lower bound on the cost of every plan."""

from __future__ import annotations

from core.model.plan import Cost
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.solution import Solution
from core.scheduling.optimization.relaxed_pods import RelaxedPods, is_undercut


def improved(
    context: SchedulingContext,
    solution: Solution,
    budget: SearchBudget | None,
    settings: SearchSettings,
    *,
    proves: bool = True,
) -> tuple[Solution, Cost]:
    """Return the plan, made cheaper within the budget, with its lower bound.

    Without a budget nothing is searched, and a bound that needs a solver is left out, as without `proves`.
    """
    relaxed, cost, limits = RelaxedPods(context, solution, settings), _cost(solution), settings.optimizer
    bound = relaxed.arithmetic_bound() if relaxed.pairs_max <= limits.arithmetic_pairs_max else None
    is_small = sum(relaxed.counts.values()) < limits.pods_min and len(solution.claims) < limits.claims_min
    above, below = limits.far_cost_ratio
    is_good = is_small and bound is not None and cost * below < bound * above and cost <= relaxed.separate_cost()
    is_near = bound == cost or (is_good and not any(map(is_undercut, solution.claims)))
    # The caller's clock starts at its first call: before the solver is loaded, so that loading counts.
    if budget is None or not solution.claims or is_near or budget.is_spent:
        return solution, Cost(cost, bound)
    from core.scheduling.optimization.lower_bound import LowerBound
    from core.scheduling.optimization.repacker import Repacker

    lower_bound = LowerBound(context, relaxed, settings) if proves else None
    cheaper = Repacker(context, settings).improved(solution, budget)
    found = _cost(cheaper)
    if lower_bound is None:
        return cheaper, Cost(found, bound)
    return cheaper, Cost(found, max(bound or 0, lower_bound.proven(cheaper.claims, cost=found, budget=budget)))


def default_steps(solution: Solution, settings: SearchSettings) -> int:
    """Return the default number of steps. It depends only on the plan's size, so that repeated runs find the same."""
    limits = settings.optimizer
    machines = limits.default_steps_offset + len(solution.claims)
    return max(limits.default_steps_min, limits.default_steps_machines // machines)


def _cost(solution: Solution) -> int:
    return sum(claim.price for claim in solution.claims)
