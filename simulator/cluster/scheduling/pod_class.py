"""Extracts the fields of a pod that the scheduler reads, once for all identical pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from core.api.objects import JsonObject
from core.model.values import quantity
from simulator.cluster.node_fit import HARD_EFFECTS, intolerable_taint, pinned_node, selects_node
from simulator.cluster.objects import labels_of, name_of, namespace_of

PortKey = tuple[str, str, int]
"""Host IP, protocol, port."""


class Term(msgspec.Struct, frozen=True):
    """One term of pod (anti-)affinity, or the pods that a spread constraint counts.

    Attributes:
        group: Which pods it selects, as a key: terms with equal groups share their counts.
    """

    topology_key: str
    namespaces: tuple[str, ...]
    namespace_selector: JsonObject | None
    selector: JsonObject | None
    group: bytes


class Spread(msgspec.Struct, frozen=True):
    """One topology spread constraint."""

    term: Term
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class PodClass(msgspec.Struct, frozen=True, eq=False):
    """Pods that the scheduler cannot tell apart."""

    number: int
    namespace: str
    labels: Mapping[str, str]
    spec: JsonObject
    requests: Mapping[str, int]
    ports: tuple[PortKey, ...]
    pinned: str
    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    preferred: tuple[tuple[int, Term], ...]
    spread: tuple[Spread, ...]
    soft_spread: tuple[Spread, ...]
    has_volumes: bool
    has_preferences: bool

    @property
    def counts_others(self) -> bool:
        """Return whether other pods affect the choice of nodes for these, apart from resources."""
        return bool(self.affinity or self.anti_affinity or self.spread)

    def admits(self, node: JsonObject) -> bool:
        """Whether the node itself suits: selector, affinity, taints."""
        return selects_node(self.spec, node) and intolerable_taint(self.spec, node, HARD_EFFECTS) is None


class PodClasses:
    """All classes seen so far."""

    def __init__(self) -> None:
        self._known: dict[bytes, PodClass] = {}

    def of(self, pod: JsonObject) -> PodClass:
        """The pod's class."""
        spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "schedulingGates")}
        own_volumes = any("ephemeral" in volume for volume in spec.get("volumes") or ())
        key = msgspec.json.encode([namespace_of(pod), labels_of(pod), spec, name_of(pod) if own_volumes else ""])
        found = self._known.get(key)
        if found is None:
            found = _read(len(self._known), pod, spec)
            self._known[key] = found
        return found


_CLAIMING: Final = ("persistentVolumeClaim", "ephemeral")


def _read(number: int, pod: JsonObject, spec: JsonObject) -> PodClass:
    namespace, labels = namespace_of(pod), labels_of(pod)
    affinity = spec.get("affinity") or {}
    attract, repel = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    preferences = [
        (sign * int(preference["weight"]), preference["podAffinityTerm"])
        for sign, source in ((1, attract), (-1, repel))
        for preference in source.get(preferred) or ()
    ]
    constraints = spec.get("topologySpreadConstraints") or ()
    hard = [c for c in constraints if c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
    soft = [c for c in constraints if c.get("whenUnsatisfiable") == "ScheduleAnyway"]
    return PodClass(
        number=number,
        namespace=namespace,
        labels=labels,
        spec=spec,
        requests=effective_requests(spec),
        ports=_host_ports(spec),
        pinned=pinned_node(pod),
        affinity=tuple(_term(t, namespace, labels) for t in attract.get(required) or ()),
        anti_affinity=tuple(_term(t, namespace, labels) for t in repel.get(required) or ()),
        preferred=tuple((weight, _term(t, namespace, labels)) for weight, t in preferences),
        spread=tuple(_spread(c, namespace, labels) for c in hard),
        soft_spread=tuple(_spread(c, namespace, labels) for c in soft),
        has_volumes=any(kind in volume for volume in spec.get("volumes") or () for kind in _CLAIMING),
        has_preferences=bool(preferences or (affinity.get("nodeAffinity") or {}).get(preferred)),
    )


def effective_requests(spec: JsonObject) -> dict[str, int]:
    """Return the pod's requests: sidecars run beside the containers, other init containers before them."""
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = _parsed((container.get("resources") or {}).get("requests"))
        if container.get("restartPolicy") == "Always":
            beside = _sum(beside, wanted)
            peak = _most(peak, beside)
        else:
            peak = _most(peak, _sum(beside, wanted))
    total = beside
    for container in spec.get("containers") or ():
        total = _sum(total, _parsed((container.get("resources") or {}).get("requests")))
    total = _most(total, peak)
    total |= _parsed((spec.get("resources") or {}).get("requests"))
    return {**_sum(total, _parsed(spec.get("overhead"))), "pods": 1}


def _parsed(requests: Mapping[str, str] | None) -> dict[str, int]:
    return {name: quantity.parse(value, name) for name, value in sorted((requests or {}).items())}


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {**left, **{name: left.get(name, 0) + value for name, value in right.items()}}


def _most(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {**left, **{name: max(left.get(name, 0), value) for name, value in right.items()}}


def _host_ports(spec: JsonObject) -> tuple[PortKey, ...]:
    containers = [
        *(spec.get("containers") or ()),
        *(c for c in spec.get("initContainers") or () if c.get("restartPolicy")),
    ]
    found: list[PortKey] = []
    for container in containers:
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else None)
            if number:
                found.append((port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", int(number)))  # noqa: S104
    return tuple(sorted(found))


def _term(term: JsonObject, namespace: str, labels: Mapping[str, str]) -> Term:
    selector = _with_label_keys(term.get("labelSelector"), labels, term.get("matchLabelKeys"), "In")
    selector = _with_label_keys(selector, labels, term.get("mismatchLabelKeys"), "NotIn")
    namespaces, namespace_selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not namespaces and namespace_selector is None:
        namespaces = [namespace]
    return _a_term(term["topologyKey"], namespaces, namespace_selector, selector)


def _a_term(key: str, namespaces: Iterable[str], of_namespaces: JsonObject | None, selector: JsonObject | None) -> Term:
    names = tuple(sorted(namespaces))
    group = msgspec.json.encode([names, of_namespaces, selector], order="deterministic")
    return Term(key, names, of_namespaces, selector, group)


def _spread(constraint: JsonObject, namespace: str, labels: Mapping[str, str]) -> Spread:
    selector = _with_label_keys(constraint.get("labelSelector"), labels, constraint.get("matchLabelKeys"), "In")
    return Spread(
        term=_a_term(constraint["topologyKey"], [namespace], None, selector),
        max_skew=int(constraint.get("maxSkew", 1)),
        min_domains=int(constraint.get("minDomains") or 1),
        honors_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honors_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _with_label_keys(
    selector: JsonObject | None, labels: Mapping[str, str], keys: Iterable[str] | None, operator: str
) -> JsonObject | None:
    """The selector narrowed to the pod's own values of these keys; keys that the pod lacks are passed over."""
    added = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys or () if key in labels]
    if selector is None or not added:
        return selector
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]}
