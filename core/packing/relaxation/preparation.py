"""The start of every search: chooses the types worth buying, and solves the fluid relaxation over them."""

from __future__ import annotations

import msgspec

from core.packing.problem import Ints, PackingProblem
from core.packing.relaxation.fluid_lp import FluidSolution, at_prices_of, relax
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
        is_relaxed: Whether that is the optimum for these pods; otherwise, it has only the prices and the bound.
    """

    problem: PackingProblem
    kept: Ints
    reduced: PackingProblem
    fluid: FluidSolution
    is_relaxed: bool = True


def prepared(problem: PackingProblem, settings: SearchSettings) -> PreparedProblem:
    """The problem with each type at its whole capacity."""
    kept = problem.undominated()
    reduced = problem.restricted(kept)
    return PreparedProblem(problem, kept, reduced, relax(reduced, settings))


def prepared_like(problem: PackingProblem, other: PreparedProblem, settings: SearchSettings) -> PreparedProblem | None:
    """Return a problem with the resource prices of another one; None if its types differ, or it has many pods on each machine.

    The relaxation is then worth its time: with many pods on each machine, types may be bundled.
    """
    kept = problem.undominated()
    reduced = problem.restricted(kept)
    has_equal_types = reduced.capacity.shape == other.reduced.capacity.shape and bool(
        (reduced.capacity == other.reduced.capacity).all() and (reduced.prices == other.reduced.prices).all()
    )
    if not has_equal_types:
        return None
    fluid = at_prices_of(reduced, other.fluid, settings)
    is_small = problem.counts.sum() < settings.launch_flexibility.pods_per_machine_min * fluid.machines.sum()
    return PreparedProblem(problem, kept, reduced, fluid, is_relaxed=False) if is_small else None


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
