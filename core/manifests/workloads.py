"""Expands workloads from files to the pods that their controllers would create."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from core.errors import InvalidInputError
from core.manifests.admission import AdmissionNote, PodAdmission, PodQuotas, is_terminating
from core.manifests.wire import resources
from core.manifests.wire.admission import ScaledObject, ScaleTarget
from core.manifests.wire.objects import (
    ClaimSource,
    OwnerReference,
    Volume,
    WireClaimSpec,
    WireClaimTemplate,
    WireMetadata,
    WirePersistentVolumeClaim,
)
from core.manifests.wire.pod import Job, PodTemplate, WirePod, WireWorkload
from core.manifests.wire.resources import Resource
from core.model.values import quantity

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

_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"

_PAUSED: Final = "autoscaling.keda.sh/paused"
_PAUSED_REPLICAS: Final = "autoscaling.keda.sh/paused-replicas"

Owned = tuple[str, str, str]


class Idle(StrEnum):
    """Why a workload makes no more pods."""

    DELETED = "it is being deleted"
    NAMESPACE = "its namespace is being terminated"
    SUSPENDED = "it is suspended"
    PAUSED = "its rollout is paused, and it has no ReplicaSet"
    FINISHED = "it has finished"
    ENDING = "it has met its success criteria"
    FAILING = "it is failing, so its pods are being ended"
    MANAGED_ELSEWHERE = "another controller runs it"


_END_OF_JOB: Final = {
    "Complete": Idle.FINISHED,
    "Failed": Idle.FINISHED,
    "FailureTarget": Idle.FAILING,
    "SuccessCriteriaMet": Idle.ENDING,
}


class Replicas(msgspec.Struct, frozen=True):
    """How many pods a workload should have.

    Attributes:
        field: The field that says so.
        autoscaler: The autoscaler that raises or lowers the number in the workload itself, empty for none.
    """

    count: int
    field: str
    autoscaler: str = ""


class Expansion(msgspec.Struct, frozen=True):
    """The objects that the controller of one workload would create.

    Attributes:
        notes: What admission does to each of the pods.
        autoscaler: The autoscaler that decides how many pods there are, empty for none.
        idle: Why the workload makes no pods, None if it does.
        refused: How many pods are not created, because admission refuses them.
        refusal: Why the first of these is refused.
    """

    resource: Resource
    workload: Any
    pods: tuple[WirePod, ...] = ()
    claims: tuple[WirePersistentVolumeClaim, ...] = ()
    notes: tuple[AdmissionNote, ...] = ()
    autoscaler: str = ""
    idle: Idle | None = None
    refused: int = 0
    refusal: AdmissionNote | None = None

    @property
    def subject(self) -> str:
        """The workload for people: `Deployment shop/web`."""
        return f"{self.resource.kind} {self.workload.metadata.namespace or 'default'}/{self.workload.metadata.name}"


_Wanted = tuple[Resource, Any, Replicas, Idle | None]
Faults = list[tuple[Resource, Any, Exception]]
"""Workloads whose pods cannot be made, each with the reason."""


def expand(
    objects: Mapping[Resource, Iterable[Any]],
    admission: PodAdmission | None = None,
    quotas: PodQuotas | None = None,
    *,
    most: int = EXPANDED_MAX,
    most_per_workload: int = REPLICAS_MAX,
    faults: Faults | None = None,
) -> tuple[Expansion, ...]:
    """Return the pods and volume claims of every workload without pods among `objects`; named `<workload>-<n>`.

    A Deployment among the objects accounts for its ReplicaSets. CronJobs create Jobs at their time, not now.

    Args:
        objects: The objects by kind.
        admission: What the API server makes of pods, by default as these objects set it up.
        quotas: What quotas leave, likewise.
        most: Pods and claims of all workloads together: a few lines of text can ask for millions.
        most_per_workload: Return no more pods of one workload; the others do not count.
        faults: Where to add workloads with a number of replicas that is negative or above `REPLICAS_MAX`, or with a quantity
            that cannot be read. Without it the first raises.

    Raises:
        TooManyPodsError: If the workloads together have more than `most` pods and claims. Nothing is expanded then.
        InvalidInputError: What the first fault is, without `faults`.
    """
    admission = admission or PodAdmission(objects)
    quotas = quotas or PodQuotas(objects)
    existing = {_key("PersistentVolumeClaim", c.metadata) for c in objects.get(resources.PERSISTENT_VOLUME_CLAIMS, ())}
    wanted = _wanted(objects, most_per_workload, faults)
    _refuse_too_many(wanted, most)
    expansions = []
    for resource, workload, replicas, idle in wanted:
        if idle is not None:
            expansions.append(Expansion(resource, workload, idle=idle))
            continue
        with _noted(faults, resource, workload):
            expansions.append(_admitted(_expansion(resource, workload, replicas, existing), admission, quotas))
    return tuple(expansions)


@contextmanager
def _noted(faults: Faults | None, resource: Resource, workload: Any) -> Iterator[None]:
    """Add what the block raises to the faults; without them it is raised."""
    try:
        yield
    except Exception as error:
        if faults is None:
            raise
        faults.append((resource, workload, error))


def _wanted(objects: Mapping[Resource, Iterable[Any]], most_per_workload: int, faults: Faults | None) -> list[_Wanted]:
    """Return the workloads without pods of their own, how many each has, and why one has none now."""
    autoscalers = Autoscalers(objects)
    terminating = {ending.metadata.name for ending in objects.get(resources.NAMESPACES, ()) if is_terminating(ending)}
    populated = _populated(objects)
    deployments = {_key("Deployment", d.metadata) for d in objects.get(resources.DEPLOYMENTS, ())}
    wanted = []
    for resource in EXPANDED:
        for workload in objects.get(resource, ()):
            namespace = workload.metadata.namespace or "default"
            above = {(owner.kind, namespace, owner.name) for owner in workload.metadata.owner_references}
            if _key(resource.kind, workload.metadata) in populated or above & deployments:
                continue
            idle = idle_reason(resource, workload, terminating)
            if resource == resources.DEPLOYMENTS and workload.spec.paused and not has_replica_sets(workload, objects):
                idle = idle or Idle.PAUSED
            with _noted(faults, resource, workload):
                replicas = _checked(resource, workload, autoscalers)
                count = min(most_per_workload, replicas.count)
                wanted.append((resource, workload, replace(replicas, count=count), idle))
    return wanted


def _refuse_too_many(wanted: Iterable[_Wanted], most: int) -> None:
    total = sum(
        replicas.count * (1 + _claims_each(resource, workload))
        for resource, workload, replicas, idle in wanted
        if idle is None
    )
    if total > most:
        raise TooManyPodsError(total, most)


class TooManyPodsError(InvalidInputError):
    """The workloads together have more pods and volume claims than are expanded."""

    def __init__(self, total: int, most: int) -> None:
        super().__init__(f"the workloads have {total} pods and volume claims together, which is more than {most}")


def _claims_each(resource: Resource, workload: Any) -> int:
    return len(workload.spec.volume_claim_templates) if resource == resources.STATEFUL_SETS else 0


def has_replica_sets(deployment: WireWorkload, objects: Mapping[Resource, Iterable[Any]]) -> bool:
    """Whether a Deployment has a ReplicaSet among the objects: without one, a paused Deployment makes none."""
    key = _key("Deployment", deployment.metadata)
    return any(
        key == (owner.kind, replica_set.metadata.namespace or "default", owner.name)
        for replica_set in objects.get(resources.REPLICA_SETS, ())
        for owner in replica_set.metadata.owner_references
    )


def idle_reason(resource: Resource, workload: Any, terminating: Collection[str]) -> Idle | None:
    """Return why a workload makes no more pods, None if it does.

    Args:
        resource: Its kind.
        workload: The workload.
        terminating: Namespaces that are being terminated.
    """
    if workload.metadata.deletion_timestamp is not None:
        return Idle.DELETED
    if (workload.metadata.namespace or "default") in terminating:
        return Idle.NAMESPACE
    return _idle_job(workload) if resource == resources.JOBS else None


def _idle_job(job: Job) -> Idle | None:
    if job.spec.managed_by not in ("", _JOB_CONTROLLER):
        return Idle.MANAGED_ELSEWHERE
    if job.spec.suspend:
        return Idle.SUSPENDED
    true = {condition.type for condition in job.status.conditions if condition.status == "True"}
    ends = next((reason for kind, reason in _END_OF_JOB.items() if kind in true), None)
    if ends is None and job.spec.backoff_limit is not None and job.status.failed > job.spec.backoff_limit:
        return Idle.FAILING
    return ends


def _admitted(expansion: Expansion, admission: PodAdmission, quotas: PodQuotas) -> Expansion:
    """Return the expansion with its pods as the API server would store them, without those that it refuses."""
    if not expansion.pods:
        return expansion
    namespace = expansion.workload.metadata.namespace or "default"
    of_workload = _workload_refusal(expansion, quotas)
    new_claims = {claim.metadata.name: claim.spec for claim in expansion.claims}
    pods: list[WirePod] = []
    notes: tuple[AdmissionNote, ...] = ()
    for pod in expansion.pods:
        admitted = admission.admit(namespace, pod.spec)
        notes = notes or admitted.notes
        refusal = of_workload or _claim_refusal(pod, new_claims, admission, quotas) or admitted.refusal
        refusal = refusal or quotas.refusal(namespace, admitted.spec)
        if refusal is not None:
            # A controller tries the same pod again; a StatefulSet also makes none after it.
            refused = len(expansion.pods) - len(pods)
            claims = _claims_of(pods, expansion.claims)
            return replace(expansion, pods=tuple(pods), claims=claims, notes=notes, refused=refused, refusal=refusal)
        pods.append(replace(pod, spec=admitted.spec))
    return replace(expansion, pods=tuple(pods), notes=notes)


def _workload_refusal(expansion: Expansion, quotas: PodQuotas) -> AdmissionNote | None:
    """Return which quota refuses the workload itself, or a Deployment's ReplicaSet; one that is stored counts already."""
    metadata = expansion.workload.metadata
    if metadata.uid or metadata.creation_timestamp:
        return None
    makes = (resources.REPLICA_SETS,) if expansion.resource == resources.DEPLOYMENTS else ()
    refusals = (quotas.workload_refusal(resource, metadata) for resource in (expansion.resource, *makes))
    return next((refusal for refusal in refusals if refusal is not None), None)


def _claim_refusal(
    pod: WirePod, new_claims: Mapping[str, WireClaimSpec], admission: PodAdmission, quotas: PodQuotas
) -> AdmissionNote | None:
    """Return why one of a pod's new claims cannot be created: its StatefulSet then makes no such pod."""
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes if new_claims else ():
        source = volume.persistent_volume_claim
        claim = new_claims.get(source.claim_name) if source is not None else None
        if claim is not None:
            refusal = admission.claim_refusal(namespace, claim) or quotas.claim_refusal(namespace, claim)
            if refusal is not None:
                return refusal
    return None


def _claims_of(
    pods: Iterable[WirePod], claims: Iterable[WirePersistentVolumeClaim]
) -> tuple[WirePersistentVolumeClaim, ...]:
    used = {
        volume.persistent_volume_claim.claim_name
        for pod in pods
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    }
    return tuple(claim for claim in claims if claim.metadata.name in used)


# Autoscalers that own a workload's number of replicas.


class Autoscalers:
    """The HorizontalPodAutoscalers and KEDA's ScaledObjects of a cluster."""

    def __init__(self, objects: Mapping[Resource, Iterable[Any]]) -> None:
        self._bounds: dict[Owned, tuple[str, int, int | None]] = {}
        self._from_zero: set[Owned] = set()
        for scaled in sorted(objects.get(resources.SCALED_OBJECTS, ()), key=lambda written: written.metadata.name):
            self._add_scaled(scaled)
        for scaler in sorted(
            objects.get(resources.HORIZONTAL_POD_AUTOSCALERS, ()), key=lambda written: written.metadata.name
        ):
            spec = scaler.spec
            self._add(scaler.metadata, spec.scale_target_ref, spec.min_replicas, spec.max_replicas)

    def _add_scaled(self, scaled: ScaledObject) -> None:
        """Add KEDA's bounds. One that is paused keeps a number, its own or the present one; another also leaves zero."""
        spec, annotations = scaled.spec, scaled.metadata.annotations
        paused_at = quantity.whole_number(annotations.get(_PAUSED_REPLICAS, ""))
        if paused_at is not None:
            least = most = paused_at
        elif annotations.get(_PAUSED) == "true":
            return
        else:
            least, most = spec.min_replica_count, spec.max_replica_count
        self._add(scaled.metadata, spec.scale_target_ref, least, most)
        if paused_at is not None or spec.idle_replica_count is None:
            target = spec.scale_target_ref
            self._from_zero.add((target.kind, scaled.metadata.namespace or "default", target.name))

    def _add(self, metadata: WireMetadata, target: ScaleTarget, least: int, most: int | None) -> None:
        key = (target.kind, metadata.namespace or "default", target.name)
        self._bounds.setdefault(key, (metadata.name, least, most))

    def replicas(self, resource: Resource, workload: Any) -> Replicas:
        """Return how many pods a workload has once its autoscaler has looked.

        A HorizontalPodAutoscaler leaves one with zero replicas alone; KEDA does not, unless zero is its number for idle times.
        """
        count, key = workload.spec.replicas, _key(resource.kind, workload.metadata)
        bounds = self._bounds.get(key)
        if bounds is None or count < 0 or (count == 0 and key not in self._from_zero):
            return Replicas(count, "spec.replicas")
        name, least, most = bounds
        scaled = max(count, least) if most is None else min(max(count, least), max(most, least))
        return Replicas(scaled, "spec.replicas", name)


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


def _checked(resource: Resource, workload: Any, autoscalers: Autoscalers) -> Replicas:
    metadata: WireMetadata = workload.metadata
    if not metadata.name:
        raise InvalidInputError("is missing", subject=f"{resource.kind} without a name", field="metadata.name")
    subject = f"{resource.kind} {metadata.namespace or 'default'}/{metadata.name}"
    wanted = _of_job(workload) if resource == resources.JOBS else autoscalers.replicas(resource, workload)
    if not 0 <= wanted.count <= REPLICAS_MAX:
        source = f", as autoscaler {wanted.autoscaler} has it" if wanted.autoscaler else ""
        problem = f"{wanted.count} is not between 0 and {REPLICAS_MAX}{source}"
        raise InvalidInputError(problem, subject=subject, field=wanted.field)
    return wanted


def _expansion(resource: Resource, workload: Any, wanted: Replicas, existing: set[Owned]) -> Expansion:
    if resource == resources.STATEFUL_SETS:
        return _stateful(workload, wanted, existing)
    extra = _LABELS.get(resource, lambda _: {})(workload)
    make = _maker(resource, workload.metadata, workload.spec.template, extra)
    pods = tuple(make(n) for n in range(wanted.count))
    return Expansion(resource, workload, pods, autoscaler=wanted.autoscaler)


def _of_job(job: Job) -> Replicas:
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        # Once a pod has succeeded, the others run to their end and none is made any more.
        return Replicas(0 if parallelism >= 0 and job.status.succeeded else parallelism, "spec.parallelism")
    if job.spec.completions < 0:
        return Replicas(job.spec.completions, "spec.completions")
    return Replicas(min(parallelism, max(0, job.spec.completions - job.status.succeeded)), "spec.parallelism")


def _stateful(workload: WireWorkload, wanted: Replicas, existing: set[Owned]) -> Expansion:
    metadata, spec = workload.metadata, workload.spec
    pods, claims = [], []
    for n in range(spec.ordinals.start, spec.ordinals.start + wanted.count):
        template = replace(spec.template, spec=replace(spec.template.spec))
        made = {claim.metadata.name: _claim_of(claim, metadata, n) for claim in spec.volume_claim_templates}
        kept = [volume for volume in spec.template.spec.volumes if volume.name not in made]
        claimed = [Volume(name, ClaimSource(claim.metadata.name)) for name, claim in sorted(made.items())]
        template.spec.volumes = (*kept, *claimed)
        claims += [c for c in made.values() if _key("PersistentVolumeClaim", c.metadata) not in existing]
        extra = {"apps.kubernetes.io/pod-index": str(n), "statefulset.kubernetes.io/pod-name": f"{metadata.name}-{n}"}
        pods.append(_maker(resources.STATEFUL_SETS, metadata, template, extra)(n))
    return Expansion(resources.STATEFUL_SETS, workload, tuple(pods), tuple(claims), autoscaler=wanted.autoscaler)


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
        return WirePod(metadata, replace(template.spec))

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
