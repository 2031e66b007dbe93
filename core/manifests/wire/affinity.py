"""Node affinity and pod affinity on the wire."""

from __future__ import annotations

from msgspec import field

from core.manifests.wire.object_metadata import NodeSelector, Wire, WireLabelSelector, WireNodeSelectorTerm


class PreferredSchedulingTerm(Wire):
    """A weighted node affinity."""

    weight: int
    preference: WireNodeSelectorTerm


class NodeAffinity(Wire):
    """`affinity.nodeAffinity`."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class WirePodAffinityTerm(Wire):
    """One term of a pod affinity or anti-affinity."""

    topology_key: str
    label_selector: WireLabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: WireLabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WireWeightedPodAffinityTerm(Wire):
    """A weighted pod affinity term."""

    weight: int
    pod_affinity_term: WirePodAffinityTerm


class PodAffinity(Wire):
    """`affinity.podAffinity` or `affinity.podAntiAffinity`."""

    required: tuple[WirePodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WireWeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None
