"""Packs the pods of new nodes anew, one NodePool at a time, and builds the claims by the same rules as the greedy planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from core.model import quantity
from core.model.pod import Pod
from core.packing.budget import Budget
from core.packing.fluid import relax
from core.packing.improve import improve
from core.packing.problem import Ints, Packing, Problem
from core.scheduling.columns import problem_of
from core.scheduling.ground import Ground
from core.scheduling.in_flight import InFlight
from core.scheduling.limits import Room
from core.scheduling.packable import Kind, Packable
from core.scheduling.requirement_table import IMPOSSIBLE
from core.scheduling.resource_axis import plus
from core.scheduling.solve import Solution
from core.scheduling.template import Template
from core.scheduling.type_index import bits

PRICE_BAND: Final = (3, 2)
"""A repacked node keeps the types that cost up to one and a half times its cheapest: a fleet may pick any of them."""

TYPES_MIN: Final = 30
"""It keeps so many in any case, dearer ones too: with few types to choose from, a launch fails."""


CORES_MAX: Final = 300
"""Most sets of pods that must stay together in one search."""


class Repack:
    """One search for cheaper nodes."""

    def __init__(self, ground: Ground, packable: Packable, budget: Budget) -> None:
        self._ground = ground
        self._packable = packable
        self._budget = budget
        self._bounds: dict[tuple[tuple[Kind, int], ...], int] = {}

    def improved(self, solution: Solution) -> list[InFlight]:
        """The solution's claims, those that may be repacked in their new form; never dearer. Limits are booked anew.

        Where pods were left over, a NodePool with limits is left as it is: who gets its last room is for the greedy planner.
        """
        claims, free = list[InFlight](), dict[int, list[InFlight]]()
        if self._budget.is_spent:
            return solution.claims
        for claim in solution.claims:
            is_scarce = bool(solution.unplaced and solution.rooms[claim.template.index].left)
            is_free = not is_scarce and self._packable.may_repack(claim)
            (free.setdefault(claim.template.index, []) if is_free else claims).append(claim)
        self._keep_many_cores(free, claims)
        for position, ours in sorted(free.items()):
            found = self._repacked(self._ground.templates[position], ours) if ours else []
            claims += found if _is_cheaper(found, ours) and _booked(found, ours, solution.rooms[position]) else ours
        return claims

    def bound(self, counts: Mapping[Kind, int]) -> int:
        """Nano-dollars per hour that no new nodes for these pods undercut."""
        known = self._bounds.get(tuple(counts.items()))
        if known is None:
            problem = problem_of(self._ground.templates, counts)
            known = relax(problem.restricted(problem.undominated())).bound
        return known

    def _keep_many_cores(self, free: dict[int, list[InFlight]], kept: list[InFlight]) -> None:
        """Where very many claims have pods that must stay together, those are kept: each would be a kind of its own."""
        for position, claims in sorted(free.items()):
            cored = [claim for claim in claims if self._packable.core(claim)]
            if len(cored) > CORES_MAX:
                kept += cored
                free[position] = [claim for claim in claims if not self._packable.core(claim)]

    def _bundles(self, claim: InFlight) -> Iterator[tuple[Kind, list[Pod]]]:
        """What of a claim can be moved by itself: each free pod, and the others together."""
        core = self._packable.core(claim)
        if core:
            yield self._packable.as_core(claim, core), core
        for pod in claim.pods:
            kind = self._packable.within(claim.template, pod)
            if kind is not None:
                yield kind, [pod]

    def _repacked(self, template: Template, claims: Sequence[InFlight]) -> list[InFlight]:
        """Cheaper claims for the pods of these, or nothing."""
        pods: dict[Kind, list[list[Pod]]] = {}
        loads = []
        for claim in claims:
            bundles = list(self._bundles(claim))
            loads.append(Counter(kind for kind, _ in bundles))
            for kind, bundle in bundles:
                pods.setdefault(kind, []).append(bundle)
        counts = {kind: len(waiting) for kind, waiting in pods.items()}
        problem = problem_of(self._ground.templates, counts)
        if not problem.prices.all():
            return []
        incumbent = _packing_of(problem, np.array([[load[kind] for kind in pods] for load in loads]))
        if incumbent is None:
            return []
        found = improve(problem, incumbent, seed=self._ground.snapshot.options.seed, budget=self._budget)
        self._bounds[tuple(counts.items())] = found.lower_bound
        return self._realised(template, found.packing, pods)

    def _realised(self, template: Template, packing: Packing, pods: Mapping[Kind, list[list[Pod]]]) -> list[InFlight]:
        """A claim for each machine, or nothing where one would not do."""
        waiting = {kind: iter(who) for kind, who in pods.items()}
        claims = []
        for load in packing.loads:
            there = [(kind, int(n)) for kind, n in zip(pods, load, strict=True) if n]
            claim = self._claim(template, there)
            if claim is None:
                return []
            claim.pods = [pod for kind, n in there for _ in range(n) for pod in next(waiting[kind])]
            claim.shapes = [self._ground.classes.of(pod).shape for pod in claim.pods]
            claims.append(claim)
        return sorted(claims, key=lambda claim: (-claim.price, claim.pods[0].key))

    def _claim(self, template: Template, load: Sequence[tuple[Kind, int]]) -> InFlight | None:
        table, types = self._ground.table, template.types
        held = next((kind.ways[0][1] for kind, _ in load if kind.seats), template.offered)
        reqs, used = held, self._ground.axis.zero
        for kind, n in load:
            reqs = table.narrowed(reqs, kind.ways[0][1]) if reqs != IMPOSSIBLE else reqs
            used = plus(used, tuple(n * amount for amount in kind.requests))
        has_core = any(kind.seats for kind, _ in load)
        if reqs == IMPOSSIBLE or (has_core and table[reqs] != table[held]):
            return None
        left = types.survivors(types.mask(reqs) & template.mask, used)
        priced = types.in_price_order(left, reqs)
        if not priced:
            return None
        limit = priced[0][0] * PRICE_BAND[0] // PRICE_BAND[1]
        kept = bits(position for rank, (price, position) in enumerate(priced) if price <= limit or rank < TYPES_MIN)
        return InFlight(0, template, reqs, kept, used, charged=kept)


def _packing_of(problem: Problem, loads: Ints) -> Packing | None:
    """The greedy loads as a packing."""
    types = np.array([problem.cheapest(load) for load in loads])
    return Packing(types, loads) if (types >= 0).all() else None


def _is_cheaper(found: Sequence[InFlight], instead_of: Sequence[InFlight]) -> bool:
    return bool(found) and sum(claim.price for claim in found) < sum(claim.price for claim in instead_of)


def _booked(found: Sequence[InFlight], instead_of: Sequence[InFlight], room: Room) -> bool:
    """Book the claims in place of others in what the limits leave, or change nothing and say so."""
    types = instead_of[0].template.types
    for claim in instead_of:
        room.refund(types, claim.charged)
    booked: list[InFlight] = []
    for claim in found:
        claim.allowed = claim.charged = _within(room, claim) if room.left else claim.allowed
        if not claim.allowed:
            break
        room.charge(types, claim.charged)
        booked.append(claim)
    if len(booked) == len(found) and _is_cheaper(found, instead_of):
        return True
    for claim in booked:
        room.refund(types, claim.charged)
    for claim in instead_of:
        room.charge(types, claim.charged)
    return False


def _within(room: Room, claim: InFlight) -> int:
    """A claim's types that the limits allow once more; none larger than its cheapest, for it is charged the largest."""
    types = claim.template.types
    kept = room.mask(types, claim.allowed)
    priced = types.in_price_order(kept, claim.reqs)
    for name in room.left if priced else ():
        if name != quantity.NODES:
            kept &= types.capacities(name).at_most(types.types[priced[0][1]].capacity.get(name, 0))
    return kept
