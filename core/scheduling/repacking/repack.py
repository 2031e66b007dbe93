"""Replaces a plan's new nodes by cheaper ones that keep every rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from core import labels
from core.packing.budget import Budget
from core.packing.fluid import relax
from core.packing.improve import improve
from core.scheduling.ground import Ground
from core.scheduling.in_flight import InFlight
from core.scheduling.repacking.booking import booked
from core.scheduling.repacking.census import census, keeps_counts
from core.scheduling.repacking.columns import problem_of
from core.scheduling.repacking.host_rules import HostRules
from core.scheduling.repacking.kinds import Kind
from core.scheduling.repacking.part import Part
from core.scheduling.repacking.parties import Bundle, Market, Parties
from core.scheduling.repacking.relaxed import Relaxed
from core.scheduling.solve import Solution

CORES_MAX: Final = 300
"""Most sets of pods that must stay together in one search: each is a kind of its own."""

JOINT_LOADS_MAX: Final = 20_000
"""Most pairs of kind and column that are searched as one; beyond, each zone is a problem of its own."""

TakenApart = list[tuple[InFlight, list[Bundle]]]


class Repack:
    """One search for cheaper nodes."""

    def __init__(self, ground: Ground, budget: Budget) -> None:
        self._ground = ground
        self._budget = budget
        self._rules = HostRules(ground.topology.groups)
        self._parties = Parties(ground, self._rules)
        self._bounds: list[tuple[dict[Kind, int], int]] = []

    def improved(self, solution: Solution) -> Solution:
        """The solution with cheaper claims, or as it is. Limits are booked anew."""
        if self._budget.is_spent:
            return solution
        rooms = [dict(room.left) for room in solution.rooms]
        kept, parts = self._parts(solution)
        claims = list(kept)
        for part, share in zip(parts, _shares(parts), strict=True):
            portion = self._budget.portion(share)
            found = self._searched(part, portion)
            self._budget.steps += portion.steps
            room = solution.rooms[part.claims[0].template.index]
            claims += found if found and booked(found, part.claims, room) else part.claims
        for index, claim in enumerate(claims):
            claim.index = index
        anew = replace(solution, claims=claims)
        counted = census(self._ground, anew)
        if keeps_counts(self._ground, solution.tally, counted):
            return replace(anew, tally=counted)
        for room, left in zip(solution.rooms, rooms, strict=True):
            room.left = left
        return solution

    def bound(self, relaxed: Relaxed) -> int:
        """Nano-dollars per hour that no new nodes for these pods undercut."""
        known = next((bound for counts, bound in self._bounds if counts == relaxed.counts), None)
        if known is None:
            problem = problem_of(self._ground.templates, relaxed.counts, relaxed.rows)
            known = relax(problem.restricted(problem.undominated())).bound
        return known

    def _searched(self, part: Part, budget: Budget) -> list[InFlight]:
        problem = part.problem()
        if not problem.prices.all():
            return []
        seed = self._ground.snapshot.options.seed
        found = improve(problem, part.incumbent(problem), seed=seed, budget=budget)
        self._bounds.append((part.counts, found.lower_bound))
        return part.claims_of(problem, found.packing)

    def _parts(self, solution: Solution) -> tuple[list[InFlight], list[Part]]:
        """The claims that stay as they are, and the others by what their pods can be exchanged with.

        Company that a pod without a place waits for stays where it is: the pod could not join it there.
        """
        kept = list[InFlight]()
        awaited = {n for batch in solution.unplaced for n in self._rules.followed(batch.pod_class)}
        markets: dict[tuple[int, int], tuple[Market, TakenApart]] = {}
        for claim in solution.claims:
            company = {number for shape in claim.shapes for number in shape.selected_by} if awaited else set()
            if not self._may_repack(claim, solution) or not awaited.isdisjoint(company):
                kept.append(claim)
                continue
            market = self._parties.market(claim)
            entry = markets.setdefault((market.template.index, market.offered), (market, []))
            entry[1].append((claim, self._parties.of(claim, market)))
        parts: list[Part] = []
        for _, (market, taken_apart) in sorted(markets.items()):
            cored = [claim for claim, bundles in taken_apart if bundles[0][0].seats]
            many = set(map(id, cored)) if len(cored) > CORES_MAX else set()
            kept += [claim for claim in cored if many]
            parts += self._by_zone(market, [one for one in taken_apart if id(one[0]) not in many])
        return kept, parts

    def _may_repack(self, claim: InFlight, solution: Solution) -> bool:
        """Whether nothing but room, rules and price decides about a claim.

        Where pods were left over, a NodePool with limits is left as it is: who gets its last room is for the greedy planner.
        """
        template = claim.template
        is_scarce = bool(solution.unplaced and solution.rooms[template.index].left)
        return not (is_scarce or template.min_values or template.types.reservations())

    def _by_zone(self, market: Market, taken_apart: TakenApart) -> Iterator[Part]:
        """One part, or where that were too large one for each zone to which claims are held."""
        if not taken_apart:
            return
        kinds = {party for _, bundles in taken_apart for party, _ in bundles}
        if len(kinds) * market.template.mask.bit_count() <= JOINT_LOADS_MAX:
            yield Part(self._ground, market, taken_apart)
            return
        zones: dict[str, TakenApart] = {}
        for claim, bundles in taken_apart:
            zone = self._ground.table.single(claim.reqs, labels.ZONE)
            zones.setdefault(zone or "", []).append((claim, bundles))
        for zone, one in sorted(zones.items()):
            yield Part(self._ground, market, one, zone)


def _shares(parts: Sequence[Part]) -> list[float]:
    """For each part, which share of what is left of a budget it may spend: by how many pods there are from it on."""
    sizes = [sum(part.counts.values()) for part in parts]
    return [size / sum(sizes[position:]) for position, size in enumerate(sizes)]
