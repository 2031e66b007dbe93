"""The start of every search: chooses the types worth buying, and solves the fluid relaxation over them."""

from __future__ import annotations

import msgspec

from core.packing.problem import Ints, PackingProblem
from core.packing.relaxation.fluid_lp import FluidSolution, relax
from core.packing.relaxation.launch_flexibility import bundled
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings


class PreparedProblem(msgspec.Struct, frozen=True, eq=False):
    """A problem, ready for searching.

    Attributes:
        problem: As it was given.
        kept: The types that no other type dominates; an optimum without the others exists.
        reduced: The problem with these types only.
        fluid: Its relaxation.
    """

    problem: PackingProblem
    kept: Ints
    reduced: PackingProblem
    fluid: FluidSolution


def prepared(problem: PackingProblem, settings: SearchSettings) -> PreparedProblem:
    """The problem with each type at its whole capacity."""
    kept = problem.undominated()
    reduced = problem.restricted(kept)
    return PreparedProblem(problem, kept, reduced, relax(reduced, settings))


def prepared_with_flexibility(
    problem: PackingProblem, settings: SearchSettings, budget: SearchBudget
) -> PreparedProblem:
    """Return the problem with each type as small as its bundle, or unchanged if that costs too much or the budget is spent.

    With few machines, or few pods on each, it stays unchanged: small machines have many alternatives anyway, and the relaxation
    does not show what bundles cost in rounding.
    """
    plain, limits = prepared(problem, settings), settings.launch_flexibility
    machines = plain.fluid.machines.sum()
    is_small = machines < limits.machines_min or problem.counts.sum() < limits.pods_per_machine_min * machines
    reduced = None if is_small or budget.is_spent else bundled(problem, limits)
    if reduced is None:
        return plain
    flexible = prepared(reduced, settings)
    cost_max = plain.fluid.lower_bound * (1 + limits.cost_relative_max)
    return flexible if flexible.fluid.lower_bound <= cost_max else plain
