"""Whether a node suits a pod, apart from other pods: selectors, affinity, taints. Used by the scheduler and DaemonSets."""

from __future__ import annotations

from collections.abc import Sequence

from core.api.objects import JsonObject
from simulator.cluster.objects import labels_of, spec_of
from simulator.cluster.selectors import matches_node_terms

UNSCHEDULABLE_TAINT: JsonObject = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
HARD_EFFECTS = ("NoSchedule", "NoExecute")


def required_terms(spec: JsonObject) -> list[JsonObject] | None:
    """The terms of the pod's required node affinity, None where it has none."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def selects_node(spec: JsonObject, node: JsonObject) -> bool:
    """Whether the pod's node selector and required node affinity admit the node."""
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = required_terms(spec)
    return terms is None or matches_node_terms(terms, node)


def intolerable_taint(spec: JsonObject, node: JsonObject, effects: Sequence[str]) -> JsonObject | None:
    """The first of the node's taints with such an effect that the pod does not tolerate."""
    tolerations: list[JsonObject] = spec.get("tolerations") or []
    taints: list[JsonObject] = list(spec_of(node).get("taints") or [])
    if spec_of(node).get("unschedulable"):
        taints.append(UNSCHEDULABLE_TAINT)
    untolerated = (t for t in taints if t["effect"] in effects and not any(tolerates(x, t) for x in tolerations))
    return next(untolerated, None)


def tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    """Whether a toleration covers a taint: an empty key or effect covers all."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def pinned_node(pod: JsonObject) -> str:
    """The one node that the pod's affinity names, as a DaemonSet's pods do; empty for none."""
    terms = required_terms(pod["spec"]) or []
    if len(terms) != 1:
        return ""
    fields: list[JsonObject] = terms[0].get("matchFields") or []
    if len(fields) == 1 and fields[0]["operator"] == "In" and len(fields[0]["values"]) == 1:
        return str(fields[0]["values"][0])
    return ""
