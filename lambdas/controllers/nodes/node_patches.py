"""Patches Node objects. Taints are one list, so each such patch applies only to the version that was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapters.ports import JsonObject, Kubernetes, NotFoundError
from core import labels
from core.lifecycle.draining.disruption_taint import EXCLUDED_BY_US, REASON_ANNOTATION
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import DISRUPTED, Taint
from lambdas.controllers.nodes.node_lists import ObservedNode


def patch_node(
    kubernetes: Kubernetes,
    seen: ObservedNode,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[Taint] | None = None,
    finalizers: Iterable[str] | None = None,
) -> None:
    """Add labels and annotations, replace taints and finalizers. Raises ConflictError if the node has changed since then."""
    metadata: JsonObject = {}
    if labels:
        metadata["labels"] = dict(sorted(labels.items()))
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    body: JsonObject = {"metadata": metadata}
    if taints is not None or finalizers is not None:
        metadata["resourceVersion"] = seen.resource_version
    if finalizers is not None:
        metadata["finalizers"] = list(finalizers)
    if taints is not None:
        body["spec"] = {"taints": [taint.written() for taint in taints]}
    kubernetes.patch(kinds.NODES, seen.node.name, body)


def delete_node(kubernetes: Kubernetes, seen: ObservedNode) -> None:
    """Remove our finalizer and delete exactly this Node; no error if it is gone. Raises ConflictError if it has changed."""
    node = seen.node
    try:
        if labels.TERMINATION_FINALIZER in node.finalizers:
            others = [name for name in node.finalizers if name != labels.TERMINATION_FINALIZER]
            patch_node(kubernetes, seen, finalizers=others)
        if node.deleted_at is None:
            kubernetes.delete(kinds.NODES, node.name, uid=node.uid)
    except NotFoundError:
        return


def release_node(kubernetes: Kubernetes, seen: ObservedNode) -> None:
    """Remove the marks of a disruption from a node that stays."""
    others = [taint for taint in seen.node.taints if taint.key != DISRUPTED.key]
    metadata: JsonObject = {"resourceVersion": seen.resource_version, "annotations": {REASON_ANNOTATION: None}}
    if seen.node.labels.get(labels.EXCLUDE_FROM_BALANCERS) == EXCLUDED_BY_US:
        metadata["labels"] = {labels.EXCLUDE_FROM_BALANCERS: None}
    body: JsonObject = {"metadata": metadata, "spec": {"taints": [taint.written() for taint in others]}}
    kubernetes.patch(kinds.NODES, seen.node.name, body)
