"""Pods that are not in the cluster yet: those of CapacityBuffers, and the one that comes when a pod goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.manifests.admission import PodAdmission
from core.manifests.pods import PodTranslator, is_infeasible
from core.manifests.wire import resources
from core.manifests.wire.objects import (
    ACTIVE_CAPACITY,
    CapacityBufferSpec,
    ClaimSource,
    OwnerReference,
    ScalableReference,
    Volume,
    WireCapacityBuffer,
)
from core.manifests.wire.pod import Container, PodTemplate, Resources, WirePod, WirePodSpec, WireWorkload
from core.manifests.wire.resources import Resource
from core.model.pod import Pod, PodSpec, Successor
from core.model.snapshot import VIRTUAL_PRIORITY, CapacityBuffer
from core.model.values import quantity

# Translates CapacityBuffers from wire to model, with their references resolved (Karpenter 1.14, as in the Cluster Autoscaler).
#
# A buffer has the larger number of `replicas` and `percentage` of the workload, but no more pods than fit `limits`; with
# neither, as many as fit.


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
    resource = SCALABLE.get(reference.kind)
    if resource is None or reference.api_group not in ("", resource.group):
        named = f"{reference.kind}.{reference.api_group}" if reference.api_group else reference.kind
        raise InvalidInputError(f"{named} is none of {', '.join(SCALABLE)} of apps", field="spec.scalableRef.kind")
    return resource


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


# The pod that comes when a pod goes: its controller's present template, as the API server would store it.
#
# The successor has what the template states. What only the running pod has stays: containers and fields that a webhook added,
# and amounts that the template leaves open. A pod of an older revision of its StatefulSet is followed by one of the new
# template, unless the partition of the rollout keeps its ordinal at the old one. Sizes that a VerticalPodAutoscaler gave the
# pod when it was created stay, since it gives them to the next one, too; sizes that the pod got later, in place, do not.


_CONTROLLERS: Final = (
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.REPLICATION_CONTROLLERS,
    resources.JOBS,
)
_ON_DELETE: Final = "OnDelete"
_REVISION: Final = "controller-revision-hash"
_TEMPLATE_HASH: Final = "pod-template-hash"
_GIVEN_BY_CONTROLLERS: Final[tuple[str, ...]] = (
    "apps.kubernetes.io/pod-index",
    "statefulset.kubernetes.io/pod-name",
    _TEMPLATE_HASH,
)


class Successors:
    """The successors of one cluster's pods, where they differ from the pods.

    Args:
        objects: The objects among which pods name their controllers; a pod whose controller is missing has a successor like it.
        admission: Makes pods of templates.
        pods: Translates them.
    """

    def __init__(self, objects: Mapping[Resource, Iterable[Any]], admission: PodAdmission, pods: PodTranslator) -> None:
        self._admission = admission
        self._pods = pods
        self._owners = {
            (resource.kind, obj.metadata.namespace or "default", obj.metadata.name): obj
            for resource in _CONTROLLERS
            for obj in objects.get(resource, ())
        }
        self._deployments = {
            (obj.metadata.namespace or "default", obj.metadata.name): obj
            for obj in objects.get(resources.DEPLOYMENTS, ())
        }
        self._specs: dict[tuple[int, int, bool], tuple[object, object, WirePodSpec]] = {}

    def of(self, pod: WirePod, translated: Pod) -> Successor | None:
        """Return what follows a pod; None for a pod like it, also if the template cannot be read."""
        reference = next((owner for owner in pod.metadata.owner_references if owner.controller), None)
        if reference is None or pod.unreadable:
            return None
        template, is_revised = self._template_of(pod, reference)
        if template is None:
            return self._at_full_size(pod, translated)
        try:
            coming = self._successor(pod, template, is_revised=is_revised)
        except InvalidInputError:
            return None
        if coming is None or (coming.labels == translated.labels and coming.spec == translated.spec):
            return None
        return coming

    def _at_full_size(self, pod: WirePod, translated: Pod) -> Successor | None:
        """Return a pod like one whose resize its node cannot grant: another node may, so the next pod asks for all of it."""
        if not is_infeasible(pod.status):
            return None
        requests = quantity.maximum([translated.spec.requests, self._pods.spec(pod.spec).requests])
        if requests == translated.spec.requests:
            return None
        spec = msgspec.structs.replace(translated.spec, requests=requests)
        return Successor(labels=translated.labels, spec=spec)

    def _template_of(self, pod: WirePod, reference: OwnerReference) -> tuple[PodTemplate | None, bool]:
        """Return the template that the pod's controller uses next, and whether the pod is of another one."""
        namespace = pod.metadata.namespace or "default"
        owner = self._owners.get((reference.kind, namespace, reference.name))
        if owner is None:
            own_hash = pod.metadata.labels.get(_TEMPLATE_HASH, "")
            name = reference.name.removesuffix(f"-{own_hash}") if own_hash else reference.name
            owner = self._deployments.get((namespace, name)) if reference.kind == "ReplicaSet" else None
        if owner is None:
            return None, False
        if reference.kind != resources.STATEFUL_SETS.kind:
            return owner.spec.template, False
        if _keeps_revision(owner, pod):
            return None, False
        revision = owner.status.update_revision
        return owner.spec.template, bool(revision) and pod.metadata.labels.get(_REVISION, revision) != revision

    def _successor(self, pod: WirePod, template: PodTemplate, *, is_revised: bool) -> Successor | None:
        admitted = self._admission.admit(pod.metadata.namespace or "default", template.spec)
        if admitted.refusal is not None:
            return None
        keeps_sizes = labels.VPA_UPDATES in pod.metadata.annotations and not is_revised
        spec = pod.spec if keeps_sizes else self._next_spec(pod, admitted.spec, is_revised=is_revised)
        follows = pod.metadata.labels
        if is_revised:
            kept = {key: follows[key] for key in _GIVEN_BY_CONTROLLERS if key in follows}
            follows = {**template.metadata.labels, **kept}
        return Successor(labels=follows, spec=self._pods.spec(spec))

    def _next_spec(self, pod: WirePod, template: WirePodSpec, *, is_revised: bool) -> WirePodSpec:
        """Return the next pod's spec; one object for equal questions, so that it is translated once."""
        if is_revised:  # the claims of its ordinal differ
            return _revised(pod, template)
        key = (id(template), id(pod.spec), is_revised)
        cached = self._specs.get(key)  # both are kept, so no other objects have their identities
        if cached is None:
            cached = self._specs[key] = template, pod.spec, _resized(pod.spec, template)
        return cached[2]


def _keeps_revision(owner: WireWorkload, pod: WirePod) -> bool:
    """Whether a StatefulSet makes a pod of this ordinal from its current revision, which only its old pods show."""
    if owner.spec.update_strategy.type == _ON_DELETE:
        return False
    ordinal = quantity.whole_number(pod.metadata.name.rpartition("-")[2])
    first_updated = owner.spec.ordinals.start + owner.spec.update_strategy.rolling_update.partition
    return ordinal is not None and ordinal < first_updated


def _resized(spec: WirePodSpec, template: WirePodSpec) -> WirePodSpec:
    """Return the pod's spec with the sizes that its template states."""
    stated = {container.name: container for container in (*template.containers, *template.init_containers)}

    def sized(container: Container) -> Container:
        by = stated.get(container.name)
        if by is None or by.resources == container.resources:
            return container
        current, next_ = container.resources, by.resources
        merged = Resources(
            requests={**current.requests, **next_.limits, **next_.requests}, limits={**current.limits, **next_.limits}
        )
        return msgspec.structs.replace(container, resources=merged)

    containers, inits = tuple(map(sized, spec.containers)), tuple(map(sized, spec.init_containers))
    if containers == spec.containers and inits == spec.init_containers and template.resources in (None, spec.resources):
        return spec
    level = template.resources if template.resources is not None else spec.resources
    return msgspec.structs.replace(spec, containers=containers, init_containers=inits, resources=level)


def _revised(pod: WirePod, template: WirePodSpec) -> WirePodSpec:
    """Return the pod of another revision: the template, with what webhooks injected, and the volumes of its ordinal."""
    named = {container.name for container in (*template.containers, *template.init_containers)}
    volumes = [volume for volume in template.volumes if volume.persistent_volume_claim or volume.ephemeral]
    present = {volume.name for volume in volumes}
    suffix = f"-{pod.metadata.name}"
    claimed = [
        Volume(volume.name, ClaimSource(volume.persistent_volume_claim.claim_name))
        for volume in pod.spec.volumes
        if volume.name not in present
        and volume.persistent_volume_claim is not None
        and volume.persistent_volume_claim.claim_name.endswith(suffix)
    ]
    return msgspec.structs.replace(
        template,
        containers=(*template.containers, *(added for added in pod.spec.containers if added.name not in named)),
        init_containers=(
            *template.init_containers,
            *(added for added in pod.spec.init_containers if added.name not in named),
        ),
        volumes=(*volumes, *claimed),
        priority=pod.spec.priority if template.priority is None and not template.priority_class_name else None,
    )
