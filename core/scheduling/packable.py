"""Which pods the packing may move between new nodes, and what any pod at least needs of one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.model.pod import Pod
from core.scheduling.ground import Ground
from core.scheduling.in_flight import InFlight
from core.scheduling.pod_class import PodClass
from core.scheduling.preferences import required_alternatives
from core.scheduling.requirement_table import IMPOSSIBLE
from core.scheduling.resource_axis import Vector, plus
from core.scheduling.template import Template
from core.scheduling.volumes import NO_VOLUMES

Ways = tuple[tuple[int, int], ...]
"""(template's position, number of the requirements that a claim of it is held to): where a pod may run."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods that are alike for packing.

    Attributes:
        seats: One for pods of a claim that must stay together: a node has room for one such set.
    """

    requests: Vector
    ways: Ways
    seats: int = 0


class Packable:
    """Pods of one snapshot as kinds."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._anywhere: dict[int, Kind] = {}
        self._within: dict[tuple[int, int], Kind | None] = {}

    def anywhere(self, pod: Pod) -> Kind:
        """A pod as a lower bound may see it: only what it requires of a node itself, in every NodePool that it tolerates."""
        pod_class = self._ground.classes.of(pod)
        known = self._anywhere.get(pod_class.index)
        if known is None:
            ways = tuple(dict.fromkeys(self._required_ways(pod_class)))
            known = self._anywhere[pod_class.index] = Kind(pod_class.requests, ways)
        return known

    def within(self, template: Template, pod: Pod) -> Kind | None:
        """A pod as it may be moved between the template's new nodes; None where more than room decides where it can be."""
        pod_class = self._ground.classes.of(pod)
        question = (pod_class.index, template.index)
        if question not in self._within:
            self._within[question] = self._free_kind(pod_class, template) if _is_free(pod_class) else None
        return self._within[question]

    def may_repack(self, claim: InFlight) -> bool:
        """Whether nothing but requirements, room and price decides about a claim."""
        template = claim.template
        return not (template.min_values or template.types.reservations() or claim.ports or claim.attached)

    def core(self, claim: InFlight) -> list[Pod]:
        """The claim's pods for which more than room decides: they stay together, on a node required as theirs is."""
        return [pod for pod in claim.pods if self.within(claim.template, pod) is None]

    def as_core(self, claim: InFlight, pods: Iterable[Pod]) -> Kind:
        """Such pods as one, held to all that their claim is held to."""
        requests = self._ground.axis.zero
        for pod in pods:
            requests = plus(requests, self._ground.classes.of(pod).requests)
        return Kind(requests, ((claim.template.index, claim.reqs),), seats=1)

    def _required_ways(self, pod_class: PodClass) -> Iterable[tuple[int, int]]:
        table = self._ground.table
        tolerated = [self._ground.open_templates(stage) for stage in pod_class.stages]
        for parts in required_alternatives(pod_class.shape.spec):
            ask = table.conjunction(parts)
            for template in self._ground.templates if ask != IMPOSSIBLE else ():
                reqs = table.narrowed(template.offered, ask)
                if reqs != IMPOSSIBLE and any(by_stage[template.index] for by_stage in tolerated):
                    yield template.index, reqs

    def _free_kind(self, pod_class: PodClass, template: Template) -> Kind | None:
        """None too where the pod asks for a label of the NodePool's own: nodes would differ in more than their type."""
        table = self._ground.table
        reqs = table.narrowed(template.offered, pod_class.stages[0].asks[0])
        if reqs == IMPOSSIBLE:
            return None
        offered, narrowed = table[template.offered], table[reqs]
        own = (key for key, _ in narrowed.items() if key not in table.well_known)
        if any(narrowed.get(key) != offered.get(key) for key in own):
            return None
        return Kind(pod_class.requests, ((template.index, reqs),))


def _is_free(pod_class: PodClass) -> bool:
    """No topology, ports, volumes or preferences: the pod neither minds its neighbours nor is minded by any."""
    shape, stages = pod_class.shape, pod_class.stages
    if (
        shape.selected_by
        or shape.pinned_keys
        or shape.repelled_by
        or pod_class.ports
        or pod_class.volumes != NO_VOLUMES
    ):
        return False
    if any(stage.host_rules or stage.zone_rules or stage.keys for stage in stages):
        return False
    return len({stage.asks for stage in stages}) == 1 and len(stages[0].asks) == 1
