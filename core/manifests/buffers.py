"""Translates CapacityBuffers from wire to model, with their references resolved (Karpenter 1.14, as in the Cluster Autoscaler).

A buffer has the larger number of `replicas` and `percentage` of the workload, but no more pods than fit `limits`; with
neither, as many as fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from core.manifests.admission import PodAdmission
from core.manifests.pods import PodTranslator
from core.manifests.wire import resources
from core.manifests.wire.objects import (
    ACTIVE_CAPACITY,
    CapacityBufferSpec,
    ScalableReference,
    WireCapacityBuffer,
)
from core.manifests.wire.pod import PodTemplate
from core.manifests.wire.resources import Resource
from core.model.pod import PodSpec
from core.model.snapshot import VIRTUAL_PRIORITY, CapacityBuffer
from core.model.values import quantity

SCALABLE: Final = {
    "Deployment": resources.DEPLOYMENTS,
    "ReplicaSet": resources.REPLICA_SETS,
    "StatefulSet": resources.STATEFUL_SETS,
}
"""The kinds that a `scalableRef` may name, all of group `apps`."""

PODS_MAX: Final = 100_000
"""The most pods of one buffer: a larger number is a typing error."""


class NotForUsError(InvalidInputError):
    """The buffer is valid, but no room can be kept free for it now."""


class Templates:
    """The PodTemplates and workloads of one cluster at one moment, and the pods that the API server would make of them.

    Args:
        objects: The objects among which templates and workloads are named.
        pods: Translates their pods.
        admission: Makes pods of templates, by default as the objects set it up.
    """

    def __init__(
        self, objects: Mapping[Resource, Iterable[Any]], pods: PodTranslator, admission: PodAdmission | None = None
    ) -> None:
        self._pods = pods
        self._admission = admission or PodAdmission(objects)
        self._objects = {
            (kind, obj.metadata.namespace or "default", obj.metadata.name): obj
            for kind in (resources.POD_TEMPLATES, *SCALABLE.values())
            for obj in objects.get(kind, ())
        }

    def named(self, resource: Resource, namespace: str, name: str, *, field: str) -> Any:
        """Return an object. Raises NotForUsError if there is none of that name."""
        obj = self._objects.get((resource, namespace, name))
        if obj is None:
            raise NotForUsError(f"there is no {resource.kind} {namespace}/{name}", field=field)
        return obj

    def spec(self, namespace: str, template: PodTemplate, field: str) -> PodSpec:
        """Return a template's pod. Raises NotForUsError if the API server would not create it."""
        admitted = self._admission.admit(namespace, template.spec)
        if admitted.refusal is not None:
            raise NotForUsError(f"no such pod would be created: {admitted.refusal}", field=field)
        return self._pods.spec(admitted.spec, field=field)


class BufferTranslator(Templates):
    """Translates the CapacityBuffers of one cluster at one moment."""

    def buffer(self, written: WireCapacityBuffer) -> CapacityBuffer:
        """One buffer.

        Raises:
            NotForUsError: If it names a missing object, or a strategy that we do not implement.
            InvalidInputError: If a field cannot be understood.
        """
        metadata, spec = written.metadata, written.spec
        _check(spec)
        namespace = metadata.namespace or "default"
        template, field, size = self._template(spec, namespace)
        shape = msgspec.structs.replace(self.spec(namespace, template, field), volumes=(), priority=VIRTUAL_PRIORITY)
        wanted = _wanted(spec, size)
        room = _room(spec, shape)
        count = min((n for n in (wanted, room) if n is not None), default=0)
        if count > PODS_MAX:
            raise InvalidInputError(f"{count} pods are more than {PODS_MAX}", field="spec.replicas")
        return CapacityBuffer(
            namespace=namespace,
            name=metadata.name,
            uid=metadata.uid,
            pods=count,
            labels=template.metadata.labels,
            spec=shape,
        )

    def _template(self, spec: CapacityBufferSpec, namespace: str) -> tuple[PodTemplate, str, int]:
        """Return the pods' template, its path in the object, and the object's replicas."""
        if spec.scalable_ref is not None:
            kind, name = spec.scalable_ref.kind, spec.scalable_ref.name
            workload = self.named(_kind_of(spec.scalable_ref), namespace, name, field="spec.scalableRef.name")
            return workload.spec.template, f"{kind} {name}: spec.template.spec", workload.spec.replicas
        if spec.pod_template_ref is not None:
            name = spec.pod_template_ref.name
            template = self.named(resources.POD_TEMPLATES, namespace, name, field="spec.podTemplateRef.name")
            return template.template, f"PodTemplate {name}: template.spec", 0
        raise NotForUsError("names neither podTemplateRef nor scalableRef", field="spec")


def _check(spec: CapacityBufferSpec) -> None:
    """Check the rules of the API's schema, then our own restrictions."""
    for value, field in ((spec.replicas, "spec.replicas"), (spec.percentage, "spec.percentage")):
        if value is not None and value < 0:
            raise InvalidInputError(f"{value} is less than zero", field=field)
    if spec.pod_template_ref is not None and spec.scalable_ref is not None:
        raise InvalidInputError("cannot be combined with podTemplateRef: keep one of them", field="spec.scalableRef")
    if spec.pod_template_ref is not None and spec.replicas is None and spec.limits is None:
        raise InvalidInputError("replicas or limits must state how much room to keep", field="spec.replicas")
    if spec.provisioning_strategy != ACTIVE_CAPACITY:
        problem = f"{spec.provisioning_strategy!r} is not supported, only {ACTIVE_CAPACITY}"
        raise NotForUsError(problem, field="spec.provisioningStrategy")


def _kind_of(reference: ScalableReference) -> Resource:
    known = SCALABLE.get(reference.kind)
    if known is None or reference.api_group not in ("", known.group):
        named = f"{reference.kind}.{reference.api_group}" if reference.api_group else reference.kind
        raise InvalidInputError(f"{named} is none of {', '.join(SCALABLE)} of apps", field="spec.scalableRef.kind")
    return known


def _wanted(spec: CapacityBufferSpec, size: int) -> int | None:
    """Return the pods that replicas and percentage request; None if neither is set."""
    wanted = [] if spec.replicas is None else [spec.replicas]
    if spec.percentage is not None and spec.scalable_ref is not None:
        wanted.append(-(-size * spec.percentage // 100))
    return max(wanted, default=None)


def _room(spec: CapacityBufferSpec, shape: PodSpec) -> int | None:
    """Return how many such pods fit the limits; None if the limits name no resource that they request."""
    limits = quantity.parse_resources(spec.limits or {}, field="spec.limits")
    fitting = [limit // amount for name, limit in limits.items() if (amount := shape.requests.get(name, 0)) > 0]
    return min(fitting, default=None)


def needed_kinds(buffers: Iterable[WireCapacityBuffer]) -> tuple[Resource, ...]:
    """Return the kinds of the objects that these buffers name."""
    kinds = {resources.POD_TEMPLATES for buffer in buffers if buffer.spec.pod_template_ref is not None}
    references = (buffer.spec.scalable_ref for buffer in buffers)
    kinds |= {SCALABLE[r.kind] for r in references if r is not None and r.kind in SCALABLE}
    return tuple(sorted(kinds))
