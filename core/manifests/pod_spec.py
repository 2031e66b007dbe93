"""Translates specs of pods and of pod templates. Equal specs become one `PodSpec`, translated once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.manifests import effective_requests
from core.manifests.pod_affinity import pod_terms, preferred_pod_terms
from core.manifests.selectors import label_selector, node_term, node_terms, selector_fault, term_fault
from core.manifests.wire import pod as wire_pod
from core.manifests.wire.affinity import Affinity, NodeAffinity, PodAffinity, PreferredSchedulingTerm
from core.manifests.wire.cluster import Volume
from core.model.pod import (
    DEFAULT_SCHEDULER,
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    HostPort,
    PodSpec,
    PreferredTerm,
    TopologySpread,
    VolumeUse,
)
from core.model.values.requirements import Requirement
from core.model.values.taints import EFFECTS, TOLERATION_OPERATORS, Toleration

SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
GRACE_SECONDS_MAX: Final = 100 * 365 * 24 * 3600
"""A longer grace period counts as a hundred years: Kubernetes accepts any number of 64 bits, and moments must stay in range."""

_ALL_ADDRESSES: Final = ("", "0.0.0.0", "::")  # noqa: S104 - Kubernetes' own notation for all addresses
_canonical: Final = msgspec.msgpack.Encoder().encode


class PodSpecTranslator:
    """Translates the specs of one cluster at one moment.

    Args:
        priorities: Priority class → value, for pods that name a class but have no priority yet.
        default_priority: The priority of pods that name no class.
    """

    def __init__(self, priorities: Mapping[str, int] | None = None, default_priority: int = 0) -> None:
        self._priorities = {**SYSTEM_PRIORITIES, **(priorities or {})}
        self._default_priority = default_priority
        self._by_identity: dict[int, tuple[wire_pod.WirePodSpec, PodSpec]] = {}
        self._by_content: dict[bytes, PodSpec] = {}

    def spec(self, written: wire_pod.WirePodSpec, *, field: str = "spec") -> PodSpec:
        """Translate the spec of a pod or of a template; `field` is its path in the object.

        Raises:
            InvalidInputError: If a field cannot be understood.
        """
        known = self._by_identity.get(id(written))  # it is kept, so no other object has its identity
        if known is not None:
            return known[1]
        spec = self._translated(written, field)
        spec = self._by_content.setdefault(_canonical(spec), spec)
        self._by_identity[id(written)] = (written, spec)
        return spec

    def _translated(self, written: wire_pod.WirePodSpec, field: str) -> PodSpec:
        affinity = written.affinity or Affinity()
        node = affinity.node_affinity or NodeAffinity()
        together = affinity.pod_affinity or PodAffinity()
        apart = affinity.pod_anti_affinity or PodAffinity()
        where = f"{field}.affinity"
        return PodSpec(
            requests=effective_requests.of_spec(written, field=field),
            node_selector=tuple(sorted(Requirement.one_of(k, v) for k, v in written.node_selector.items())),
            required_terms=node_terms(
                node.required, field=f"{where}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ),
            preferred_terms=_preferred(
                node.preferred, field=f"{where}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
            ),
            tolerations=tuple(
                _toleration(t, field=f"{field}.tolerations[{i}]") for i, t in enumerate(written.tolerations)
            ),
            spreads=tuple(
                topology_spread(s, field=f"{field}.topologySpreadConstraints[{i}]")
                for i, s in enumerate(written.topology_spread_constraints)
            ),
            affinity=pod_terms(together.required, field=f"{where}.podAffinity"),
            anti_affinity=pod_terms(apart.required, field=f"{where}.podAntiAffinity"),
            preferred_affinity=preferred_pod_terms(together.preferred, field=f"{where}.podAffinity"),
            preferred_anti_affinity=preferred_pod_terms(apart.preferred, field=f"{where}.podAntiAffinity"),
            host_ports=_host_ports(written),
            volumes=tuple(use for volume in written.volumes if (use := _volume_use(volume)) is not None),
            resource_claims=tuple(claim.name for claim in written.resource_claims),
            priority=self._priority(written),
            priority_class=written.priority_class_name,
            scheduler_name=written.scheduler_name or DEFAULT_SCHEDULER,
            workload=written.workload_ref.name if written.workload_ref is not None else "",
            termination_grace_seconds=min(GRACE_SECONDS_MAX, max(0, written.termination_grace_period_seconds)),
            problem=_selection_fault(written, node, field),
        )

    def _priority(self, written: wire_pod.WirePodSpec) -> int:
        if written.priority is not None:
            return written.priority
        if not written.priority_class_name:
            return self._default_priority
        return self._priorities.get(written.priority_class_name, 0)


def topology_spread(written: wire_pod.TopologySpreadConstraint, *, field: str) -> TopologySpread:
    """Translate a topologySpreadConstraint; `field` is its path in the object.

    Raises:
        InvalidInputError: If the API server would reject it.
    """
    if written.max_skew < 1:
        raise InvalidInputError(f"{written.max_skew} is not one or more", field=f"{field}.maxSkew")
    if written.when_unsatisfiable not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        problem = f"unknown value {written.when_unsatisfiable!r}, use {DO_NOT_SCHEDULE} or {SCHEDULE_ANYWAY}"
        raise InvalidInputError(problem, field=f"{field}.whenUnsatisfiable")
    return TopologySpread(
        topology_key=labels.normalized(written.topology_key),
        max_skew=written.max_skew,
        when_unsatisfiable=written.when_unsatisfiable,
        selector=label_selector(written.label_selector, field=f"{field}.labelSelector"),
        min_domains=written.min_domains,
        node_affinity_policy=written.node_affinity_policy,
        node_taints_policy=written.node_taints_policy,
        match_label_keys=written.match_label_keys,
    )


def _preferred(terms: tuple[PreferredSchedulingTerm, ...], *, field: str) -> tuple[PreferredTerm, ...]:
    return tuple(
        PreferredTerm(term.weight, node_term(term.preference, field=f"{field}[{i}].preference"))
        for i, term in enumerate(terms)
    )


def _selection_fault(written: wire_pod.WirePodSpec, node: NodeAffinity, field: str) -> str:
    """Return the first label in the pod's node selection that no node can carry.

    The API server does not check values of preferred terms, and older versions check no values. A claim for such a pod would
    carry the text into its node's user data.
    """
    where = f"{field}.affinity.nodeAffinity"
    required = node.required.node_selector_terms if node.required is not None else ()
    named = [
        (f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]", term)
        for i, term in enumerate(required)
    ]
    named += [
        (f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{i}].preference", entry.preference)
        for i, entry in enumerate(node.preferred)
    ]
    faults = (term_fault(term, field=place) for place, term in named)
    return selector_fault(written.node_selector, field=f"{field}.nodeSelector") or next(filter(None, faults), "")


def _toleration(written: wire_pod.WireToleration, *, field: str) -> Toleration:
    operator = written.operator or "Equal"
    if operator not in TOLERATION_OPERATORS:
        problem = f"unknown operator {operator!r}, use one of {', '.join(TOLERATION_OPERATORS)}"
        raise InvalidInputError(problem, field=f"{field}.operator")
    if written.effect and written.effect not in EFFECTS:
        problem = f"unknown effect {written.effect!r}, use one of {', '.join(EFFECTS)}"
        raise InvalidInputError(problem, field=f"{field}.effect")
    return Toleration(written.key, operator, written.value, written.effect)


def _host_ports(spec: wire_pod.WirePodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of regular containers; with hostNetwork, the API server makes every container port one."""
    found = {
        HostPort(
            port=port.host_port or port.container_port,
            protocol=port.protocol or "TCP",
            host_ip="0.0.0.0" if port.host_ip in _ALL_ADDRESSES else port.host_ip,  # noqa: S104 - see above
        )
        for container in spec.containers
        for port in container.ports
        if port.host_port or (spec.host_network and port.container_port)
    }
    return tuple(sorted(found))


def _volume_use(volume: Volume) -> VolumeUse | None:
    if volume.persistent_volume_claim is not None:
        return VolumeUse(volume.persistent_volume_claim.claim_name)
    if volume.ephemeral is not None:
        return VolumeUse("", volume.name, volume.ephemeral.volume_claim_template.spec.storage_class_name)
    return None
