"""Groups of pods that are equal for scheduling: most pods of a workload differ only in their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import msgspec

from core.model.pod import Pod, PodSpec, TopologySpread
from core.scheduling.pods.preferences import PodDemands, required_alternatives
from core.scheduling.pods.volumes import VolumeNeeds
from core.scheduling.primitives.handles import PodGroupId, RequirementId, StepId, TopologyGroupId
from core.scheduling.primitives.resource_vector import Vector

ConstraintFacts = tuple[tuple[type, Hashable], ...]
"""Constraint → what it reads of a pod besides its spec, namespace and labels."""


class PodSignature(msgspec.Struct, eq=False):
    """Pods of one namespace with equal specs except for requests, and equal labels among those that any selector reads.

    Attributes:
        spreads: The spread constraints, those of the cluster's defaults included.
        facts: Constraint → what else it reads of a pod.
        selected_by: Numbers of the topology groups whose selector picks these pods.
        domain_keys: Topology keys except the hostname, along which a hard rule selects these pods.
        repelled_by: Numbers of the inverse groups among `selected_by`.
        avoids: Numbers of the inverse groups that these pods own.
        bound: Node position → how many of them count there already.
        ending: Node position → how many more of them terminate there; these count only for pods that they avoid.
    """

    index: int
    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec
    spreads: tuple[TopologySpread, ...]
    facts: Mapping[type, Hashable] = msgspec.field(default_factory=dict)
    selected_by: tuple[TopologyGroupId, ...] = ()
    domain_keys: tuple[str, ...] = ()
    repelled_by: tuple[TopologyGroupId, ...] = ()
    avoids: tuple[TopologyGroupId, ...] = ()
    bound: dict[int, int] = msgspec.field(default_factory=dict)
    ending: dict[int, int] = msgspec.field(default_factory=dict)

    def counted(self, *, with_ending: bool) -> Iterator[tuple[int, int]]:
        """Return node position and number of the pods that count there, terminating ones only if requested."""
        yield from self.bound.items()
        if with_ending:
            yield from self.ending.items()

    def may_run_anywhere(self, key: str) -> bool:
        """Whether the pods' own required node affinity does not restrict a label."""
        alternatives = required_alternatives(self.spec)
        return bool(alternatives) and all(asked.key != key for alternative in alternatives for asked in alternative)

    def may_run_at(self, key: str, value: str) -> bool:
        """Whether the pods' own required node affinity admits this value of a label (volumes and preferences aside)."""
        alternatives = required_alternatives(self.spec)
        return any(all(asked.has(value) for asked in alternative if asked.key == key) for alternative in alternatives)


class TopologyRule(msgspec.Struct, frozen=True, eq=False):
    """One topology group that a pod has to obey; `selects_self` if the rule also selects the pod itself."""

    group: TopologyGroupId
    kind: str
    key: str
    is_hostname: bool
    selects_self: bool


class RelaxationStep(msgspec.Struct, eq=False):
    """What pods demand after giving up some of their preferences.

    Attributes:
        index: Its number among all steps of the snapshot.
        number: Its place among the steps of its pods.
        alternatives: Numbers of the requirements, one for each alternative of the volumes.
        host_rules, zone_rules: The rules in force, including inverse ones, by whether each node is a domain.
        keys: Topology keys of which a new node must have one value.
        is_monotone: Whether a failure is permanent as pods are added: true without affinity and spread along shared domains.
    """

    index: StepId
    number: int
    demands: PodDemands
    alternatives: tuple[RequirementId, ...]
    host_rules: tuple[TopologyRule, ...]
    zone_rules: tuple[TopologyRule, ...]
    keys: tuple[str, ...]
    is_monotone: bool


def with_all_preferences(steps: Sequence[RelaxationStep]) -> tuple[RelaxationStep, ...]:
    """Return the steps that relax only alternatives of the required node affinity; none if there is only one alternative."""
    if not steps or len(steps[0].demands.terms) < 2:
        return ()
    whole = msgspec.structs.replace(steps[0].demands, terms=())
    return tuple(step for step in steps if msgspec.structs.replace(step.demands, terms=()) == whole)


class PodGroup(msgspec.Struct, eq=False):
    """Equal pods, which share all results: a signature, the requests of one pod, and the requirements of its volumes.

    Attributes:
        steps: Their relaxation steps; shared by groups that differ only in their requests.
        reason, message: Set if no node can help.
        is_plain: Whether no constraint (`core.scheduling.constraints`) concerns the pods.
    """

    index: PodGroupId
    signature: PodSignature
    requests: Vector
    volumes: VolumeNeeds
    steps: tuple[RelaxationStep, ...] = ()
    reason: str = ""
    message: str = ""
    is_plain: bool = True

    @property
    def topology_keys(self) -> tuple[str, ...]:
        """Topology keys except the hostname, along which the pods' required rules or those that count them apply."""
        return self.steps[-1].keys if self.steps else ()


class PendingGroup(msgspec.Struct, eq=False):
    """Equal pods that wait for a place, in the order of placement.

    Attributes:
        avoids_recently_changed: Whether consolidation moves them, so that they must avoid nodes whose pods changed recently.
        is_displaced: Whether a target moves them: they are placed after the pods that wait in any case, and share no new node
            with those.
        avoids_drained_later: Whether they leave a node at any cost, so that they go to nodes which the stored target drains
            later only if nothing else can hold them: they would move twice (docs/adr/0244).
        is_released: Whether a target lets them leave a domain that has too many of them: they are placed once all pods that
            keep their domains are counted there (docs/adr/0252).
    """

    pod_group: PodGroup
    pods: list[Pod]
    avoids_recently_changed: bool = False
    is_displaced: bool = False
    avoids_drained_later: bool = False
    is_released: bool = False
    placed: int = 0

    @property
    def waiting(self) -> int:
        """Return how many have no place yet."""
        return len(self.pods) - self.placed
