"""What every search of a problem begins with: the types worth buying, and the fluid relaxation over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.packing.problem import Ints, Problem
from core.packing.relaxation.fluid_lp import Fluid, relax
from core.packing.relaxation.launch_flexibility import bundled
from core.packing.search_budget import Budget

CHOICE_COST_MAX: Final = 0.01
"""What planning for bundles may cost, by the fluid relaxation; where it costs more, types are planned for one by one."""


MACHINES_MIN: Final = 40
PODS_EACH_MIN: Final = 20
"""With fewer machines, or fewer pods on each, bundles are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A problem, made ready for searching.

    Attributes:
        problem: As it was given.
        kept: The types that no other one dominates; no optimum needs the others.
        small: The problem with these only.
        fluid: Its relaxation.
    """

    problem: Problem
    kept: Ints
    small: Problem
    fluid: Fluid


def prepared(problem: Problem) -> Prepared:
    """The problem as it is."""
    kept = problem.undominated()
    small = problem.restricted(kept)
    return Prepared(problem, kept, small, relax(small))


def leaving_a_choice(problem: Problem, budget: Budget) -> Prepared:
    """The problem with each type as small as its bundle, or as it is where that costs too much or the budget is spent.

    Where machines are few or hold few pods it is left as it is: small machines have a choice anyway, and what bundles cost in
    rounding the fluid relaxation does not see.
    """
    plain = prepared(problem)
    machines = plain.fluid.machines.sum()
    is_small = machines < MACHINES_MIN or problem.counts.sum() < PODS_EACH_MIN * machines
    held = None if is_small or budget.is_spent else bundled(problem)
    if held is None:
        return plain
    choice = prepared(held)
    return choice if choice.fluid.bound <= plain.fluid.bound * (1 + CHOICE_COST_MAX) else plain
