"""A new claim for a pod: from the first NodePool whose taints, limits, types and topology let it."""

from __future__ import annotations

from typing import NamedTuple

from core.model.snapshot import BEST_EFFORT
from core.scheduling.capacity.claim_profile import Look
from core.scheduling.capacity.in_flight_claim import InFlight
from core.scheduling.greedy.plan_state import Books
from core.scheduling.pods.pod_group import PodClass, Stage
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.topology.domain_choice import Draft


class Fit(NamedTuple):
    """A claim, and what it becomes with one pod more."""

    claim: InFlight
    look: Look
    total: Vector
    reservations: tuple[str, ...] = ()


class NewClaims:
    """Opens the claims of one plan; they are no part of it until they are put there.

    Attributes:
        limited: Templates whose limits have kept pods out.
    """

    def __init__(self, books: Books) -> None:
        self._ground = books.ground
        self._tally = books.accounts.tally
        self._pinning = books.pinning
        self._rooms = books.accounts.rooms
        self._reservations = books.accounts.reservations
        self._looks = books.looks
        self._barren: set[tuple[int, int, int]] = set()
        self._alike: dict[tuple[int, int, int, int], Look] = {}
        self.limited: set[int] = set()

    def open(self, index: int, pod_class: PodClass, stage: Stage) -> Fit | None:
        """A claim with this number that takes one pod of the class, from the first NodePool that can."""
        for template, tolerated in zip(self._ground.templates, self._ground.open_templates(stage), strict=True):
            question = (pod_class.index, stage.number, template.index)
            if not tolerated or question in self._barren:
                continue
            for size in template.sizes:
                fit = self._opened(
                    InFlight(index, template, template.offered, size, self._ground.axis.zero), pod_class, stage
                )
                if fit is not None:
                    return fit
            if stage.is_monotone:
                self._barren.add(question)
        return None

    def _opened(self, claim: InFlight, pod_class: PodClass, stage: Stage) -> Fit | None:
        """A claim that may become any type of one size."""
        template, size = claim.template, claim.allowed
        room = self._rooms[template.index]
        claim.allowed = room.mask(template.types, size) if room.left else size
        claim.min_values = template.min_values
        question = (pod_class.index, stage.number, template.index, claim.allowed)
        is_barred = any(self._tally.bars_new(rule) for rule in stage.host_rules)
        look = self._alike.get(question)
        if look is not None and not is_barred:
            return Fit(claim, look, pod_class.requests)
        fit = None if is_barred else self._first_fit(claim, pod_class, stage)
        if fit is None and claim.allowed != size:
            self.limited.add(template.index)
        if fit is not None and not (stage.keys or claim.min_values or self._reservations.left):
            self._alike[question] = fit.look
        return fit

    def _first_fit(self, claim: InFlight, pod_class: PodClass, stage: Stage) -> Fit | None:
        """What a claim without pods becomes with its first one."""
        allowed = claim.allowed_with(pod_class)
        for ask in stage.asks:
            reqs = self._ground.table.narrowed(claim.reqs, ask)
            draft = Draft(claim.template, reqs, allowed, pod_class.requests, claim.min_values)
            fit = self._settled(claim, draft, pod_class, stage) if draft.is_possible else None
            if fit is not None:
                return fit
        return None

    def _settled(self, claim: InFlight, draft: Draft, pod_class: PodClass, stage: Stage) -> Fit | None:
        """What a claim becomes; where minValues cannot be met within reservations, without them."""
        if not self._reservations.left:
            return self._held(claim, draft, pod_class, stage)
        fit = self._held(claim, self._reservations.without_spent(draft), pod_class, stage)
        if fit is None and claim.min_values:
            fit = self._held(claim, self._reservations.without_any(draft), pod_class, stage)
        return fit

    def _held(self, claim: InFlight, draft: Draft, pod_class: PodClass, stage: Stage) -> Fit | None:
        """The same, held to one value of each topology key and to reservations."""
        if not draft.is_possible:
            return None
        if stage.keys:
            pinned = self._pinning.pin(draft, pod_class.shape, stage)
            if pinned is None and self._may_relax(claim):
                pinned = self._pinning.pin(draft.undemanding(), pod_class.shape, stage)
            if pinned is None:
                return None
            draft = draft.narrowed(pinned)
        reservations: tuple[str, ...] = ()
        if self._reservations.left:
            chosen = self._reservations.choose(draft)
            if chosen is None:
                return None
            draft, reservations = draft.narrowed(chosen[0]), chosen[1]
        if claim.min_values and not self._keeps_min_values(claim, draft):
            return None
        look = self._looks.of(claim.template, draft.reqs, draft.allowed)
        return Fit(claim, look, draft.total, reservations)

    def _keeps_min_values(self, claim: InFlight, draft: Draft) -> bool:
        missing = draft.missing_values()
        if not missing:
            return True
        if not self._may_relax(claim):
            return False
        claim.min_values = {**claim.min_values, **missing}
        claim.min_values_relaxed = True
        return True

    def _may_relax(self, claim: InFlight) -> bool:
        """Whether minValues may be lowered: by the first pod, and with BestEffort only."""
        return bool(claim.min_values) and self._ground.snapshot.options.min_values_policy == BEST_EFFORT

    def forget(self) -> None:
        """Look at every NodePool anew: limits have room again."""
        self._barren.clear()
