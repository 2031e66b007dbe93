"""Translates pods, DaemonSets, PodDisruptionBudgets and the selectors of workloads from wire to model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from core import labels
from core.containment import SetAsideError, internal_error, protecting_budget
from core.errors import InvalidInputError
from core.manifests.storage import (
    equality_selector,
    label_selector,
    node_term,
    node_terms,
    scoring_fault,
    selector_fault,
    term_fault,
    volume_request,
)
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
    NodeSelectorTerm,
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
from core.reasons.pods import PodReason

# Computes what a pod requests of a node by Kubernetes' rules, including in-place resize.


_POD_LEVEL: Final = (quantity.CPU, quantity.MEMORY)
_INFEASIBLE: Final = "Infeasible"

Requested = Callable[[wire_pod.Container, str], dict[str, int]]
"""Container and its path → one of the amounts that count for it: what it asks for, what it was granted, what it has."""


def of_spec(spec: wire_pod.WirePodSpec, *, field: str = "spec") -> dict[str, int]:
    """Return the effective requests of a pod that runs as specified, and one pod slot; names in order.

    Limits count as requests if there are none, as in the API server's defaults.

    Raises:
        InvalidInputError: If a quantity cannot be read or is negative.
    """
    total = _sum_of(spec, _asked_for, field=field)
    total |= _pod_level(spec, total, field=field)
    return _with_overhead(total, spec, field=field)


def of_pod(pod: wire_pod.WirePod) -> dict[str, int]:
    """Return the effective requests of a pod that may have been resized in place (Kubernetes 1.37).

    It counts with the maximum of three sums: what it asks for, what the kubelet granted and what it has. Pod-level amounts of
    the status replace the containers'. An infeasible resize is ignored.

    Raises:
        InvalidInputError: If a quantity cannot be read or is negative.
    """
    spec, status, is_ignored = pod.spec, pod.status, is_infeasible(pod.status)
    requests = _sum_of(spec, _asked_for, field="spec")
    of_status = _ContainerStatuses(status, is_infeasible=is_ignored)
    granted, has = _pod_level_status(status)
    if granted is None or not has:
        counted = [_sum_of(spec, of_status.granted, field="spec"), _sum_of(spec, of_status.has, field="spec")]
    else:
        counted = [granted, has]
    total = quantity.maximum(counted if is_ignored else [requests, *counted])
    of_whole = _pod_level(spec, requests, field="spec")
    if of_whole and has is not None:
        pod_level = [{} if is_ignored else of_whole, has, granted or {}]
        of_whole = {name: amount for name, amount in quantity.maximum(pod_level).items() if is_pod_level(name)}
    return _with_overhead(total | of_whole, spec, field="spec")


def states_resources(status: wire_pod.PodStatus) -> bool:
    """Whether the status states resources of the pod or of any container."""
    containers = (*status.container_statuses, *status.init_container_statuses)
    of_pod = status.resources is not None or status.allocated_resources is not None
    return of_pod or any(c.resources is not None or c.allocated_resources is not None for c in containers)


def is_infeasible(status: wire_pod.PodStatus) -> bool:
    """Whether the node cannot grant the resize that a pod asks for."""
    pending = status.condition("PodResizePending")
    return pending is not None and pending.reason == _INFEASIBLE


def _sum_of(spec: wire_pod.WirePodSpec, of: Requested, *, field: str) -> dict[str, int]:
    """Return the amounts of all containers together: the most that run at one time."""
    running = quantity.add(*(of(container, f"{field}.containers[{i}]") for i, container in enumerate(spec.containers)))
    sidecars: dict[str, int] = {}
    peaks: list[dict[str, int]] = []
    for i, container in enumerate(spec.init_containers):
        amounts = quantity.add(sidecars, of(container, f"{field}.initContainers[{i}]"))
        if _is_sidecar(container):
            sidecars = amounts
        peaks.append(amounts)
    return quantity.maximum([quantity.add(running, sidecars), *peaks])


def _is_sidecar(container: wire_pod.Container) -> bool:
    """Whether an init container runs as long as the pod."""
    return container.restart_policy == "Always"


def _with_overhead(total: dict[str, int], spec: wire_pod.WirePodSpec, *, field: str) -> dict[str, int]:
    total = quantity.add(total, quantity.parse_resources(spec.overhead, field=f"{field}.overhead"))
    return {name: min(amount, quantity.AMOUNT_MAX) for name, amount in sorted({**total, quantity.PODS: 1}.items())}


class _ContainerStatuses:
    """The amounts of each container by its status; what is missing there is what the container asks for."""

    def __init__(self, status: wire_pod.PodStatus, *, is_infeasible: bool) -> None:
        self._is_infeasible = is_infeasible
        self._by_name: dict[str, wire_pod.ContainerStatus] = {}
        for container in (*status.container_statuses, *status.init_container_statuses):
            self._by_name.setdefault(container.name, container)

    def granted(self, container: wire_pod.Container, field: str) -> dict[str, int]:
        status = self._by_name.get(container.name)
        if status is None or status.allocated_resources is None:
            return {} if self._is_infeasible else _asked_for(container, field)
        return quantity.parse_resources(status.allocated_resources, field="status.containerStatuses.allocatedResources")

    def has(self, container: wire_pod.Container, field: str) -> dict[str, int]:
        status = self._by_name.get(container.name)
        if status is None or status.resources is None or not status.resources.requests:
            return self.granted(container, field)
        return quantity.parse_resources(status.resources.requests, field="status.containerStatuses.resources.requests")


def _asked_for(container: wire_pod.Container, field: str) -> dict[str, int]:
    return _written(container.resources, field=f"{field}.resources")


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
    defaults = {name: of_containers.get(name, amount) for name, amount in limits.items()}
    return {name: amount for name, amount in (defaults | requests).items() if is_pod_level(name)}


def _pod_level_status(status: wire_pod.PodStatus) -> tuple[dict[str, int] | None, dict[str, int] | None]:
    """Return what the kubelet granted to the pod as a whole, and what it has; None where the status does not say."""
    granted = has = None
    if status.allocated_resources is not None:
        granted = quantity.parse_resources(status.allocated_resources, field="status.allocatedResources")
    if status.resources is not None:
        has = quantity.parse_resources(status.resources.requests, field="status.resources.requests")
    return granted, has


def is_pod_level(name: str) -> bool:
    """Whether a pod as a whole may request the resource."""
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

_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - Kubernetes' own notation for all addresses
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
        cached = self._by_identity.get(id(written))  # it is kept, so no other object has its identity
        if cached is not None:
            return cached[1]
        spec = self._translated(written, field)
        spec = self._by_content.setdefault(_canonical(spec), spec)
        self._by_identity[id(written)] = (written, spec)
        return spec

    def _translated(self, written: wire_pod.WirePodSpec, field: str) -> PodSpec:
        excess = excess_of(written)
        if excess:
            return self._too_complex(written, field, excess)
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
            pod_group=_pod_group(written),
            termination_grace_seconds=min(GRACE_SECONDS_MAX, max(0, written.termination_grace_period_seconds)),
            problem=_selection_fault(written, node, field),
            unscorable=_scoring_fault(node, field),
        )

    def _too_complex(self, written: wire_pod.WirePodSpec, field: str, excess: str) -> PodSpec:
        """Translate a spec with more rules than a plan takes from one pod: its room, and what it takes of a node it runs on."""
        return PodSpec(
            requests=dict(list(of_spec(written, field=field).items())[:RESOURCES_MAX]) | {quantity.PODS: 1},
            tolerations=tuple(
                _toleration(t, field=f"{field}.tolerations[{i}]")
                for i, t in enumerate(written.tolerations[:TOLERATIONS_MAX])
            ),
            host_ports=_host_ports(written),
            volumes=tuple(use for volume in written.volumes if (use := _volume_use(volume)) is not None),
            priority=self._priority(written),
            priority_class=written.priority_class_name,
            scheduler_name=written.scheduler_name or DEFAULT_SCHEDULER,
            termination_grace_seconds=min(GRACE_SECONDS_MAX, max(0, written.termination_grace_period_seconds)),
            problem=f"{field}: {excess}",
            problem_reason=PodReason.TOO_COMPLEX,
        )

    def _priority(self, written: wire_pod.WirePodSpec) -> int:
        if written.priority is not None:
            return written.priority
        if not written.priority_class_name:
            return self._default_priority
        return self._priorities.get(written.priority_class_name, 0)


TERMS_MAX: Final = 32
"""The most alternatives of one pod's required node affinity, the most terms of its pod affinity and anti-affinity together, and
the most of its preferences together: each preference may be given up by itself, with a search of its own."""

EXPRESSIONS_MAX: Final = 256
"""The most expressions and labels in all selectors of one pod."""

VALUES_MAX: Final = 4_096
"""The most values in all of them, such as names of instance types."""

TOLERATIONS_MAX: Final = 256
SPREADS_MAX: Final = 16
RESOURCES_MAX: Final = 64


def excess_of(written: wire_pod.WirePodSpec) -> str:
    """Return what a pod has more of than a plan takes from one pod, empty for nearly all: its author alone pays for its rules.

    The bounds are far above what people write; an API server takes thousands of each.
    """
    resources = {name for c in (*written.containers, *written.init_containers) for name in c.resources.requests}
    counts = [
        (len(written.tolerations), TOLERATIONS_MAX, "tolerations"),
        (len(written.topology_spread_constraints), SPREADS_MAX, "topology spread constraints"),
        (len(resources), RESOURCES_MAX, "resources"),
    ]
    if written.affinity is not None or written.topology_spread_constraints or written.node_selector:
        counts += _selector_counts(written)
    excesses = (
        f"{count} {what} are more than the {most} that a plan takes from one pod"
        for count, most, what in counts
        if count > most
    )
    return written.excess or next(excesses, "")


def _selector_counts(written: wire_pod.WirePodSpec) -> list[tuple[int, int, str]]:
    """Return how many terms, expressions and values a pod has, each with the most that a plan takes."""
    affinity = written.affinity or Affinity()
    node = affinity.node_affinity or NodeAffinity()
    together, apart = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
    alternatives = node.required.node_selector_terms if node.required is not None else ()
    required, preferred = (*together.required, *apart.required), (*together.preferred, *apart.preferred)
    terms = [*required, *(entry.pod_affinity_term for entry in preferred)]
    selectors = [selector for term in terms for selector in (term.label_selector, term.namespace_selector)]
    selectors += [spread.label_selector for spread in written.topology_spread_constraints]
    stated = [selector for selector in selectors if selector is not None]
    of_nodes = (*alternatives, *(entry.preference for entry in node.preferred))
    expressions = [e for term in of_nodes for e in term.match_expressions]
    expressions += [e for selector in stated for e in selector.match_expressions]
    equal = sum(len(selector.match_labels) for selector in stated) + len(written.node_selector)
    values = sum(len(expression.values) for expression in expressions) + sum(len(term.namespaces) for term in terms)
    return [
        (len(alternatives), TERMS_MAX, "alternatives of the required node affinity"),
        (len(required), TERMS_MAX, "terms of pod affinity and anti-affinity"),
        (len(node.preferred) + len(preferred), TERMS_MAX, "preferences"),
        (len(expressions) + equal, EXPRESSIONS_MAX, "expressions"),
        (values, VALUES_MAX, "values of expressions"),
    ]


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
    """Return the preferences of a node affinity. One that no label can satisfy matches nothing, so it is empty.

    The API server does not check the values of preferences.
    """
    preferences = []
    for i, term in enumerate(terms):
        where = f"{field}[{i}].preference"
        read = node_term(term.preference, field=where)
        preferences.append(
            PreferredTerm(term.weight, NodeSelectorTerm() if term_fault(term.preference, field=where) else read)
        )
    return tuple(preferences)


def _selection_fault(written: wire_pod.WirePodSpec, node: NodeAffinity, field: str) -> str:
    """Return the first label in the pod's node selection that no node can carry, if it leaves no alternative.

    Older API servers do not check values. A claim for such a pod would carry the text into its node's user data.
    """
    where = f"{field}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    required = node.required.node_selector_terms if node.required is not None else ()
    faults = [term_fault(term, field=f"{where}[{i}]") for i, term in enumerate(required)]
    first = faults[0] if faults and all(faults) else ""
    return selector_fault(written.node_selector, field=f"{field}.nodeSelector") or first


def _scoring_fault(node: NodeAffinity, field: str) -> str:
    """Return the first preferred term that cannot be parsed: the API server accepts any text there."""
    where = f"{field}.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    faults = (
        scoring_fault(entry.preference, field=f"{where}[{i}].preference") for i, entry in enumerate(node.preferred)
    )
    return next(filter(None, faults), "")


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
    """Return the host ports of containers and sidecars; with hostNetwork, the API server makes every container port one.

    An address `::` is one like any other (kube-scheduler): only no address, or 0.0.0.0, stands for all.
    """
    ports = {
        HostPort(
            port=port.host_port or port.container_port,
            protocol=port.protocol or "TCP",
            host_ip=port.host_ip or _ALL_ADDRESSES,
        )
        for container in (*spec.containers, *filter(_is_sidecar, spec.init_containers))
        for port in container.ports
        if port.host_port or (spec.host_network and port.container_port)
    }
    return tuple(sorted(ports))


def _volume_use(volume: Volume) -> VolumeUse | None:
    if volume.persistent_volume_claim is not None:
        return VolumeUse(volume.persistent_volume_claim.claim_name)
    if volume.ephemeral is not None:
        template = volume.ephemeral.volume_claim_template.spec
        request = volume_request(template, field=f"spec.volumes[{volume.name}].ephemeral.volumeClaimTemplate.spec")
        return VolumeUse("", volume.name, template.storage_class_name, request)
    if volume.aws_elastic_block_store is not None:
        return VolumeUse("", inline=volume.aws_elastic_block_store.volume_id)
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
        except Exception as error:  # noqa: BLE001 - whatever one pod causes costs only that pod
            return self.unreadable(written, SetAsideError(internal_error(written.metadata.name, error).message))

    def unreadable(self, written: wire_pod.WirePod, error: InvalidInputError) -> Pod:
        """Translate a pod for which `pod` raised: its identity and place without its needs. No node is planned for it."""
        fault = ": ".join(part for part in (error.field, error.problem) if part)
        spec = PodSpec(requests={"pods": 1}, problem=fault, problem_reason=_reason_of(error))
        return msgspec.structs.replace(self._pod(written, spec), unreadable=fault)

    def spec(self, written: wire_pod.WirePodSpec, *, field: str = "spec") -> PodSpec:
        """Translate the spec of a pod or of a template; `field` is its path in the object. Raises InvalidInputError."""
        return self._specs.spec(written, field=field)

    def _pod(self, written: wire_pod.WirePod, spec: PodSpec) -> Pod:
        metadata, status = written.metadata, written.status
        scheduled, ready = status.condition("PodScheduled"), status.condition("Ready")
        marked = scheduled if scheduled is not None and _is_verdict(scheduled, spec) else None
        return Pod(
            namespace=metadata.namespace or "default",
            name=metadata.name,
            spec=spec,
            uid=metadata.uid,
            created_at=_moment(metadata.creation_timestamp),
            labels=metadata.labels,
            annotations=metadata.annotations,
            owners=self._owners_of(metadata),
            node_name=written.node_name,
            nominated_node_name=status.nominated_node_name,
            phase=status.phase or "Pending",
            deleted_at=_moment(metadata.deletion_timestamp),
            started_at=_moment(status.start_time),
            is_ready=None if ready is None or ready.status == "Unknown" else ready.status == "True",
            is_marked_unschedulable=marked is not None,
            unschedulable_since=_moment(marked.last_transition_time) if marked is not None else None,
            is_gated=bool(written.spec.scheduling_gates),
        )

    def _owners_of(self, metadata: objects.WireMetadata) -> tuple[Owner, ...]:
        """Return the owners, one object for all pods of a workload.

        The wire form is kept referenced, so that its id stays unique.
        """
        written = metadata.owner_references
        cached = self._owners.get(id(written))
        if cached is None:
            cached = self._owners[id(written)] = (written, owners(metadata))
        return cached[1]

    def _spec_of(self, written: wire_pod.WirePod) -> PodSpec:
        spec = self._specs.spec(written.spec)
        if not states_resources(written.status):
            return spec
        status = written.status
        state = (
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            status.condition("PodResizePending"),
        )
        key = (id(spec), _canonical(state))
        cached = self._resized.get(key)
        if cached is None:
            requests = of_pod(written)
            cached = spec if requests == spec.requests else msgspec.structs.replace(spec, requests=requests)
            self._resized[key] = cached
        return cached


_GROUP_FAILED: Final = "PodGroupPostFilter"
"""In the message of a group's pods when kube-scheduler 1.37 found no node at all: played on the real one."""


def _is_verdict(scheduled: objects.WireCondition, spec: PodSpec) -> bool:
    """Whether kube-scheduler says that no node takes the pod now.

    For a group in a cluster without nodes, it says SchedulerError. Other errors are the user's: priorities that differ.
    """
    of_group = scheduled.reason == "SchedulerError" and spec.pod_group and _GROUP_FAILED in scheduled.message
    return scheduled.reason == "Unschedulable" or bool(of_group)


def _pod_group(written: wire_pod.WirePodSpec) -> str:
    """Return the group with which Kubernetes' own scheduler starts the pod."""
    reference = written.workload_ref
    if written.scheduling_group is not None:
        return written.scheduling_group.pod_group_name
    if reference is None:
        return ""
    return "/".join(part for part in (reference.name, reference.pod_group, reference.pod_group_replica_key) if part)


def _reason_of(error: InvalidInputError) -> str:
    return PodReason.SET_ASIDE if isinstance(error, SetAsideError) else ""


def _moment(written: datetime | None) -> datetime | None:
    return None if written is None else quantity.in_calendar(written)


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
        current_healthy=None if is_stale else status.current_healthy,
        desired_healthy=None if is_stale else status.desired_healthy,
        unhealthy_pod_eviction_policy=spec.unhealthy_pod_eviction_policy,
    )


def unreadable_budget(written: objects.WirePodDisruptionBudget) -> PodDisruptionBudget:
    """Translate a budget for which `pod_disruption_budget` raised: all pods of its namespace are protected."""
    return protecting_budget(written.metadata.namespace or "default", written.metadata.name)


def daemon_set(
    written: wire_pod.WireWorkload, translator: PodTranslator, stored: wire_pod.WirePodSpec | None = None
) -> DaemonSet:
    """Translate a DaemonSet.

    Args:
        written: The DaemonSet.
        translator: Translates the pod.
        stored: The pod as the API server would store it, None for that of the template as it is.

    Raises:
        InvalidInputError: If the template cannot be understood.
    """
    if written.unreadable:
        raise InvalidInputError(written.unreadable)
    return DaemonSet(
        namespace=written.metadata.namespace or "default",
        name=written.metadata.name,
        labels=written.spec.template.metadata.labels,
        spec=translator.spec(stored or written.spec.template.spec, field="spec.template.spec"),
    )


def unreadable_daemon_set(written: wire_pod.WireWorkload, error: InvalidInputError) -> DaemonSet:
    """Translate a DaemonSet for which `daemon_set` raised; only its existing pods show what its pods need."""
    fault = ": ".join(part for part in (error.field, error.problem) if part)
    metadata = written.metadata
    spec = PodSpec(requests={"pods": 1}, problem=fault)
    return DaemonSet(namespace=metadata.namespace or "default", name=metadata.name, spec=spec)


def namespace(written: objects.WireNamespace) -> Namespace:
    """Translate a namespace. Kubernetes labels each with its own name."""
    namespace_labels = {"kubernetes.io/metadata.name": written.metadata.name}
    return Namespace(name=written.metadata.name, labels=namespace_labels | written.metadata.labels)


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
