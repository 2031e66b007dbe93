"""Claims of the plan: the emptiest that takes a pod, or a new one from the first NodePool that can."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from core import labels
from core.model.pod import Pod
from core.model.requirements import Requirement
from core.model.snapshot import BEST_EFFORT
from core.scheduling.ground import Ground
from core.scheduling.in_flight import InFlight
from core.scheduling.limits import Room
from core.scheduling.pinning import Draft, Pinning
from core.scheduling.pod_class import Batch, PodClass, Stage
from core.scheduling.ports import conflict
from core.scheduling.reservations import Reservations
from core.scheduling.resource_axis import Vector, plus
from core.scheduling.tally import Tally
from core.scheduling.template import any_value
from core.scheduling.topology_group import AFFINITY
from core.scheduling.type_filter import positions

NEVER: Final = "never"
"""The claim cannot take such a pod now and, as it only fills up, never will."""


@dataclass(eq=False, slots=True, frozen=True)
class Fit:
    """What a claim becomes with one pod more."""

    reqs: int
    allowed: int
    total: Vector
    reservation: str = ""


class ClaimSearch:
    """The claims of one plan."""

    def __init__(
        self, ground: Ground, tally: Tally, pinning: Pinning, rooms: Sequence[Room], reservations: Reservations
    ) -> None:
        self._ground = ground
        self._tally = tally
        self._pinning = pinning
        self._rooms = rooms
        self._reservations = reservations
        self.claims: list[InFlight] = []
        self._order: list[tuple[int, int]] = []
        self._dead: dict[tuple[int, int], set[int]] = {}
        self._barren: set[tuple[int, int, int]] = set()
        self.limited: set[int] = set()

    def find(self, batch: Batch, stage: Stage, smallest: Vector) -> tuple[InFlight, Fit] | None:
        """The claim with the fewest pods that takes one more of the batch; the older one where they have as many.

        Args:
            batch: Who waits.
            stage: What they ask for.
            smallest: The least that any waiting pod requests; a claim without room for that is not looked at again.
        """
        dead = self._dead.setdefault((batch.pod_class.index, stage.number), set())
        full: list[tuple[int, int]] = []
        found = None
        for entry in self._order:
            if entry[1] in dead:
                continue
            claim = self.claims[entry[1]]
            fit = self._fit(claim, batch.pod_class, stage)
            if isinstance(fit, Fit):
                found = (claim, fit)
                break
            if fit == NEVER:
                dead.add(entry[1])
                if self._is_full(claim, smallest):
                    full.append(entry)
        for entry in full:
            del self._order[bisect_left(self._order, entry)]
        return found

    def open(self, batch: Batch, stage: Stage) -> tuple[InFlight, Fit] | None:
        """A new claim that takes one pod of the batch, from the first NodePool that can; it is not part of the plan yet."""
        for template, tolerated in zip(self._ground.templates, self._ground.open_templates(stage), strict=True):
            question = (batch.pod_class.index, stage.number, template.index)
            if not tolerated or question in self._barren:
                continue
            room = self._rooms[template.index]
            allowed = room.mask(template.types, template.mask) if room.left else template.mask
            claim = InFlight(len(self.claims), template, template.offered, allowed, self._ground.axis.zero)
            claim.min_values = dict(template.min_values)
            fit = self._fit(claim, batch.pod_class, stage)
            if isinstance(fit, Fit):
                return claim, fit
            if allowed != template.mask:
                self.limited.add(template.index)
            if fit == NEVER:
                self._barren.add(question)
        return None

    def put(self, claim: InFlight, fit: Fit, pod: Pod, pod_class: PodClass) -> None:
        """Make the claim what `fit` says and count the pod."""
        if claim.index == len(self.claims):
            self._admit(claim, fit)
        else:
            del self._order[bisect_left(self._order, (len(claim.pods), claim.index))]
        if claim.reqs != fit.reqs:
            self._recount(claim, fit.reqs)
        claim.reqs, claim.allowed, claim.used = fit.reqs, fit.allowed, fit.total
        claim.pods.append(pod)
        claim.shapes.append(pod_class.shape)
        claim.ports.extend(pod_class.ports)
        claim.attached.update(pod_class.volumes.attachments)
        insort(self._order, (len(claim.pods), claim.index))
        self._tally.record_on_claim(pod_class.shape, claim.reqs, claim.template, claim.host)

    def _recount(self, claim: InFlight, reqs: int) -> None:
        """Narrower requirements say more about where the claim's pods are: count them anew."""
        for shape in claim.shapes:
            self._tally.record_on_claim(shape, claim.reqs, claim.template, claim.host, -1)
            self._tally.record_on_claim(shape, reqs, claim.template, claim.host)

    def settle(self) -> bool:
        """Hold every claim to the types and labels that it would come out with now, and say whether that changed any.

        Until then its pods count for a spread's worse case: the claim might become a node that the spread does not look at.
        """
        changed = False
        for claim in self.claims:
            reqs = self._settled_requirements(claim)
            if reqs != claim.reqs:
                self._recount(claim, reqs)
                claim.reqs, changed = reqs, True
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

    def forget(self) -> None:
        """Look at every NodePool anew: limits have room again."""
        self._barren.clear()

    def _admit(self, claim: InFlight, fit: Fit) -> None:
        self.claims.append(claim)
        claim.reservation = fit.reservation
        self._reservations.take(fit.reservation)
        types = claim.template.types
        claim.charged = types.survivors(types.mask(fit.reqs) & fit.allowed, fit.total)
        self._rooms[claim.template.index].charge(types, claim.charged)

    def _is_full(self, claim: InFlight, smallest: Vector) -> bool:
        types = claim.template.types
        return not types.fits(types.mask(claim.reqs) & claim.allowed, plus(claim.used, smallest))

    def _fit(self, claim: InFlight, pod_class: PodClass, stage: Stage) -> Fit | Literal["never"] | None:
        template = claim.template
        if not self._ground.open_templates(stage)[template.index]:
            return NEVER
        if pod_class.ports and conflict(pod_class.ports, claim.ports):
            return NEVER
        for rule in stage.host_rules:
            if not self._tally.admits(rule, claim.host, pod_class.shape):
                return NEVER if rule.kind != AFFINITY else None
        total = plus(claim.used, pod_class.requests)
        allowed = self._allowed(claim, pod_class)
        verdict: Literal["never"] | None = NEVER
        for ask in stage.asks:
            draft = Draft(template, self._ground.table.narrowed(claim.reqs, ask), allowed, total, claim.min_values)
            if not draft.is_possible:
                continue
            fit = self._settled(claim, draft, pod_class, stage)
            if fit is not None:
                return fit
            verdict = NEVER if stage.is_monotone else None
        return verdict

    def _allowed(self, claim: InFlight, pod_class: PodClass) -> int:
        allowed = claim.allowed
        if pod_class.ports:
            allowed &= claim.template.types.port_mask(pod_class.ports)
        if pod_class.volumes.attachments:
            allowed &= claim.attach_mask(pod_class.volumes.attachments)
        return allowed

    def _settled(self, claim: InFlight, draft: Draft, pod_class: PodClass, stage: Stage) -> Fit | None:
        if stage.keys:
            pinned = self._pinning.pin(draft, pod_class.shape, stage)
            if pinned is None and self._may_relax(claim):
                pinned = self._pinning.pin(draft.undemanding(), pod_class.shape, stage)
            if pinned is None:
                return None
            draft = draft.narrowed(pinned)
        reservation = claim.reservation
        if not claim.pods and self._reservations.left:
            chosen = self._reservations.choose(draft)
            if chosen is None:
                return None
            draft, reservation = draft.narrowed(chosen[0]), chosen[1]
        if claim.min_values and not self._keeps_min_values(claim, draft):
            return None
        return Fit(draft.reqs, draft.allowed, draft.total, reservation)

    def _keeps_min_values(self, claim: InFlight, draft: Draft) -> bool:
        missing = draft.missing_values()
        if not missing:
            return True
        if not self._may_relax(claim):
            return False
        claim.min_values |= missing
        claim.min_values_relaxed = True
        return True

    def _may_relax(self, claim: InFlight) -> bool:
        """Whether minValues may be lowered: by the first pod, and with BestEffort only."""
        return (
            bool(claim.min_values) and not claim.pods and self._ground.snapshot.options.min_values_policy == BEST_EFFORT
        )
