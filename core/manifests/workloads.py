"""Expands workloads from files to the pods that their controllers would create."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from core.manifests.wire import resources
from core.manifests.wire.objects import (
    ClaimSource,
    OwnerReference,
    Volume,
    WireClaimTemplate,
    WireMetadata,
    WirePersistentVolumeClaim,
)
from core.manifests.wire.pod import Job, PodTemplate, WirePod, WireWorkload
from core.manifests.wire.resources import Resource

EXPANDED: Final = (
    resources.DEPLOYMENTS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.JOBS,
    resources.REPLICATION_CONTROLLERS,
)
REPLICAS_MAX: Final = 200_000
"""The most pods of one workload: a larger number is a typing error."""

EXPANDED_MAX: Final = 200_000
"""The most pods and volume claims of all workloads of one input."""

_TEMPLATE_HASH: Final = "pod-template-hash"

Owned = tuple[str, str, str]


class Expansion(msgspec.Struct, frozen=True):
    """The objects that the controller of one workload would create."""

    resource: Resource
    workload: Any
    pods: tuple[WirePod, ...]
    claims: tuple[WirePersistentVolumeClaim, ...] = ()


def expand(
    objects: Mapping[Resource, Iterable[Any]], *, most: int = EXPANDED_MAX, each: int = REPLICAS_MAX
) -> tuple[Expansion, ...]:
    """Return the pods and volume claims of every workload without pods among `objects`; named `<workload>-<n>`.

    A Deployment among the objects accounts for its ReplicaSets. CronJobs create Jobs at their time, not now.

    Args:
        objects: The objects by kind.
        most: Pods and claims of all workloads together: a few lines of text can ask for millions.
        each: Return no more pods of one workload; the others do not count.

    Raises:
        TooManyPodsError: If the workloads together have more than `most` pods and claims. Nothing is expanded then.
        InvalidInputError: If a number of replicas is negative or above `REPLICAS_MAX`.
    """
    populated = _populated(objects)
    deployments = {_key("Deployment", d.metadata) for d in objects.get(resources.DEPLOYMENTS, ())}
    existing = {_key("PersistentVolumeClaim", c.metadata) for c in objects.get(resources.PERSISTENT_VOLUME_CLAIMS, ())}
    wanted = []
    for resource in EXPANDED:
        for workload in objects.get(resource, ()):
            namespace = workload.metadata.namespace or "default"
            above = {(owner.kind, namespace, owner.name) for owner in workload.metadata.owner_references}
            if _key(resource.kind, workload.metadata) in populated or above & deployments:
                continue
            wanted.append((resource, workload, min(each, _checked_count(resource, workload))))
    total = sum(count * (1 + _claims_each(resource, workload)) for resource, workload, count in wanted)
    if total > most:
        raise TooManyPodsError(total, most)
    return tuple(_expansion(resource, workload, count, existing) for resource, workload, count in wanted)


class TooManyPodsError(InvalidInputError):
    """The workloads together have more pods and volume claims than are expanded."""

    def __init__(self, total: int, most: int) -> None:
        super().__init__(f"the workloads have {total} pods and volume claims together, which is more than {most}")


def _claims_each(resource: Resource, workload: Any) -> int:
    return len(workload.spec.volume_claim_templates) if resource == resources.STATEFUL_SETS else 0


def _populated(objects: Mapping[Resource, Iterable[Any]]) -> set[Owned]:
    """Return workloads that have pods, directly or through a ReplicaSet; a Deployment is also recognized by the pods' hash."""
    direct: set[Owned] = set()
    for pod in objects.get(resources.PODS, ()):
        namespace = pod.metadata.namespace or "default"
        template_hash = pod.metadata.labels.get(_TEMPLATE_HASH)
        for owner in pod.metadata.owner_references:
            direct.add((owner.kind, namespace, owner.name))
            if owner.kind == "ReplicaSet" and template_hash and owner.name.endswith(f"-{template_hash}"):
                direct.add(("Deployment", namespace, owner.name.removesuffix(f"-{template_hash}")))
    through = {
        (owner.kind, replica_set.metadata.namespace or "default", owner.name)
        for replica_set in objects.get(resources.REPLICA_SETS, ())
        if _key("ReplicaSet", replica_set.metadata) in direct
        for owner in replica_set.metadata.owner_references
    }
    return direct | through


def _key(kind: str, metadata: WireMetadata) -> Owned:
    return kind, metadata.namespace or "default", metadata.name


def _checked_count(resource: Resource, workload: Any) -> int:
    metadata: WireMetadata = workload.metadata
    if not metadata.name:
        raise InvalidInputError("is missing", subject=f"{resource.kind} without a name", field="metadata.name")
    subject = f"{resource.kind} {metadata.namespace or 'default'}/{metadata.name}"
    wanted, field = _wanted(resource, workload)
    if not 0 <= wanted <= REPLICAS_MAX:
        raise InvalidInputError(f"{wanted} is not between 0 and {REPLICAS_MAX}", subject=subject, field=field)
    return wanted


def _expansion(resource: Resource, workload: Any, wanted: int, existing: set[Owned]) -> Expansion:
    if resource == resources.STATEFUL_SETS:
        return _stateful(workload, wanted, existing)
    extra = _LABELS.get(resource, lambda _: {})(workload)
    make = _maker(resource, workload.metadata, workload.spec.template, extra)
    return Expansion(resource, workload, tuple(make(n) for n in range(wanted)))


def _wanted(resource: Resource, workload: Any) -> tuple[int, str]:
    if resource != resources.JOBS:
        return workload.spec.replicas, "spec.replicas"
    job: Job = workload
    if job.spec.suspend or any(c.type in ("Complete", "Failed") and c.status == "True" for c in job.status.conditions):
        return 0, "spec.suspend"
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return parallelism, "spec.parallelism"
    if job.spec.completions < 0:
        return job.spec.completions, "spec.completions"
    return min(parallelism, max(0, job.spec.completions - job.status.succeeded)), "spec.parallelism"


def _stateful(workload: WireWorkload, wanted: int, existing: set[Owned]) -> Expansion:
    metadata, spec = workload.metadata, workload.spec
    pods, claims = [], []
    for n in range(spec.ordinals.start, spec.ordinals.start + wanted):
        template = msgspec.structs.replace(spec.template, spec=msgspec.structs.replace(spec.template.spec))
        made = {claim.metadata.name: _claim_of(claim, metadata, n) for claim in spec.volume_claim_templates}
        kept = [volume for volume in spec.template.spec.volumes if volume.name not in made]
        claimed = [Volume(name, ClaimSource(claim.metadata.name)) for name, claim in sorted(made.items())]
        template.spec.volumes = (*kept, *claimed)
        claims += [c for c in made.values() if _key("PersistentVolumeClaim", c.metadata) not in existing]
        extra = {"apps.kubernetes.io/pod-index": str(n), "statefulset.kubernetes.io/pod-name": f"{metadata.name}-{n}"}
        pods.append(_maker(resources.STATEFUL_SETS, metadata, template, extra)(n))
    return Expansion(resources.STATEFUL_SETS, workload, tuple(pods), tuple(claims))


def _claim_of(template: WireClaimTemplate, owner: WireMetadata, n: int) -> WirePersistentVolumeClaim:
    metadata = WireMetadata(
        name=f"{template.metadata.name}-{owner.name}-{n}",
        namespace=owner.namespace or "default",
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
    )
    return WirePersistentVolumeClaim(metadata, template.spec)


def _maker(
    resource: Resource, owner: WireMetadata, template: PodTemplate, extra: Mapping[str, str]
) -> Callable[[int], WirePod]:
    reference = OwnerReference(resource.kind, owner.name, resource.api_version, owner.uid, controller=True)
    pod_labels = {**template.metadata.labels, **extra}

    def make(n: int) -> WirePod:
        metadata = WireMetadata(
            name=f"{owner.name}-{n}",
            namespace=owner.namespace or "default",
            labels=pod_labels,
            annotations=template.metadata.annotations,
            owner_references=(reference,),
            creation_timestamp=owner.creation_timestamp,
        )
        return WirePod(metadata, msgspec.structs.replace(template.spec))

    return make


def _hash_label(workload: WireWorkload) -> dict[str, str]:
    """Return the label that distinguishes the pods of one template from others, like the Deployment controller's."""
    return {_TEMPLATE_HASH: format(zlib.crc32(msgspec.msgpack.encode(workload.spec.template)), "08x")}


def _job_labels(job: Job) -> dict[str, str]:
    return {"batch.kubernetes.io/job-name": job.metadata.name, "job-name": job.metadata.name}


_LABELS: Final[Mapping[Resource, Callable[[Any], dict[str, str]]]] = {
    resources.DEPLOYMENTS: _hash_label,
    resources.JOBS: _job_labels,
}
