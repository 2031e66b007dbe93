"""Turns a pod template into the pod that this cluster's API server would store.

The plugins are those that EKS runs and whose effect a plan can see, in the API server's order: NamespaceLifecycle, LimitRanger,
Priority, DefaultTolerationSeconds, ExtendedResourceToleration, RuntimeClass and, last, ResourceQuota. Pods that expand from
workloads, the pods of DaemonSets on new nodes, successors of moved pods and the virtual pods of CapacityBuffers all pass here.
Webhooks of the cluster and Pod Security are not applied: nothing in a manifest says what they would do. LimitRanger and
ResourceQuota also judge the volume claims of a StatefulSet, which must exist before its pod, and quotas count the workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from core.manifests.pods import SYSTEM_PRIORITIES, of_spec
from core.manifests.storage import storage_class
from core.manifests.wire import resources
from core.manifests.wire.admission import LimitRange, LimitRangeItem, ResourceQuota, RuntimeClass, ScopeExpression
from core.manifests.wire.objects import PriorityClass, Quantities, Quantity, WireClaimSpec, WireMetadata, WireNamespace
from core.manifests.wire.pod import Container, PodAffinity, Resources, WirePod, WirePodAffinityTerm, WirePodSpec
from core.manifests.wire.pod import WireToleration as Toleration
from core.manifests.wire.resources import Resource
from core.model.pod import default_class
from core.model.values import quantity


class Plugin(StrEnum):
    """A part of admission that changes or refuses pods, by Kubernetes' name of it."""

    NAMESPACE_LIFECYCLE = "NamespaceLifecycle"
    LIMIT_RANGER = "LimitRanger"
    PRIORITY = "Priority"
    EXTENDED_RESOURCE_TOLERATION = "ExtendedResourceToleration"
    RUNTIME_CLASS = "RuntimeClass"
    RESOURCE_QUOTA = "ResourceQuota"


class AdmissionNote(msgspec.Struct, frozen=True, order=True):
    """What one plugin does to a pod, or why it refuses it.

    Attributes:
        plugin: The plugin.
        source: Name of the object that it follows, empty if none.
        effect: What it adds, or what it objects to, as the end of a sentence.
        refuses: Whether the pod is refused.
    """

    plugin: Plugin
    source: str
    effect: str
    refuses: bool = False

    def __str__(self) -> str:
        kind = _KIND_OF.get(self.plugin, f"admission plugin {self.plugin}")
        named = f"{kind} {self.source}" if self.source else kind
        return f"{named} {'refuses the pod:' if self.refuses else 'adds'} {self.effect}"


_KIND_OF: Final[Mapping[Plugin, str]] = {
    Plugin.NAMESPACE_LIFECYCLE: "Namespace",
    Plugin.LIMIT_RANGER: "LimitRange",
    Plugin.PRIORITY: "PriorityClass",
    Plugin.RUNTIME_CLASS: "RuntimeClass",
    Plugin.RESOURCE_QUOTA: "ResourceQuota",
}


class Admitted(msgspec.Struct, frozen=True):
    """The spec that is stored, and what admission did.

    Attributes:
        refusal: Why no such pod is ever stored, None if it is.
    """

    spec: WirePodSpec
    notes: tuple[AdmissionNote, ...] = ()
    refusal: AdmissionNote | None = None


class PodAdmission:
    """The admission of pods in one cluster, as its objects set it up.

    Args:
        objects: The objects of the cluster; a kind that is missing changes and refuses nothing.
    """

    def __init__(self, objects: Mapping[Resource, Iterable[Any]]) -> None:
        self._limit_ranges: dict[str, list[LimitRange]] = {}
        for limit_range in sorted(objects.get(resources.LIMIT_RANGES, ()), key=lambda written: written.metadata.name):
            self._limit_ranges.setdefault(limit_range.metadata.namespace or "default", []).append(limit_range)
        self._runtime_classes: dict[str, RuntimeClass] = {
            written.metadata.name: written for written in objects.get(resources.RUNTIME_CLASSES, ())
        }
        classes = tuple(objects.get(resources.PRIORITY_CLASSES, ()))
        self._priorities = {written.metadata.name: written.value for written in classes}
        self._default_priority = default_priority_class(classes)
        self._terminating = {
            written.metadata.name for written in objects.get(resources.NAMESPACES, ()) if is_terminating(written)
        }
        self._known: dict[tuple[str, int], tuple[WirePodSpec, Admitted]] = {}

    def admit(self, namespace: str, template: WirePodSpec) -> Admitted:
        """Return the pod of this template as the API server would store it in the namespace, quotas aside.

        Raises:
            InvalidInputError: If a quantity of the template or of a plugin's object cannot be read.
        """
        key = (namespace, id(template))
        admitted = self._known.get(key)  # the template is kept, so no other has its identity
        if admitted is None:
            admitted = self._known[key] = template, self._admitted(namespace, template)
        return admitted[1]

    def _admitted(self, namespace: str, template: WirePodSpec) -> Admitted:
        if namespace in self._terminating:
            note = AdmissionNote(Plugin.NAMESPACE_LIFECYCLE, namespace, "it is being terminated", refuses=True)
            return Admitted(template, (), note)
        notes: list[AdmissionNote] = []
        try:
            spec = template
            for limit_range in self._limit_ranges.get(namespace, ()):
                spec = _with_defaults(limit_range, spec, notes)
            spec = self._with_priority_class(spec, notes)
            spec = _with_default_tolerations(spec)
            spec = _tolerating_extended_resources(spec, notes)
            spec = self._with_runtime_class(spec, notes)
            for limit_range in self._limit_ranges.get(namespace, ()):
                _check_limits(limit_range, spec)
        except _RefusedError as refused:
            return Admitted(template, tuple(notes), refused.note)
        return Admitted(spec, tuple(notes))

    def claim_refusal(self, namespace: str, claim: WireClaimSpec) -> AdmissionNote | None:
        """Return which LimitRange refuses a new volume claim, None if none does.

        Raises:
            InvalidInputError: If a quantity cannot be read.
        """
        try:
            for limit_range in self._limit_ranges.get(namespace, ()):
                _check_claim(limit_range, claim)
        except _RefusedError as refused:
            return refused.note
        return None

    def _with_priority_class(self, spec: WirePodSpec, notes: list[AdmissionNote]) -> WirePodSpec:
        """Return the spec with the default class if it names none. Refuse an unknown class, and a number that is not its own.

        Every cluster has Kubernetes' own two classes, so without them some may be missing.
        """
        name, knows_all = spec.priority_class_name, self._priorities.keys() >= SYSTEM_PRIORITIES.keys()
        if name and name not in self._priorities:
            if knows_all:
                _refuse(Plugin.PRIORITY, name, "there is none of that name")
            return spec
        default = self._default_priority
        if not name and default is not None:
            name = default.metadata.name
            notes.append(AdmissionNote(Plugin.PRIORITY, name, f"priority {default.value}"))
        is_known = bool(name) or knows_all
        value = self._priorities[name] if name else 0
        if is_known and spec.priority not in (None, value):
            _refuse(Plugin.PRIORITY, name, f"it states priority {spec.priority}, and gets {value}")
        return msgspec.structs.replace(spec, priority_class_name=name) if name != spec.priority_class_name else spec

    def _with_runtime_class(self, spec: WirePodSpec, notes: list[AdmissionNote]) -> WirePodSpec:
        name = spec.runtime_class_name
        if not name:
            if self._runtime_classes and quantity.parse_resources(spec.overhead, field="spec.overhead"):
                _refuse(Plugin.RUNTIME_CLASS, "", "it states an overhead, and no RuntimeClass gives it one")
            return spec
        runtime = self._runtime_classes.get(name)
        if runtime is None:
            if self._runtime_classes:
                _refuse(Plugin.RUNTIME_CLASS, name, "there is none of that name")
            return spec
        return _of_runtime_class(runtime, spec, notes)


def default_priority_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the class of pods that name none: of several defaults, the lowest one (admission plugin Priority)."""
    defaults = (priority_class for priority_class in classes if priority_class.global_default)
    return min(defaults, key=lambda priority_class: priority_class.value, default=None)


def is_terminating(namespace: WireNamespace) -> bool:
    """Whether the API server takes no new objects in a namespace."""
    return namespace.metadata.deletion_timestamp is not None or namespace.status.phase == "Terminating"


SETTINGS: Final = (resources.LIMIT_RANGES, resources.RESOURCE_QUOTAS, resources.RUNTIME_CLASSES)
"""Kinds whose amounts admission reads whenever a pod is made."""


def check_amounts(written: LimitRange | ResourceQuota | RuntimeClass) -> None:
    """Check the amounts of an object by which admission changes or refuses pods, before a pod is blamed for them.

    Raises:
        InvalidInputError: If one cannot be read; the error names the field.
    """
    if isinstance(written, ResourceQuota):
        _amounts_of(written.spec.hard, "spec.hard")
        _amounts_of(written.status.used, "status.used")
    elif isinstance(written, RuntimeClass):
        quantity.parse_resources(written.overhead.pod_fixed, field="overhead.podFixed")
    else:
        for index, item in enumerate(written.spec.limits):
            for name, amounts in zip(_LIMIT_FIELDS, _amounts_of_item(item), strict=True):
                quantity.parse_resources(amounts, field=f"spec.limits[{index}].{name}")


_LIMIT_FIELDS: Final = ("default", "defaultRequest", "min", "max", "maxLimitRequestRatio")


def _amounts_of_item(item: LimitRangeItem) -> tuple[Quantities, ...]:
    return (item.default, item.default_request, item.min, item.max, item.max_limit_request_ratio)


class _RefusedError(Exception):
    def __init__(self, note: AdmissionNote) -> None:
        super().__init__(str(note))
        self.note = note


def _refuse(plugin: Plugin, source: str, effect: str) -> None:
    raise _RefusedError(AdmissionNote(plugin, source, effect, refuses=True))


# LimitRanger: defaults of containers, then bounds of containers and of whole pods.

_CONTAINER: Final = "Container"
_POD: Final = "Pod"
_CLAIM: Final = "PersistentVolumeClaim"


def _with_defaults(limit_range: LimitRange, spec: WirePodSpec, notes: list[AdmissionNote]) -> WirePodSpec:
    """Return the spec with the defaults of a LimitRange; those of a later entry replace those of an earlier one."""
    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    for item in limit_range.spec.limits:
        if item.type == _CONTAINER:
            limits |= {**item.max, **item.default}
            requests |= {**item.min, **item.max, **item.default, **item.default_request}
    if not limits and not requests:
        return spec
    changed: list[str] = []
    containers, inits = (
        tuple(_defaulted(container, requests, limits, changed) for container in group)
        for group in (spec.containers, spec.init_containers)
    )
    if not changed:
        return spec
    notes.append(AdmissionNote(Plugin.LIMIT_RANGER, limit_range.metadata.name, "; ".join(changed)))
    return msgspec.structs.replace(spec, containers=containers, init_containers=inits)


def _defaulted(
    container: Container, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity], changed: list[str]
) -> Container:
    """Return a container with the defaults that it lacks; the API server first gives it its own limits as requests."""
    written = container.resources
    stated = {**written.limits, **written.requests}
    more_requests = {name: amount for name, amount in sorted(requests.items()) if name not in stated}
    more_limits = {name: amount for name, amount in sorted(limits.items()) if name not in written.limits}
    if not more_requests and not more_limits:
        return container
    added = Resources(requests={**stated, **more_requests}, limits={**written.limits, **more_limits})
    parts = [
        f"{what} {', '.join(f'{name} {amount}' for name, amount in amounts.items())}"
        for what, amounts in (("requests", more_requests), ("limits", more_limits))
        if amounts
    ]
    changed.append(f"{' and '.join(parts)} to container {container.name or 'without a name'}")
    return msgspec.structs.replace(container, resources=added)


def _check_limits(limit_range: LimitRange, spec: WirePodSpec) -> None:
    """Refuse a pod that exceeds the bounds of a LimitRange, or a container whose request exceeds its limit."""
    name = limit_range.metadata.name
    for container in (*spec.containers, *spec.init_containers):
        requests, limits = _amounts(container.resources)
        for resource, amount in sorted(requests.items()):
            if resource in limits and amount > limits[resource]:
                request, limit = quantity.render(amount, resource), quantity.render(limits[resource], resource)
                _refuse(Plugin.LIMIT_RANGER, name, f"request {request} of {resource} is above the limit {limit}")
    for item in limit_range.spec.limits:
        if item.type == _CONTAINER:
            for container in (*spec.containers, *spec.init_containers):
                _check_bounds(name, item, *_amounts(container.resources))
        elif item.type == _POD:
            _check_bounds(name, item, of_whole_pod(spec), limits_of(spec))


def _check_claim(limit_range: LimitRange, claim: WireClaimSpec) -> None:
    """Refuse a volume claim whose request is beyond the bounds of a LimitRange."""
    requests = quantity.parse_resources(claim.resources.requests, field="spec.resources.requests")
    for item in limit_range.spec.limits:
        if item.type == _CLAIM:
            _check_bounds(limit_range.metadata.name, item, requests, requests)


def _check_bounds(source: str, item: LimitRangeItem, requests: Mapping[str, int], limits: Mapping[str, int]) -> None:
    lows, highs = (quantity.parse_resources(bounds, field="spec.limits") for bounds in (item.min, item.max))
    kind = item.type.lower()
    for resource, low in sorted(lows.items()):
        for what, amount in (("request", requests.get(resource)), ("limit", limits.get(resource, low))):
            if amount is None or amount < low:
                amount_text = "none" if amount is None else quantity.render(amount, resource)
                least = quantity.render(low, resource)
                _refuse(
                    Plugin.LIMIT_RANGER, source, f"{kind}'s {what} of {resource} is {amount_text}, at least {least}"
                )
    for resource, high in sorted(highs.items()):
        for what, amount in (("limit", limits.get(resource)), ("request", requests.get(resource, 0))):
            if amount is None or amount > high:
                amount_text = "none" if amount is None else quantity.render(amount, resource)
                most = quantity.render(high, resource)
                _refuse(Plugin.LIMIT_RANGER, source, f"{kind}'s {what} of {resource} is {amount_text}, at most {most}")
    for resource, ratio in sorted(item.max_limit_request_ratio.items()):
        request, limit = requests.get(resource, 0), limits.get(resource, 0)
        # A ratio is a bare quantity: in thousandths, as the API server compares it.
        if not request or not limit or 1000 * limit > quantity.parse(ratio, quantity.CPU) * request:
            _refuse(Plugin.LIMIT_RANGER, source, f"{kind}'s limit of {resource} is more than {ratio} times its request")


def _amounts(written: Resources) -> tuple[dict[str, int], dict[str, int]]:
    limits = quantity.parse_resources(written.limits, field="limits")
    return limits | quantity.parse_resources(written.requests, field="requests"), limits


def of_whole_pod(spec: WirePodSpec) -> dict[str, int]:
    """Return the requests of a pod without the overhead of its RuntimeClass, and without its slot."""
    return _without_slot(of_spec(msgspec.structs.replace(spec, overhead={})))


def limits_of(spec: WirePodSpec) -> dict[str, int]:
    """Return the limits of a pod, summed as its requests are."""
    level = spec.resources
    as_requests = msgspec.structs.replace(
        spec,
        containers=tuple(map(_limits_as_requests, spec.containers)),
        init_containers=tuple(map(_limits_as_requests, spec.init_containers)),
        resources=None if level is None else Resources(requests=level.limits),
        overhead={},
    )
    return _without_slot(of_spec(as_requests))


def _limits_as_requests(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=Resources(requests=container.resources.limits))


def _without_slot(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if name != quantity.PODS}


# Tolerations: DefaultTolerationSeconds and ExtendedResourceToleration.

_NO_EXECUTE: Final = "NoExecute"
_NO_SCHEDULE: Final = "NoSchedule"
_UNREACHABLE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _with_default_tolerations(spec: WirePodSpec) -> WirePodSpec:
    """Return the spec with the tolerations by which a pod survives five minutes on a node that does not answer."""
    missing = [
        key
        for key in _UNREACHABLE
        if not any(t.key in (key, "") and t.effect in (_NO_EXECUTE, "") for t in spec.tolerations)
    ]
    added = tuple(Toleration(key=key, operator="Exists", effect=_NO_EXECUTE) for key in missing)
    return msgspec.structs.replace(spec, tolerations=(*spec.tolerations, *added)) if added else spec


def _tolerating_extended_resources(spec: WirePodSpec, notes: list[AdmissionNote]) -> WirePodSpec:
    """Return the spec with a toleration of the taint that dedicates nodes to a device which the pod requests."""
    requested = {
        name
        for container in (*spec.containers, *spec.init_containers)
        for name in (*container.resources.requests, *container.resources.limits)
        if is_extended_resource(name)
    }
    added = [Toleration(key=name, operator="Exists", effect=_NO_SCHEDULE) for name in sorted(requested)]
    added = [toleration for toleration in added if toleration not in spec.tolerations]
    if not added:
        return spec
    effect = f"a toleration of {' and '.join(toleration.key for toleration in added)}"
    notes.append(AdmissionNote(Plugin.EXTENDED_RESOURCE_TOLERATION, "", effect))
    return msgspec.structs.replace(spec, tolerations=(*spec.tolerations, *added))


def is_extended_resource(name: str) -> bool:
    """Whether a resource is a device of a plugin, not one of Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


# RuntimeClass: overhead, node selector and tolerations.


def _of_runtime_class(runtime: RuntimeClass, spec: WirePodSpec, notes: list[AdmissionNote]) -> WirePodSpec:
    name, overhead, scheduling = runtime.metadata.name, runtime.overhead.pod_fixed, runtime.scheduling
    pod_overhead = quantity.parse_resources(spec.overhead, field="spec.overhead")
    if pod_overhead and pod_overhead != quantity.parse_resources(overhead, field="overhead.podFixed"):
        _refuse(Plugin.RUNTIME_CLASS, name, "its overhead differs from the pod's own")
    for key, value in sorted(scheduling.node_selector.items()):
        if spec.node_selector.get(key, value) != value:
            _refuse(Plugin.RUNTIME_CLASS, name, f"it selects nodes by {key}={value}, the pod by another value")
    more = [toleration for toleration in scheduling.tolerations if toleration not in spec.tolerations]
    selector = {**spec.node_selector, **scheduling.node_selector}
    parts = []
    if overhead and not pod_overhead:
        parts.append(f"overhead {', '.join(f'{key} {amount}' for key, amount in sorted(overhead.items()))}")
    if selector != spec.node_selector:
        parts.append(f"node selector {', '.join(f'{k}={v}' for k, v in sorted(scheduling.node_selector.items()))}")
    if more:
        parts.append(f"a toleration of {' and '.join(toleration.key or 'every taint' for toleration in more)}")
    if not parts:
        return spec
    notes.append(AdmissionNote(Plugin.RUNTIME_CLASS, name, " and ".join(parts)))
    return msgspec.structs.replace(
        spec, overhead=overhead, node_selector=selector, tolerations=(*spec.tolerations, *more)
    )


# ResourceQuota: how many pods, volume claims and workloads may exist, and what they may request together.

_COMPUTE: Final = (quantity.CPU, quantity.MEMORY, quantity.EPHEMERAL_STORAGE)
_MUST_BE_STATED: Final = (quantity.CPU, quantity.MEMORY)
"""Each container must state these if a quota counts them."""
_COUNT: Final = "count/pods"
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_CLAIMS: Final = "persistentvolumeclaims"
_STORAGE: Final = "requests.storage"
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"


class PodQuotas:
    """What the ResourceQuotas of a cluster leave, while pods and what they come from are created one by one.

    Args:
        objects: The objects of the cluster. A quota without a status counts the pods and volume claims among them.
    """

    def __init__(self, objects: Mapping[Resource, Iterable[Any]]) -> None:
        self._quotas: dict[str, list[_Quota]] = {}
        for written in sorted(objects.get(resources.RESOURCE_QUOTAS, ()), key=lambda quota: quota.metadata.name):
            self._quotas.setdefault(written.metadata.namespace or "default", []).append(_Quota(written))
        if not self._quotas:
            return
        self._default_class = default_class(map(storage_class, objects.get(resources.STORAGE_CLASSES, ())))
        for claim in objects.get(resources.PERSISTENT_VOLUME_CLAIMS, ()):
            for quota in self._counting_objects(claim.metadata.namespace or "default"):
                if quota.counts_pods:
                    quota.charge(_or_one(partial(self._usage_of_claim, claim.spec), _CLAIMS))
        for pod in objects.get(resources.PODS, ()):
            if pod.status.phase in ("Failed", "Succeeded") or is_unstored(pod):
                continue
            for quota in self._quotas.get(pod.metadata.namespace or "default", ()):
                if quota.counts_pods and quota.covers(pod.spec):
                    quota.charge(_or_one(partial(_usage, pod.spec), quantity.PODS))

    def refusal(self, namespace: str, spec: WirePodSpec) -> AdmissionNote | None:
        """Count a new pod, or return which quota refuses it.

        Raises:
            InvalidInputError: If a quantity cannot be read.
        """
        covering = [quota for quota in self._quotas.get(namespace, ()) if quota.covers(spec)]
        if not covering:
            return None
        usage = _usage(spec)
        return _charge_all(covering, usage, lambda quota: quota.objection(spec, usage))

    def claim_refusal(self, namespace: str, claim: WireClaimSpec) -> AdmissionNote | None:
        """Count a new volume claim, or return which quota refuses it.

        Raises:
            InvalidInputError: If a quantity cannot be read.
        """
        usage = self._usage_of_claim(claim) if namespace in self._quotas else {}
        return self._object_refusal(namespace, usage, "its volume claim")

    def workload_refusal(self, resource: Resource, metadata: WireMetadata) -> AdmissionNote | None:
        """Count a new workload, or return which quota refuses it."""
        name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        return self._object_refusal(metadata.namespace or "default", {f"count/{name}": 1, name: 1}, resource.kind)

    def _object_refusal(self, namespace: str, usage: Mapping[str, int], subject: str) -> AdmissionNote | None:
        return _charge_all(self._counting_objects(namespace), usage, lambda quota: quota.excess(usage, subject))

    def _counting_objects(self, namespace: str) -> list[_Quota]:
        """Return the quotas that count objects other than pods: those without a scope."""
        return [quota for quota in self._quotas.get(namespace, ()) if not quota.has_scopes]

    def _usage_of_claim(self, claim: WireClaimSpec) -> dict[str, int]:
        """Return what a volume claim uses of each entry that a quota may have."""
        requests = quantity.parse_resources(claim.resources.requests, field="spec.resources.requests")
        usage = {_CLAIMS: 1, f"count/{_CLAIMS}": 1, _STORAGE: requests.get("storage", 0)}
        named = self._default_class if claim.storage_class_name is None else claim.storage_class_name
        of_class = {f"{named}{_OF_CLASS}{name}": usage[name] for name in (_CLAIMS, _STORAGE)} if named else {}
        return usage | of_class


def _or_one(usage: Callable[[], dict[str, int]], plural: str) -> dict[str, int]:
    """Return what an object uses; of one whose amounts cannot be read, only that it is one."""
    try:
        return usage()
    except InvalidInputError:
        return {plural: 1, f"count/{plural}": 1}


def _charge_all(
    quotas: Sequence[_Quota], usage: Mapping[str, int], problem_of: Callable[[_Quota], str]
) -> AdmissionNote | None:
    """Count the usage in each quota, or in none and return the first that refuses it."""
    for quota in quotas:
        if problem := problem_of(quota):
            return AdmissionNote(Plugin.RESOURCE_QUOTA, quota.name, problem, refuses=True)
    for quota in quotas:
        quota.charge(usage)
    return None


class _Quota:
    """One ResourceQuota.

    Attributes:
        counts_pods: Whether the pods and claims in the input are its usage, because its status has none.
    """

    def __init__(self, written: ResourceQuota) -> None:
        self.name = written.metadata.name
        self._hard = _amounts_of(written.spec.hard, "spec.hard")
        self._used = _amounts_of(written.status.used, "status.used")
        self.counts_pods = not written.status.used
        plain = tuple(ScopeExpression(scope_name=scope) for scope in written.spec.scopes)
        self._scopes = (*plain, *written.spec.scope_selector.match_expressions)

    @property
    def has_scopes(self) -> bool:
        """Whether it counts some pods only, and nothing else."""
        return bool(self._scopes)

    def covers(self, spec: WirePodSpec) -> bool:
        """Whether pods of this spec count."""
        return all(_in_scope(scope, spec) for scope in self._scopes)

    def objection(self, spec: WirePodSpec, usage: Mapping[str, int]) -> str:
        """Return why one more pod is refused, empty if it is not."""
        missing = [name for name in self._stated() if not _all_state(spec, name)] if spec.resources is None else []
        if missing:
            return f"every container must state {' and '.join(missing)}"
        return self.excess(usage, "the pod")

    def excess(self, usage: Mapping[str, int], subject: str) -> str:
        """Return what is used up for one more object, empty if nothing is; `subject` is the object for people."""
        for name, hard in sorted(self._hard.items()):
            used, more = self._used.get(name, 0), usage.get(name, 0)
            if more and used + more > hard:
                taken, needed, limit = (quantity.render(amount, _unit_of(name)) for amount in (used, more, hard))
                return f"{taken} of {limit} {name} are used, and {subject} needs {needed}"
        return ""

    def charge(self, usage: Mapping[str, int]) -> None:
        """Count one more pod."""
        for name, amount in usage.items():
            if name in self._hard:
                self._used[name] = self._used.get(name, 0) + amount

    def _stated(self) -> list[str]:
        return [name for name in sorted(self._hard) if _unit_of(name) in _MUST_BE_STATED]


def _amounts_of(amounts: Quantities, field: str) -> dict[str, int]:
    try:
        return {name: quantity.parse(amount, _unit_of(name)) for name, amount in amounts.items()}
    except InvalidInputError as error:
        raise InvalidInputError(error.problem, field=field) from error


def _unit_of(name: str) -> str:
    """Return the resource that an entry of a quota limits: `requests.cpu` and `cpu` limit CPU."""
    unit = name.rpartition(_OF_CLASS)[2].removeprefix(_REQUESTS).removeprefix(_LIMITS)
    return quantity.EPHEMERAL_STORAGE if unit == "storage" else unit


def _usage(spec: WirePodSpec) -> dict[str, int]:
    """Return what a pod uses of each entry that a quota may have."""
    usage = {_COUNT: 1, quantity.PODS: 1}
    for name, amount in of_spec(spec).items():
        if name == quantity.PODS:
            continue
        usage[f"{_REQUESTS}{name}"] = amount
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = amount
    usage |= {f"{_LIMITS}{name}": amount for name, amount in limits_of(spec).items() if name in _COMPUTE}
    return usage


def _all_state(spec: WirePodSpec, name: str) -> bool:
    """Whether all containers state the request or limit that an entry of a quota counts."""
    unit, counts_limits = _unit_of(name), name.startswith(_LIMITS)
    containers: Sequence[Container] = (*spec.containers, *spec.init_containers)
    return all(
        unit in container.resources.limits or (not counts_limits and unit in container.resources.requests)
        for container in containers
    )


def _in_scope(scope: ScopeExpression, spec: WirePodSpec) -> bool:
    holds = {
        "BestEffort": _is_best_effort(spec),
        "NotBestEffort": not _is_best_effort(spec),
        "Terminating": spec.active_deadline_seconds is not None,
        "NotTerminating": spec.active_deadline_seconds is None,
        "CrossNamespacePodAffinity": _names_namespaces(spec),
    }
    if scope.scope_name != "PriorityClass":
        return holds.get(scope.scope_name, False)
    name = spec.priority_class_name
    return {
        "Exists": bool(name),
        "DoesNotExist": not name,
        "In": name in scope.values,
        "NotIn": name not in scope.values,
    }.get(scope.operator, False)


def _is_best_effort(spec: WirePodSpec) -> bool:
    level = [spec.resources] if spec.resources is not None else []
    written = [*level, *(container.resources for container in (*spec.containers, *spec.init_containers))]
    return not any(name in (*stated.requests, *stated.limits) for stated in written for name in _MUST_BE_STATED)


def _names_namespaces(spec: WirePodSpec) -> bool:
    if spec.affinity is None:
        return False
    near: tuple[PodAffinity, ...] = tuple(filter(None, (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity)))
    terms: list[WirePodAffinityTerm] = [term for affinity in near for term in affinity.required]
    terms += [weighted.pod_affinity_term for affinity in near for weighted in affinity.preferred]
    return any(term.namespaces or term.namespace_selector is not None for term in terms)


def is_unstored(pod: WirePod) -> bool:
    """Whether a Pod comes from a manifest: an API server gives each pod that it stores a uid and a creation time."""
    metadata, status = pod.metadata, pod.status
    return not (metadata.uid or metadata.creation_timestamp or pod.node_name or status.conditions) and (
        status.phase in ("", "Pending") and metadata.deletion_timestamp is None
    )


def admitted_pods(
    objects: Mapping[Resource, Iterable[Any]], admission: PodAdmission, quotas: PodQuotas
) -> tuple[tuple[WirePod, Admitted], ...]:
    """Return the Pods from manifests as the API server would store them; an unreadable one stays as it is."""
    expanded = []
    for pod in objects.get(resources.PODS, ()):
        if not is_unstored(pod) or pod.metadata.owner_references or pod.unreadable:
            continue
        namespace = pod.metadata.namespace or "default"
        with suppress(Exception):  # what is wrong with it shows where it is translated
            admitted = admission.admit(namespace, pod.spec)
            refusal = admitted.refusal or quotas.refusal(namespace, admitted.spec)
            expanded.append((pod, msgspec.structs.replace(admitted, refusal=refusal)))
    return tuple(expanded)
