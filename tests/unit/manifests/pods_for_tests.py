"""Pods on the wire, and as the model has them, for tests."""

from __future__ import annotations

from typing import Any

from core import labels
from core.manifests.pods import PodTranslator
from core.manifests.wire import decoding, resources
from core.model.pod import Pod


def a_wire_pod(
    name: str = "p", *, status: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **spec: Any
) -> Any:
    written = {"metadata": {"name": name, **(meta or {})}, "spec": spec, "status": status or {}}
    return decoding.from_object(resources.PODS, written)


def translated(*, status: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **spec: Any) -> Pod:
    return PodTranslator().pod(a_wire_pod(status=status, meta=meta, **spec))


NEAR: dict[str, Any] = {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
TERM: dict[str, Any] = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}
WHOLE: dict[str, Any] = {
    "containers": [{"resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 1, "hostPort": 80}]}],
    "nodeSelector": {"team": "a"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}],
        },
        **{
            kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": [NEAR],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": NEAR}],
            }
            for kind in ("podAffinity", "podAntiAffinity")
        },
    },
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [{**NEAR, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
    "priority": 7,
    "priorityClassName": "high",
    "schedulerName": "other",
    "workloadRef": {"name": "training", "podGroup": "workers"},
    "terminationGracePeriodSeconds": 60,
    "schedulingGates": [{"name": "quota"}],
    "nodeName": "n",
}
"""A pod that says everything that is read of a pod's spec."""
