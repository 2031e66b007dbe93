"""Applies the rules one by one and counts the instance types of a NodePool that each excludes for a pod."""

from __future__ import annotations

from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.constraints.plan_constraints import PlanConstraints
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation.findings import PoolFinding
from core.scheduling.explanation.wording import amount_of, closed_reservation, not_offered, unlike
from core.scheduling.instance_types.type_index import OFFERING_KEYS
from core.scheduling.instance_types.type_offerings import meets
from core.scheduling.pods.pod_group import PodGroup
from core.scheduling.primitives.bit_set import positions
from core.scheduling.primitives.handles import RequirementId, TypeMask


class TypeElimination:
    """Eliminates the types of one NodePool, rule by rule, with counts.

    Attributes:
        left: Types that no rule has excluded.
    """

    def __init__(
        self,
        context: SchedulingContext,
        constraints: PlanConstraints,
        template: NodeClaimTemplate,
        pod_group: PodGroup,
        reqs: RequirementId,
    ) -> None:
        self.template = template
        self.pod_group = pod_group
        self.reqs = reqs
        self.left = template.types.full
        self.ruled_out: dict[str, int] = {}
        self.reason = ""
        self.nearest = ""
        self._context = context
        self._keep(template.mask, "its own requirements", PodReason.REQUIREMENT_NOT_MET)
        self._by_labels()
        self._by_offerings()
        blank = InFlightClaim(-1, template, reqs, template.mask, context.axis.zero)
        for constraint in constraints.concerning(pod_group):
            before = self.left
            self._keep(constraint.types(blank, pod_group), constraint.label, constraint.reason)
            if before and not self.left:
                self.nearest = constraint.nearest_miss(template, before, pod_group)
        self._by_room()

    def finding(self, reason: str | None = None, message: str = "") -> PoolFinding:
        """Return the result of the elimination, or the given finding if any type remains."""
        counted = [f"{count} by {name}" for name, count in self.ruled_out.items()]
        if counted and not self.left:
            counted[0] = counted[0].replace(" by ", " ruled out by ", 1)
            message = f"{message}; " * bool(message) + f"{_counted(self.template.types.full)}: {', '.join(counted)}"
        parts = [message, f"nearest: {self.nearest}" if self.nearest else ""]
        return PoolFinding(
            node_pool=self.template.pool.name,
            reason=reason if self.left else self.reason,
            message="; ".join(part for part in parts if part),
            ruled_out=self.ruled_out,
            nearest=self.nearest,
        )

    def _keep(self, mask: TypeMask, name: str, reason: str) -> None:
        gone = (self.left & ~mask).bit_count()
        if gone:
            self.ruled_out[name] = self.ruled_out.get(name, 0) + gone
            self.left &= mask
            if not self.left:
                self.reason = reason

    def _by_labels(self) -> None:
        for key, requirement in self._context.table[self.reqs].items():
            if key not in OFFERING_KEYS and self.left:
                before = self.left
                self._keep(self.template.types.labels.mask(requirement), key, PodReason.REQUIREMENT_NOT_MET)
                self.nearest = "" if self.left else unlike(self.template, before, requirement)
        for key in sorted(self._context.table.needed(self.reqs)):
            self._keep(self.template.types.labels.mask(Requirement(key)), key, PodReason.REQUIREMENT_NOT_MET)

    def _by_offerings(self) -> None:
        types, requirements = self.template.types, self._context.table[self.reqs]
        sold_out = TypeMask(0)
        for position in positions(self.left & ~types.offerings.mask(requirements)):
            if any(meets(o, requirements) for o in types.types[position].offerings if not o.available):
                sold_out |= 1 << position
        before = self.left
        self._keep(
            ~(self.left & ~types.offerings.mask(requirements) & ~sold_out),
            "zone and capacity type",
            PodReason.REQUIREMENT_NOT_MET,
        )
        if before and not self.left:
            self.nearest = not_offered(self.template, before, requirements)
        left = self.left
        self._keep(~sold_out, "unavailable offerings", PodReason.NO_OFFERING_AVAILABLE)
        if left and not self.left:
            self.nearest = closed_reservation(self._context.snapshot, self.template, left, requirements)

    def _by_room(self) -> None:
        types, axis = self.template.types, self._context.axis
        total = self.pod_group.requests
        shortest: tuple[int, int] | None = None
        before, fitting = self.left, types.room.fitting(self.left, total)
        for position in positions(self.left & ~fitting):
            lacks = [
                (name, want - have)
                for name, want, have in zip(axis.names, total, types.room.vectors[position], strict=True)
                if want > have
            ]
            name, amount = lacks[0]
            self._keep(~TypeMask(1 << position), name, PodReason.NO_OFFERING_FITS)
            # Fewer missing resources is nearer; among equals, the smaller sum of the missing shares, in thousandths.
            share = sum(short * 1000 // max(1, total[axis.names.index(n)]) for n, short in lacks)
            if shortest is None or (len(lacks), share) < shortest:
                shortest = (len(lacks), share)
                nearest = f"{types.types[position].name} lacks {amount_of(amount, name)} {name}"
        if shortest is None or self.left:
            return
        rooms = [types.room.vectors[position] for position in positions(before)]
        absent = [name for i, name in enumerate(axis.names) if total[i] > 0 and all(room[i] <= 0 for room in rooms)]
        self.nearest = f"none of its types has {', '.join(absent)}" if absent else nearest


def _counted(mask: TypeMask) -> str:
    count = mask.bit_count()
    return f"{count} type{'' if count == 1 else 's'}"
