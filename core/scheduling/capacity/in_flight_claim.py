"""A NodeClaim that is being filled: its requirements narrow, its types dwindle, it never widens again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.model.pod import HostPort, Pod
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.pods.pod_group import PodGroup, PodSignature
from core.scheduling.pods.volumes import EBS_DRIVER
from core.scheduling.primitives.resource_vector import Vector


@dataclass(eq=False, slots=True)
class InFlightClaim:
    """One claim of the plan.

    Attributes:
        index: Its position in the order of opening.
        reqs: Number of its requirements so far.
        classes: The classes of its pods, in the same order.
        allowed: Types that limits, ports and attachments leave it; requirements and room are asked anew each time.
        used: What its pods request.
        charged: Types for which the pool's limits, if there are any, were charged.
        reservations: The capacity reservations that it holds a place in.
        min_values: What is left of the pool's minValues where BestEffort lowered them.
    """

    index: int
    template: NodeClaimTemplate
    reqs: int
    allowed: int
    used: Vector
    pods: list[Pod] = field(default_factory=list)
    pod_groups: list[PodGroup] = field(default_factory=list)
    ports: tuple[HostPort, ...] = ()
    attached: frozenset[tuple[str, str]] = frozenset()
    charged: int = 0
    reservations: tuple[str, ...] = ()
    min_values: Mapping[str, int] = field(default_factory=dict)
    min_values_relaxed: bool = False

    @property
    def signatures(self) -> list[PodSignature]:
        """The shapes of its pods, in the same order."""
        return [pod_group.signature for pod_group in self.pod_groups]

    @property
    def price(self) -> int:
        """Nano-dollars per hour of the cheapest offering that it may be launched with."""
        types = self.template.types
        left = types.survivors(types.mask(self.reqs) & self.allowed, self.used)
        return types.cheapest(left, self.reqs) or 0

    def add_pod(self, pod: Pod, pod_group: PodGroup) -> None:
        """Take in a pod; `used` and what follows from it are the caller's."""
        self.pods.append(pod)
        self.pod_groups.append(pod_group)
        if not pod_group.is_plain:
            self.ports += pod_group.ports
            self.attached |= frozenset(pod_group.volumes.attachments)

    def allowed_with(self, pod_group: PodGroup) -> int:
        """Its types that have a pod's host ports free and can attach the pod's volumes too."""
        allowed = self.allowed
        if pod_group.ports:
            allowed &= self.template.types.port_mask(pod_group.ports)
        if pod_group.volumes.attachments:
            union = {*self.attached, *pod_group.volumes.attachments}
            allowed &= self.template.types.attach_mask(sum(1 for driver, _ in union if driver == EBS_DRIVER))
        return allowed
