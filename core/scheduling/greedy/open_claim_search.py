"""Claims of the plan: the emptiest that takes a pod, or a new one from the first NodePool that can."""

from __future__ import annotations

from collections.abc import Sequence

from core import labels
from core.model.pod import Pod
from core.model.values.requirements import Requirement
from core.scheduling.capacity.claim_index import ClaimIndex
from core.scheduling.capacity.claim_profile import Look
from core.scheduling.capacity.in_flight_claim import InFlight
from core.scheduling.capacity.nodeclaim_template import any_value
from core.scheduling.greedy.claim_narrowing import Narrowing
from core.scheduling.greedy.new_claims import Fit
from core.scheduling.greedy.plan_state import Books
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.instance_types.type_filter import positions
from core.scheduling.pods.pod_group import PodClass, Stage
from core.scheduling.primitives.host_ports import conflict
from core.scheduling.primitives.resource_vector import Vector, plus


class ClaimSearch:
    """The claims of one plan."""

    def __init__(self, books: Books) -> None:
        self._ground = books.ground
        self._tally = books.accounts.tally
        self._rooms = books.accounts.rooms
        self._reservations = books.accounts.reservations
        self._looks = books.looks
        self._index = ClaimIndex()
        self._narrowing = Narrowing(books)
        self._without_room: dict[Vector, int] = {}
        self._unfit: dict[tuple[int, int], int] = {}
        self.claims: list[InFlight] = []

    def find(self, pod_class: PodClass, stage: Stage, smallest: Vector) -> Fit | None:
        """The claim with the fewest pods that takes one more of the class; the older one where they have as many.

        Args:
            pod_class: Who waits.
            stage: What they ask for.
            smallest: The least that any waiting pod requests; a claim without room for that is not looked at again.
        """
        left = self._candidates(pod_class, stage)
        for among in self._index.by_count if left else ():
            here = among & left
            while here:
                bit = here & -here
                claim = self.claims[bit.bit_length() - 1]
                look = self._index.looks[claim.index] if pod_class.is_plain else self._burdened(claim, pod_class)
                ways = self._narrowing.of(look, pod_class.shape, stage) if look is not None else ()
                if look is not None and not ways:
                    left &= ~(look.claims | bit)
                    here &= left
                    continue
                fit = self._fit(claim, ways, plus(claim.used, pod_class.requests))
                if fit is not None:
                    return fit
                self._pass_over(claim, pod_class, stage, smallest)
                here ^= bit
        return None

    def _candidates(self, pod_class: PodClass, stage: Stage) -> int:
        """Claims that are worth a look, as a bit set."""
        ruled_out = self._without_room.get(pod_class.requests, 0) | self._unfit.get((pod_class.index, stage.number), 0)
        for rule in stage.host_rules:
            ruled_out |= self._tally.barred(rule)
        return self._index.open & ~ruled_out

    def _burdened(self, claim: InFlight, pod_class: PodClass) -> Look | None:
        """The claim's look once the pod's ports and volumes are there; None where the ports are taken."""
        if conflict(pod_class.ports, claim.ports):
            return None
        look = self._index.looks[claim.index]
        return self._looks.of(look.template, look.reqs, claim.allowed_with(pod_class))

    def _fit(self, claim: InFlight, ways: Sequence[Look], total: Vector) -> Fit | None:
        for way in ways:
            if way.holds(total) and not (claim.min_values and self._lacks_values(claim, way, total)):
                return Fit(claim, way, total)
        return None

    def _lacks_values(self, claim: InFlight, look: Look, total: Vector) -> bool:
        types = look.template.types
        return bool(unmet(types, types.survivors(look.mask, total), claim.min_values))

    def _pass_over(self, claim: InFlight, pod_class: PodClass, stage: Stage, smallest: Vector) -> None:
        """Remember, where it is for good, that a claim takes no such pod: it only fills up."""
        look, bit = self._index.looks[claim.index], 1 << claim.index
        if not look.holds(plus(claim.used, pod_class.requests)):
            self._without_room[pod_class.requests] = self._without_room.get(pod_class.requests, 0) | bit
            if not look.holds(plus(claim.used, smallest)):
                self._index.close(claim.index)
        elif stage.is_monotone:
            question = (pod_class.index, stage.number)
            self._unfit[question] = self._unfit.get(question, 0) | bit

    def put(self, fit: Fit, pod: Pod, pod_class: PodClass) -> None:
        """Make the claim what `fit` says and count the pod."""
        claim, look = fit.claim, fit.look
        if claim.index == len(self.claims):
            self._admit(fit)
        if self._index.looks[claim.index] is not look:
            self._turn(claim, look)
        claim.used = fit.total
        self._index.fill(claim.index, len(claim.pods), len(claim.pods) + 1)
        claim.seat(pod, pod_class)
        self._tally.record_on_claim(pod_class.shape, look, claim.index)

    def hold(self, claim: InFlight, allowed: int) -> None:
        """Leave a claim no other types than these."""
        self._turn(claim, self._looks.of(claim.template, claim.reqs, allowed))

    def _admit(self, fit: Fit) -> None:
        claim, look = fit.claim, fit.look
        self.claims.append(claim)
        self._index.add(look)
        claim.reqs, claim.allowed, claim.reservations = look.reqs, look.allowed, fit.reservations
        self._reservations.take(fit.reservations)
        room, types = self._rooms[claim.template.index], claim.template.types
        if room.left:
            claim.charged = types.survivors(look.mask, fit.total)
            room.charge(types, claim.charged)

    def _turn(self, claim: InFlight, look: Look) -> None:
        """Narrower requirements say more about where the claim's pods are: count them anew."""
        before = self._index.looks[claim.index]
        for pod_class in claim.classes:
            self._tally.recount(pod_class.shape, before, look, claim.index)
        self._index.turn(claim.index, look)
        claim.reqs, claim.allowed = look.reqs, look.allowed

    def settle(self) -> bool:
        """Hold every claim to the types and labels that it would come out with now, and say whether that changed any.

        Until then its pods count for a spread's worse case: the claim might become a node that the spread does not look at.
        """
        changed = False
        for claim in self.claims:
            reqs = self._settled_requirements(claim)
            if reqs != claim.reqs:
                self._turn(claim, self._looks.of(claim.template, reqs, claim.allowed))
                changed = True
        return changed

    def _settled_requirements(self, claim: InFlight) -> int:
        table, types = self._ground.table, claim.template.types
        left = types.survivors(types.mask(claim.reqs) & claim.allowed, claim.used)
        names = Requirement.one_of(labels.INSTANCE_TYPE, *(types.types[i].name for i in positions(left)))
        reqs = table.narrowed(claim.reqs, table.conjunction((names,)))
        for key, requirement in table[claim.reqs].items():
            if key not in table.well_known:
                value = any_value(requirement)
                reqs = reqs if value is None else table.pinned(reqs, key, value)
        return reqs
