"""Replaces a plan's new nodes by cheaper ones that keep every rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from core.packing.search_budget import Budget
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.scheduler import Solution
from core.scheduling.optimization.claims.limit_accounting import booked
from core.scheduling.optimization.claims.topology_recount import census, keeps_counts
from core.scheduling.optimization.items.hostname_caps import HostRules
from core.scheduling.optimization.items.item_extraction import Bundle, Market, Parties
from core.scheduling.optimization.search_schedule import search
from core.scheduling.optimization.subproblems.subproblem import Part
from core.scheduling.optimization.subproblems.zone_split import Zones

CORES_MAX: Final = 300
"""Most sets of pods that must stay together in one search: each is a kind of its own."""

JOINT_LOADS_MAX: Final = 20_000
"""Most pairs of kind and column that are searched as one; beyond, each zone is a problem of its own."""

TOGETHER_AGAIN: Final = 2.5
"""How many times as long putting claims together takes as taking them to pieces: kept for it of the time to search in."""

Replaceable = tuple[Market, list[InFlightClaim], list[list[Bundle]]]
"""Claims of a market, and for each its pods as bundles."""


class Repack:
    """One search for cheaper nodes."""

    def __init__(self, context: SchedulingContext, budget: Budget) -> None:
        self._context = context
        self._budget = budget
        self._rules = HostRules(context.topology.groups)
        self._parties = Parties(context, self._rules)

    def improved(self, solution: Solution) -> Solution:
        """The solution with cheaper claims, or as it is. Limits are booked anew."""
        if self._budget.is_spent:
            return solution
        limits = [dict(room.left) for room in solution.state.limits]
        began = self._budget.elapsed
        claims, replaceable = self._sorted_out(solution)
        budget = self._budget.setting_aside(TOGETHER_AGAIN * (self._budget.elapsed - began))
        tasks = [(old, self._parts(market, nodes, budget)) for market, old, nodes in replaceable]
        seed = self._context.snapshot.options.seed
        searches = search([part for _, parts in tasks for part in parts], seed, budget)
        found = iter([one.claims() for one in searches])
        for old, parts in tasks:
            of_parts = [next(found) for _ in parts]
            anew = [claim for claims_of_part in of_parts for claim in claims_of_part]
            room = solution.state.limits[old[0].template.index]
            claims += anew if all(of_parts) and booked(anew, old, room) else old
        for index, claim in enumerate(claims):
            claim.index = index
        changed = replace(solution, claims=claims)
        counted = census(self._context, changed)
        if keeps_counts(self._context, solution.state.domain_counts, counted):
            return replace(changed, state=replace(solution.state, domain_counts=counted))
        for room, left in zip(solution.state.limits, limits, strict=True):
            room.left = left
        return solution

    def _sorted_out(self, solution: Solution) -> tuple[list[InFlightClaim], list[Replaceable]]:
        """The claims that stay as they are, and the others by market, each with its pods as bundles.

        Company that a pod without a place waits for stays where it is: the pod could not join it there.
        """
        kept = list[InFlightClaim]()
        awaited = {n for pending_group in solution.unplaced for n in self._rules.followed(pending_group.pod_group)}
        markets: dict[tuple[int, int], tuple[Market, list[InFlightClaim]]] = {}
        for claim in solution.claims:
            company = (
                {number for signature in claim.signatures for number in signature.selected_by} if awaited else set()
            )
            if self._may_repack(claim, solution) and awaited.isdisjoint(company):
                market = self._parties.market(claim)
                markets.setdefault((market.template.index, market.offered), (market, []))[1].append(claim)
            else:
                kept.append(claim)
        found: list[Replaceable] = []
        for _, (market, claims) in sorted(markets.items()):
            nodes = [self._parties.of(claim, market) for claim in claims]
            stay = sum(bundles[0][0].seats for bundles in nodes) > CORES_MAX
            pairs = [pair for pair in zip(claims, nodes, strict=True) if not (stay and pair[1][0][0].seats)]
            moved = {id(claim) for claim, _ in pairs}
            kept += [claim for claim in claims if id(claim) not in moved]
            if pairs:
                found.append((market, [claim for claim, _ in pairs], [bundles for _, bundles in pairs]))
        return kept, found

    def _may_repack(self, claim: InFlightClaim, solution: Solution) -> bool:
        """Whether nothing but room, rules and price decides about a claim, as far as the constraints can say."""
        pods_wait = bool(solution.unplaced)
        constraints = solution.state.constraints.all
        return not claim.min_values_relaxed and all(c.may_replace(claim, pods_wait=pods_wait) for c in constraints)

    def _parts(self, market: Market, nodes: Sequence[Sequence[Bundle]], budget: Budget) -> list[Part]:
        """One part, or where that were too large one for each zone."""
        bundles = [bundle for node in nodes for bundle in node]
        parties = {party for party, _ in bundles}
        if len(parties) * market.template.mask.bit_count() > JOINT_LOADS_MAX:
            zones = Zones(self._context, market, budget).split(bundles)
            if zones:
                return [Part(self._context, market, [there], zone) for zone, there in zones.items()]
        return [Part(self._context, market, nodes)]
