"""Plans the fleet without many of its nodes: places their pods, and packs the new nodes as well as possible."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from core.model.pod import Pod
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.solution import Solution
from core.scheduling.replanning.ec2_limits import cheaper_within_ec2_limits

R = TypeVar("R")


class DrainedFleet(msgspec.Struct, Generic[R], frozen=True, eq=False):
    """One result of the scheduler.

    Attributes:
        results: The plan with the scheduler's own new nodes.
    """

    results: R
    _context: SchedulingContext
    _solution: Solution
    _results: Callable[[Solution], R]
    _search: SearchSettings

    def packed(self, budget: SearchBudget) -> R:
        """Return the same pods on cheaper new nodes, if any are found within the budget.

        Two models of hostname rules are tried for a few steps each: as resources of machines, and as caps on each kind of pod.
        Which is better depends on how many pods such rules keep apart; without such resources both are the same, and one trial
        of as many steps stands for both. The better one gets the rest of the steps. With most of them it begins from the
        scheduler's own new nodes again: pods that the trial put together may only use the types of their new node. With the
        others it continues from the cheapest nodes found, which may have been split (ADR 269).
        """
        if not self._solution.claims or budget.is_spent:
            return self.results
        from core.scheduling.optimization.repacker import Repacker

        share = self._search.repack.way_trial_share
        trials: list[tuple[Solution, Repacker]] = []
        tried: tuple[Repacker, SearchBudget] | None = None
        for way in _ways(self._search, len(self._context.existing_nodes)):
            portion = budget.portion(share)
            if tried is not None and not tried[0].models_hostnames and tried[1].steps_max == portion.steps_max:
                portion = tried[1]  # as if the same search had run again
            else:
                repacker = Repacker(self._context, way)
                trials.append((repacker.improved(self._solution, portion), repacker))
                tried = repacker, portion
            budget.steps += portion.steps
        best, better = min(trials, key=lambda trial: _cost(trial[0]))
        portion = budget.portion(self._search.repack.restart_share)
        restarted = better.improved(self._solution, portion)
        budget.steps += portion.steps
        best = min(best, restarted, key=_cost)
        continued = better.improved(best, budget)
        return self._results(self._if_within_ec2_limits(min(best, continued, key=_cost)))

    def regrouped(self, new_nodes: Sequence[Mapping[str, int]], kind: Callable[[Pod], str]) -> R:
        """Return the same pods on the intended new nodes, if that is cheaper.

        Args:
            new_nodes: For each node, kind → number of pods.
            kind: Returns the kind of a pod.
        """
        if not self._solution.claims or not new_nodes:
            return self.results
        from core.scheduling.optimization.repacker import Repacker

        way = next(iter(_ways(self._search, len(self._context.existing_nodes))))
        found = Repacker(self._context, way).regrouped(self._solution, new_nodes, kind)
        return self._results(self._if_within_ec2_limits(found))

    def _if_within_ec2_limits(self, found: Solution) -> Solution:
        """Return the cheaper solution if it is within EC2's quotas and free addresses, else the scheduler's, which is."""
        return cheaper_within_ec2_limits(self._context, found, self._solution) or self._solution


def _ways(settings: SearchSettings, nodes: int) -> tuple[SearchSettings, SearchSettings]:
    """Return the settings of both models for a fleet. All zones are packed together: separately, each one rounds up on its own.

    Column generation packs machines with more pods than in a plan, thousands of pods on dozens of machines (docs/adr/0259), and
    also where rounding comes nearer to the bound (docs/adr/0269), in larger fleets with better loads and dives (docs/adr/0275).
    """
    whole, target = replace(settings.repack, joint_pairs_max=sys.maxsize), settings.target
    stages = replace(
        settings.stages,
        coarse_pods_per_machine_max=target.coarse_pods_per_machine_max,
        coarse_gap_relative=target.coarse_gap_relative,
    )
    settings = replace(settings, repack=whole, stages=stages)
    if nodes >= target.improved_loads_nodes_min:
        settings = replace(
            settings,
            master_problem=target.master_problem,
            load_exchange=target.load_exchange,
            kept_machines=target.kept_machines,
        )
    return settings, replace(settings, repack=replace(whole, hostname_resources_max=0))


def _cost(solution: Solution) -> int:
    return sum(claim.price for claim in solution.claims)
