"""Translates pods, DaemonSets, PodDisruptionBudgets and the selectors of workloads from wire to model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.manifests.storage import equality_selector, label_selector, node_term, node_terms, selector_fault, term_fault
from core.manifests.wire import objects
from core.manifests.wire import pod as wire_pod
from core.manifests.wire.objects import Volume
from core.manifests.wire.pod import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PreferredSchedulingTerm,
    WirePodAffinityTerm,
    WireWeightedPodAffinityTerm,
)
from core.model.pod import (
    DEFAULT_SCHEDULER,
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    HostPort,
    LabelSelector,
    Owner,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    TopologySpread,
    VolumeUse,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import DaemonSet, Namespace, PodDisruptionBudget, Service, WorkloadSelector
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.model.values.taints import EFFECTS, TOLERATION_OPERATORS, Toleration

# Computes what a pod requests of a node by Kubernetes' rules, including in-place resize.


_POD_LEVEL: Final = (quantity.CPU, quantity.MEMORY)
_INFEASIBLE: Final = "Infeasible"

Statuses = Mapping[str, wire_pod.ContainerStatus]


def of_spec(spec: wire_pod.WirePodSpec, *, field: str = "spec") -> dict[str, int]:
    """Return the effective requests of a pod that runs as specified, and one pod slot; names in order.

    Limits count as requests if there are none, as in the API server's defaults.

    Raises:
        InvalidInputError: If a quantity cannot be read or is negative.
    """
    return _effective(spec, {}, field=field, is_infeasible=False)


def of_pod(pod: wire_pod.WirePod) -> dict[str, int]:
    """Return the effective requests of a pod whose containers may have been resized in place.

    A container counts with the maximum of its requested, allocated and actual resources; an infeasible resize is ignored.

    Raises:
        InvalidInputError: If a quantity cannot be read or is negative.
    """
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    by_name = {status.name: status for status in statuses if status.resources is not None}
    return _effective(pod.spec, by_name, field="spec", is_infeasible=_is_infeasible(pod.status))


def states_resources(status: wire_pod.PodStatus) -> bool:
    """Whether the status states the resources of any container."""
    return any(
        container.resources is not None for container in (*status.container_statuses, *status.init_container_statuses)
    )


def _is_infeasible(status: wire_pod.PodStatus) -> bool:
    pending = status.condition("PodResizePending")
    return status.resize == _INFEASIBLE or (pending is not None and pending.reason == _INFEASIBLE)


def _effective(spec: wire_pod.WirePodSpec, statuses: Statuses, *, field: str, is_infeasible: bool) -> dict[str, int]:
    running = quantity.add(
        *(
            _of_container(container, statuses, field=f"{field}.containers[{i}]", is_infeasible=is_infeasible)
            for i, container in enumerate(spec.containers)
        )
    )
    sidecars: dict[str, int] = {}
    peaks: list[dict[str, int]] = []
    for i, container in enumerate(spec.init_containers):
        where = f"{field}.initContainers[{i}]"
        if container.restart_policy == "Always":
            own = _of_container(container, statuses, field=where, is_infeasible=is_infeasible)
            sidecars = quantity.add(sidecars, own)
            peaks.append(sidecars)
        else:
            peaks.append(quantity.add(sidecars, _written(container.resources, field=f"{where}.resources")))
    total = quantity.maximum([quantity.add(running, sidecars), *peaks])
    total |= _pod_level(spec, total, field=field)
    total = quantity.add(total, quantity.parse_resources(spec.overhead, field=f"{field}.overhead"))
    return {name: min(amount, quantity.AMOUNT_MAX) for name, amount in sorted({**total, quantity.PODS: 1}.items())}


def _of_container(
    container: wire_pod.Container, statuses: Statuses, *, field: str, is_infeasible: bool
) -> dict[str, int]:
    asked = _written(container.resources, field=f"{field}.resources")
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return asked
    has = quantity.parse_resources(status.resources.requests, field="status.containerStatuses.resources.requests")
    granted = quantity.parse_resources(status.allocated_resources, field="status.containerStatuses.allocatedResources")
    return quantity.maximum([has, granted] if is_infeasible else [asked, has, granted])


def _written(written: wire_pod.Resources, *, field: str) -> dict[str, int]:
    if not written.limits:
        return quantity.parse_resources(written.requests, field=f"{field}.requests")
    limits = quantity.parse_resources(written.limits, field=f"{field}.limits")
    return limits | quantity.parse_resources(written.requests, field=f"{field}.requests")


def _pod_level(spec: wire_pod.WirePodSpec, of_containers: Mapping[str, int], *, field: str) -> dict[str, int]:
    """Return pod-level requests, which replace the containers' sum; pod-level limits count where no container requests any."""
    if spec.resources is None:
        return {}
    limits = quantity.parse_resources(spec.resources.limits, field=f"{field}.resources.limits")
    requests = quantity.parse_resources(spec.resources.requests, field=f"{field}.resources.requests")
    defaults = {name: amount for name, amount in limits.items() if name not in of_containers}
    return {name: amount for name, amount in (defaults | requests).items() if _is_pod_level(name)}


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith("hugepages-")


# Translates affinity and anti-affinity between pods from wire to model.


def pod_terms(written: tuple[WirePodAffinityTerm, ...], *, field: str) -> tuple[PodAffinityTerm, ...]:
    """Return the required terms, in order; `field` is the path of the podAffinity or podAntiAffinity.

    Raises:
        InvalidInputError: If a selector cannot be read or a topologyKey is empty.
    """
    where = f"{field}.requiredDuringSchedulingIgnoredDuringExecution"
    return tuple(_term(term, field=f"{where}[{i}]") for i, term in enumerate(written))


def preferred_pod_terms(
    written: tuple[WireWeightedPodAffinityTerm, ...], *, field: str
) -> tuple[WeightedPodAffinityTerm, ...]:
    """Return the preferred terms with their weights, in order.

    Raises:
        InvalidInputError: As `pod_terms`.
    """
    where = f"{field}.preferredDuringSchedulingIgnoredDuringExecution"
    return tuple(
        WeightedPodAffinityTerm(entry.weight, _term(entry.pod_affinity_term, field=f"{where}[{i}].podAffinityTerm"))
        for i, entry in enumerate(written)
    )


def _term(written: WirePodAffinityTerm, *, field: str) -> PodAffinityTerm:
    if not written.topology_key:
        raise InvalidInputError("is missing", field=f"{field}.topologyKey")
    return PodAffinityTerm(
        topology_key=labels.normalized(written.topology_key),
        selector=label_selector(written.label_selector, field=f"{field}.labelSelector"),
        namespaces=tuple(sorted(set(written.namespaces))),
        namespace_selector=label_selector(written.namespace_selector, field=f"{field}.namespaceSelector"),
        match_label_keys=written.match_label_keys,
        mismatch_label_keys=written.mismatch_label_keys,
    )


# Translates specs of pods and of pod templates. Equal specs become one `PodSpec`, translated once.


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
            requests=of_spec(written, field=field),
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


class PodTranslator:
    """Translates the pods of one cluster at one moment.

    Args:
        priorities: Priority class → value, for pods that name a class but have no priority yet.
        default_priority: The priority of pods that name no class.
    """

    def __init__(self, priorities: Mapping[str, int] | None = None, default_priority: int = 0) -> None:
        self._specs = PodSpecTranslator(priorities, default_priority)
        self._resized: dict[tuple[int, bytes], PodSpec] = {}
        self._owners: dict[int, tuple[object, tuple[Owner, ...]]] = {}

    def pod(self, written: wire_pod.WirePod) -> Pod:
        """Translate a pod.

        Raises:
            InvalidInputError: If it has no name or a field cannot be understood.
        """
        if not written.metadata.name:
            raise InvalidInputError("is missing", field="metadata.name")
        if written.unreadable:
            raise InvalidInputError(written.unreadable)
        return self._pod(written, self._spec_of(written))

    def readable_or_not(self, written: wire_pod.WirePod) -> Pod:
        """Translate a pod; return its `unreadable` form if a field cannot be understood."""
        try:
            return self.pod(written)
        except InvalidInputError as error:
            return self.unreadable(written, error)

    def unreadable(self, written: wire_pod.WirePod, error: InvalidInputError) -> Pod:
        """Translate a pod for which `pod` raised: its identity and place without its needs. No node is planned for it."""
        fault = ": ".join(part for part in (error.field, error.problem) if part)
        return msgspec.structs.replace(
            self._pod(written, PodSpec(requests={"pods": 1}, problem=fault)), unreadable=fault
        )

    def spec(self, written: wire_pod.WirePodSpec, *, field: str = "spec") -> PodSpec:
        """Translate the spec of a pod or of a template; `field` is its path in the object. Raises InvalidInputError."""
        return self._specs.spec(written, field=field)

    def _pod(self, written: wire_pod.WirePod, spec: PodSpec) -> Pod:
        metadata, status = written.metadata, written.status
        scheduled, ready = status.condition("PodScheduled"), status.condition("Ready")
        marked = scheduled if scheduled is not None and scheduled.reason == "Unschedulable" else None
        return Pod(
            namespace=metadata.namespace or "default",
            name=metadata.name,
            spec=spec,
            uid=metadata.uid,
            created_at=metadata.creation_timestamp,
            labels=metadata.labels,
            annotations=metadata.annotations,
            owners=self._owners_of(metadata),
            node_name=written.node_name,
            nominated_node_name=status.nominated_node_name,
            phase=status.phase or "Pending",
            deleted_at=metadata.deletion_timestamp,
            started_at=status.start_time,
            is_ready=None if ready is None or ready.status == "Unknown" else ready.status == "True",
            is_marked_unschedulable=marked is not None,
            unschedulable_since=marked.last_transition_time if marked is not None else None,
            is_gated=bool(written.spec.scheduling_gates),
        )

    def _owners_of(self, metadata: objects.WireMetadata) -> tuple[Owner, ...]:
        """Return the owners, one object for all pods of a workload.

        The wire form is kept referenced, so that its id stays unique.
        """
        written = metadata.owner_references
        known = self._owners.get(id(written))
        if known is None:
            known = self._owners[id(written)] = (written, owners(metadata))
        return known[1]

    def _spec_of(self, written: wire_pod.WirePod) -> PodSpec:
        spec = self._specs.spec(written.spec)
        if not states_resources(written.status):
            return spec
        status = written.status
        state = (status.container_statuses, status.init_container_statuses, status.resize, status.conditions)
        relevant = state if status.condition("PodResizePending") else state[:3]
        key = (id(spec), _canonical(relevant))
        known = self._resized.get(key)
        if known is None:
            requests = of_pod(written)
            known = spec if requests == spec.requests else msgspec.structs.replace(spec, requests=requests)
            self._resized[key] = known
        return known


def owners(metadata: objects.WireMetadata) -> tuple[Owner, ...]:
    """Return the owner references of an object."""
    return tuple(
        Owner(ref.kind, ref.name, ref.api_version, ref.uid, ref.controller) for ref in metadata.owner_references
    )


# Translates PodDisruptionBudgets, DaemonSets and other objects that rules refer to, from wire to model.


def pod_disruption_budget(written: objects.WirePodDisruptionBudget) -> PodDisruptionBudget:
    """Translate a PodDisruptionBudget.

    Raises:
        InvalidInputError: If its selector cannot be understood.
    """
    if written.unreadable:
        raise InvalidInputError(written.unreadable)
    metadata, spec, status = written.metadata, written.spec, written.status
    is_stale = status.observed_generation is not None and status.observed_generation < metadata.generation
    return PodDisruptionBudget(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        selector=label_selector(spec.selector, field="spec.selector"),
        min_available=_text(spec.min_available),
        max_unavailable=_text(spec.max_unavailable),
        disruptions_allowed=None if is_stale else status.disruptions_allowed,
        expected_pods=None if is_stale else status.expected_pods,
        unhealthy_pod_eviction_policy=spec.unhealthy_pod_eviction_policy,
    )


def unreadable_budget(written: objects.WirePodDisruptionBudget) -> PodDisruptionBudget:
    """Translate a budget for which `pod_disruption_budget` raised.

    It may select any pod of its namespace, so it protects all.
    """
    metadata = written.metadata
    return PodDisruptionBudget(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        selector=LabelSelector(),
        max_unavailable="0",
        disruptions_allowed=0,
    )


def daemon_set(written: wire_pod.WireWorkload, translator: PodTranslator) -> DaemonSet:
    """Translate a DaemonSet: the pod of its template.

    Raises:
        InvalidInputError: If the template cannot be understood.
    """
    if written.unreadable:
        raise InvalidInputError(written.unreadable)
    template = written.spec.template
    return DaemonSet(
        namespace=written.metadata.namespace or "default",
        name=written.metadata.name,
        labels=template.metadata.labels,
        spec=translator.spec(template.spec, field="spec.template.spec"),
    )


def unreadable_daemon_set(written: wire_pod.WireWorkload, error: InvalidInputError) -> DaemonSet:
    """Translate a DaemonSet for which `daemon_set` raised; only its existing pods show what its pods need."""
    fault = ": ".join(part for part in (error.field, error.problem) if part)
    metadata = written.metadata
    spec = PodSpec(requests={"pods": 1}, problem=fault)
    return DaemonSet(namespace=metadata.namespace or "default", name=metadata.name, spec=spec)


def namespace(written: objects.Labelled) -> Namespace:
    """Translate a namespace. Kubernetes labels each with its own name."""
    own = {"kubernetes.io/metadata.name": written.metadata.name}
    return Namespace(name=written.metadata.name, labels=own | written.metadata.labels)


def service(written: objects.WireService) -> Service:
    """Translate a Service."""
    metadata = written.metadata
    return Service(namespace=metadata.namespace or "default", name=metadata.name, selector=written.spec.selector)


def workload_selector(written: wire_pod.WireWorkload, kind: str) -> WorkloadSelector:
    """Translate a ReplicaSet, StatefulSet or Deployment, without its template.

    Raises:
        InvalidInputError: If the selector cannot be understood.
    """
    metadata = written.metadata
    selector = label_selector(written.spec.selector, field="spec.selector")
    return WorkloadSelector(
        namespace=metadata.namespace or "default",
        kind=kind,
        name=metadata.name,
        selector=selector,
        replicas=written.spec.replicas,
    )


def controller_selector(written: wire_pod.ReplicationController) -> WorkloadSelector:
    """Translate a ReplicationController, without its template."""
    metadata, selector = written.metadata, written.spec.selector
    return WorkloadSelector(
        namespace=metadata.namespace or "default",
        kind="ReplicationController",
        name=metadata.name,
        selector=equality_selector(selector) if selector else None,
        replicas=written.spec.replicas,
    )


def _text(value: objects.IntOrString | None) -> str | None:
    return None if value is None else str(value)
