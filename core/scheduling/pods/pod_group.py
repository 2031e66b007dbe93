"""Pods that are alike for scheduling, as one: most pods of a workload differ in nothing but their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.model.pod import HostPort, Pod, PodSpec, TopologySpread
from core.scheduling.pods.preferences import PodDemands, required_alternatives
from core.scheduling.pods.volumes import VolumeNeeds
from core.scheduling.primitives.resource_vector import Vector


@dataclass(eq=False, slots=True)
class PodSignature:
    """Pods of one namespace with equal labels, as far as any selector reads them, and equal specs but for what they request.

    Attributes:
        spreads: The spread constraints, those of the cluster's defaults included.
        selected_by: Numbers of the topology groups whose selector picks these pods.
        pinned_keys: Topology keys (hostname aside) along which a hard rule speaks of these pods.
        repelled_by: Numbers of the inverse groups among `selected_by`.
        avoids: Numbers of the inverse groups that these pods own.
        bound: Node position → how many of them count there already.
    """

    index: int
    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec
    spreads: tuple[TopologySpread, ...]
    selected_by: tuple[int, ...] = ()
    domain_keys: tuple[str, ...] = ()
    repelled_by: tuple[int, ...] = ()
    avoids: tuple[int, ...] = ()
    bound: dict[int, int] = field(default_factory=dict)
    _anywhere: dict[str, bool] = field(default_factory=dict)
    _eligible: dict[tuple[str, str], bool] = field(default_factory=dict)

    def may_run_anywhere(self, key: str) -> bool:
        """Whether the pod's own required node affinity says nothing of a label."""
        known = self._anywhere.get(key)
        if known is None:
            ways = required_alternatives(self.spec)
            known = self._anywhere[key] = bool(ways) and all(asked.key != key for way in ways for asked in way)
        return known

    def may_run_at(self, key: str, value: str) -> bool:
        """Whether the pod's own required node affinity leaves it this value of a label (volumes and preferences aside)."""
        question = (key, value)
        known = self._eligible.get(question)
        if known is None:
            ways = required_alternatives(self.spec)
            known = any(all(asked.has(value) for asked in way if asked.key == key) for way in ways)
            self._eligible[question] = known
        return known


@dataclass(eq=False, slots=True, frozen=True)
class TopologyRule:
    """One topology group that a pod has to obey; `selects_self` where the pod is one of those the rule speaks of."""

    group: int
    kind: str
    key: str
    is_hostname: bool
    selects_self: bool


@dataclass(eq=False, slots=True)
class RelaxationStep:
    """What a class of pods asks for after so many steps of giving up preferences.

    Attributes:
        index: Its number among all stages of the snapshot.
        number: Its place on the ladder of its pods.
        asks: Numbers of the requirements to grant, one for each way in which the volumes can be met.
        host_rules, zone_rules: The rules in force, inverse ones included, by whether a node is a domain of its own.
        keys: Topology keys that a new node must be held to one value of.
        is_monotone: Whether a failure is for good as pods are added: true without affinity and spread along shared domains.
    """

    index: int
    number: int
    demands: PodDemands
    alternatives: tuple[int, ...]
    host_rules: tuple[TopologyRule, ...]
    zone_rules: tuple[TopologyRule, ...]
    keys: tuple[str, ...]
    is_monotone: bool


@dataclass(eq=False, slots=True)
class PodGroup:
    """Pods that one question answers for all: a shape, what one pod takes, and what the volumes demand.

    Attributes:
        stages: What they ask for, step by step; shared by classes that differ in nothing but what they request.
        reason, message: Set where no node could ever help.
        ports: Host ports that one pod takes.
        is_plain: Whether a pod takes nothing of a node but what it requests: no host port, no volume to attach.
    """

    index: int
    signature: PodSignature
    requests: Vector
    volumes: VolumeNeeds
    steps: tuple[RelaxationStep, ...] = ()
    reason: str = ""
    message: str = ""
    ports: tuple[HostPort, ...] = field(init=False)
    is_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        self.ports = self.signature.spec.host_ports
        self.is_plain = not self.ports and not self.volumes.attachments


@dataclass(eq=False, slots=True)
class Alike:
    """Pods of one shape that request the same.

    Attributes:
        pod_class: Their class where they have no volumes, once it is known.
    """

    signature: PodSignature
    requests: Vector
    pod_group: PodGroup | None = None


@dataclass(eq=False, slots=True)
class PendingGroup:
    """Pods of one class that wait for a place, in the order in which they get one.

    Attributes:
        avoids_resting: Whether consolidation moves them, which must let nodes rest that changed lately.
    """

    pod_group: PodGroup
    pods: list[Pod]
    avoids_resting: bool = False
    placed: int = 0

    @property
    def waiting(self) -> int:
        """How many have no place yet."""
        return len(self.pods) - self.placed
