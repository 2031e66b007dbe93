"""CapacityBuffers: wire → model, with their references resolved (Karpenter 1.14, as the Cluster Autoscaler does).

How many pods: the larger of `replicas` and `percentage` of the workload, at most what `limits` have room for; with neither,
as many as fit the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.manifests.wire.buffer import ACTIVE_CAPACITY, CapacityBufferSpec, ScalableReference, WireCapacityBuffer
from core.manifests.wire.pod import PodTemplate
from core.model import overlay
from core.model.pod import PodSpec
from core.model.values import resources

SCALABLE: Final = {
    "Deployment": kinds.DEPLOYMENTS,
    "ReplicaSet": kinds.REPLICA_SETS,
    "StatefulSet": kinds.STATEFUL_SETS,
}
"""The kinds that a `scalableRef` may name, all of group `apps`."""

PODS_MAX: Final = 100_000
"""Bound on one buffer's pods: more is a slip of the hand, not spare room."""

VIRTUAL_PRIORITY: Final = -(2**31)
"""Of the pods that stand for a buffer (Karpenter)."""


class NotForUsError(InvalidInputError):
    """The buffer is well formed, and there is nothing to keep free for it now."""


class BufferTranslator:
    """Translates the CapacityBuffers of one cluster at one moment.

    Args:
        objects: Where the templates and workloads are found that buffers name.
        pods: Translates their pods.
    """

    def __init__(self, objects: Mapping[Resource, Iterable[Any]], pods: PodTranslator) -> None:
        self._pods = pods
        self._found = {
            (kind, obj.metadata.namespace or "default", obj.metadata.name): obj
            for kind in (kinds.POD_TEMPLATES, *SCALABLE.values())
            for obj in objects.get(kind, ())
        }

    def buffer(self, written: WireCapacityBuffer) -> overlay.CapacityBuffer:
        """One buffer.

        Raises:
            NotForUsError: If what it names is not there, or its strategy is not ours to carry out.
            InvalidInputError: If a field cannot be understood.
        """
        metadata, spec = written.metadata, written.spec
        _check(spec)
        namespace = metadata.namespace or "default"
        template, field, size = self._template(spec, namespace)
        shape = msgspec.structs.replace(
            self._pods.spec(template.spec, field=field), volumes=(), priority=VIRTUAL_PRIORITY
        )
        wanted = _wanted(spec, size)
        room = _room(spec, shape)
        count = min((n for n in (wanted, room) if n is not None), default=0)
        if count > PODS_MAX:
            raise InvalidInputError(f"{count} pods are more than {PODS_MAX}", field="spec.replicas")
        return overlay.CapacityBuffer(
            namespace=namespace,
            name=metadata.name,
            uid=metadata.uid,
            pods=count,
            labels=template.metadata.labels,
            spec=shape,
        )

    def _template(self, spec: CapacityBufferSpec, namespace: str) -> tuple[PodTemplate, str, int]:
        """The pods' template, its path in the object that has it, and that object's replicas."""
        if spec.scalable_ref is not None:
            kind, name = spec.scalable_ref.kind, spec.scalable_ref.name
            workload = self._named(_kind_of(spec.scalable_ref), namespace, name, field="spec.scalableRef.name")
            return workload.spec.template, f"{kind} {name}: spec.template.spec", workload.spec.replicas
        if spec.pod_template_ref is not None:
            name = spec.pod_template_ref.name
            found = self._named(kinds.POD_TEMPLATES, namespace, name, field="spec.podTemplateRef.name")
            return found.template, f"PodTemplate {name}: template.spec", 0
        raise NotForUsError("names neither podTemplateRef nor scalableRef", field="spec")

    def _named(self, resource: Resource, namespace: str, name: str, *, field: str) -> Any:
        found = self._found.get((resource, namespace, name))
        if found is None:
            raise NotForUsError(f"there is no {resource.kind} {namespace}/{name}", field=field)
        return found


def _check(spec: CapacityBufferSpec) -> None:
    """The rules of the API's schema, then what only we cannot do."""
    for value, field in ((spec.replicas, "spec.replicas"), (spec.percentage, "spec.percentage")):
        if value is not None and value < 0:
            raise InvalidInputError(f"{value} is less than zero", field=field)
    if spec.pod_template_ref is not None and spec.scalable_ref is not None:
        raise InvalidInputError("cannot stand beside podTemplateRef: keep one of them", field="spec.scalableRef")
    if spec.pod_template_ref is not None and spec.replicas is None and spec.limits is None:
        raise InvalidInputError("replicas or limits must say how much room to keep", field="spec.replicas")
    if spec.provisioning_strategy != ACTIVE_CAPACITY:
        problem = f"{spec.provisioning_strategy!r} is not carried out here, only {ACTIVE_CAPACITY}"
        raise NotForUsError(problem, field="spec.provisioningStrategy")


def _kind_of(reference: ScalableReference) -> Resource:
    known = SCALABLE.get(reference.kind)
    if known is None or reference.api_group not in ("", known.group):
        named = f"{reference.kind}.{reference.api_group}" if reference.api_group else reference.kind
        raise InvalidInputError(f"{named} is none of {', '.join(SCALABLE)} of apps", field="spec.scalableRef.kind")
    return known


def _wanted(spec: CapacityBufferSpec, size: int) -> int | None:
    """What replicas and percentage ask for; None where neither does."""
    wanted = [] if spec.replicas is None else [spec.replicas]
    if spec.percentage is not None and spec.scalable_ref is not None:
        wanted.append(-(-size * spec.percentage // 100))
    return max(wanted, default=None)


def _room(spec: CapacityBufferSpec, shape: PodSpec) -> int | None:
    """How many such pods fit the limits; None where no limit speaks of anything that they request."""
    limits = resources.parse(spec.limits or {}, field="spec.limits")
    fitting = [limit // amount for name, limit in limits.items() if (amount := shape.requests.get(name, 0)) > 0]
    return min(fitting, default=None)


def needed_kinds(buffers: Iterable[WireCapacityBuffer]) -> tuple[Resource, ...]:
    """The kinds that these buffers name objects of."""
    found = {kinds.POD_TEMPLATES for buffer in buffers if buffer.spec.pod_template_ref is not None}
    references = (buffer.spec.scalable_ref for buffer in buffers)
    found |= {SCALABLE[r.kind] for r in references if r is not None and r.kind in SCALABLE}
    return tuple(sorted(found))
