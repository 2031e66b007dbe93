"""One packing problem: claims of one market whose parties may be moved between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from core import labels
from core.errors import invariant
from core.packing.problem import Ints, Packing, Problem, joined
from core.packing.relaxation.launch_flexibility import Wanted, leaving_values
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.claims.item_assignment import Machine, Seating
from core.scheduling.optimization.items.item_extraction import Bundle, Market
from core.scheduling.optimization.items.item_groups import Kind, Kinds, Way
from core.scheduling.optimization.items.packing_item import Party
from core.scheduling.optimization.subproblems.packing_columns import problem_and_types


class Part:
    """Pods of one market to be packed together.

    Attributes:
        counts: How many parties there are of each kind.
    """

    def __init__(
        self, context: SchedulingContext, market: Market, nodes: Sequence[Sequence[Bundle]], zone: str = ""
    ) -> None:
        """Take what is on each node now; with a zone, all of it is to be packed there."""
        self._context = context
        self._market = market
        self._bundles = [bundle for bundles in nodes for bundle in bundles]
        counts = Counter(party for party, _ in self._bundles)
        kinds = Kinds(counts)
        self._rows = kinds.rows
        kind_of = {party: kinds.of(party, self._way(party, zone)) for party in counts}
        self._of: dict[Kind, dict[Party, int]] = {}
        for party, count in counts.items():
            self._of.setdefault(kind_of[party], {})[party] = count
        self.counts = {kind: sum(parties.values()) for kind, parties in self._of.items()}
        self._loads = [Counter(kind_of[party] for party, _ in bundles) for bundles in nodes]

    def _way(self, party: Party, zone: str) -> Way:
        reqs = self._context.table.with_value(party.reqs, labels.ZONE, zone) if zone else party.reqs
        return self._market.template.index, reqs, party.allowed

    def problem(self) -> Problem:
        """The part as a packing problem: a class for each kind, the NodePool's types in each market as types.

        With minValues a type has only the room that others with enough values have, too.
        """
        problem, types = problem_and_types(self._context.templates, self.counts, self._rows)
        return leaving_values(problem, self._wanted_values(types)) if self._market.template.min_values else problem

    def _wanted_values(self, columns: Ints) -> list[Wanted]:
        """For each of minValues' keys the values of every column's type."""
        template = self._market.template
        found: list[Wanted] = []
        for key, least in sorted(template.min_values.items()):
            of_type = {
                kind: template.types.values(1 << kind, self._market.offered, key) for kind in set(columns.tolist())
            }
            found.append(([of_type[kind] for kind in columns.tolist()], least))
        return found

    def incumbent(self, problem: Problem) -> Packing:
        """The nodes as a packing, or any other where the problem is stricter than the greedy planner was."""
        loads = np.array([[load[kind] for kind in self._of] for load in self._loads], dtype=np.int64)
        types = np.array([problem.cheapest(load) for load in loads], dtype=np.int64)
        if (types >= 0).all() and (loads <= problem.fit[:, types].T).all():
            return Packing(types, loads)
        return _apart(problem)

    def claims_of(self, problem: Problem, packing: Packing) -> list[InFlightClaim]:
        """New claims for a packing; none where some pods turn out to have no node that they may have alone."""
        waiting: dict[Party, list[Bundle]] = {}
        for bundle in reversed(self._bundles):
            waiting.setdefault(bundle[0], []).append(bundle)
        builder = ClaimBuilder(self._context, self._market)
        machines = Seating(problem, list(self._of.values())).of(packing)
        built = [claim for machine in machines for claim in _built(builder, machine, waiting)]
        invariant(not any(waiting.values()), "every pod of the part has a new place")
        claims = [claim for claim in built if claim is not None]
        if len(claims) < len(built):
            return []
        return sorted(claims, key=lambda claim: (-claim.price, claim.pods[0].key))


def _apart(problem: Problem) -> Packing:
    """Each kind on machines of its own: dear, and always possible."""
    parts = []
    for number, count in enumerate(problem.counts.tolist()):
        held = np.minimum(problem.fit[number], count)
        price = np.where(held > 0, problem.prices / np.maximum(held, 1), np.inf)
        kind = int(price.argmin())
        machines = -(-count // int(held[kind]))
        loads = np.zeros((machines, len(problem.counts)), dtype=np.int64)
        loads[:, number] = held[kind]
        loads[-1, number] = count - (machines - 1) * held[kind]
        parts.append(Packing(np.full(machines, kind), loads))
    return joined(parts, len(problem.counts))


def _built(builder: ClaimBuilder, machine: Machine, waiting: dict[Party, list[Bundle]]) -> list[InFlightClaim | None]:
    """The machine's claim; more than one where its parties turn out to demand what no single node has."""
    bundles = [waiting[party].pop() for _, party in machine.parties]
    whole = builder.claim(bundles)
    if whole is not None:
        return [whole]
    groups: list[list[Bundle]] = []
    for bundle in bundles:
        home = next((group for group in groups if builder.claim([*group, bundle]) is not None), None)
        if home is None:
            groups.append([bundle])
        else:
            home.append(bundle)
    return [builder.claim(group) for group in groups]
