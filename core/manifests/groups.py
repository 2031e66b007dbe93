"""Translates the objects that say how pods start together, from wire to model.

They are PodGroups and Workloads of Kubernetes (1.35 to 1.37), PodGroups of Volcano and of the coscheduling plugin,
LeaderWorkerSets (0.9), JobSets (0.12), and ProvisioningRequests, of whose pods none exists yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.manifests.admission import PodAdmission
from core.manifests.expected_pods import NotForUsError, Templates
from core.manifests.pods import PodTranslator
from core.manifests.wire import pod as wire
from core.manifests.wire import resources
from core.manifests.wire.objects import (
    OwnerReference,
    SelectorExpression,
    WireCondition,
    WireLabelSelector,
    WireMetadata,
    WireProvisioningRequest,
)
from core.manifests.wire.pod import PodTemplate, WirePod
from core.manifests.wire.resources import Resource
from core.model.pod import GroupObject, GroupSource, MemberTemplate
from core.model.snapshot import ProvisioningRequest, RequestedPods
from core.model.values.quantity import in_calendar
from core.model.values.requirements import Requirement
from core.provisioning_requests import (
    BOOKING_EXPIRED,
    CAPACITY_BLOCK,
    CAPACITY_REVOKED,
    CHECK_CAPACITY,
    CLASSES,
    DETAIL,
    FAILED,
    PROVISIONED,
    RESERVATION,
    VALID_FOR,
    is_served,
)
from core.reasons.groups import RequestReason

MEMBERS_MAX: Final = 5_000
"""The most members of one group: a larger number is a typing error, and each would be planned."""

LEADER: Final = "leader"
WORKER: Final = "worker"


class GroupTranslator:
    """Translates the group objects of one cluster at one moment.

    Args:
        pods: Translates the pods of their templates.
        admission: Makes pods of templates.
    """

    def __init__(self, pods: PodTranslator, admission: PodAdmission) -> None:
        self._pods = pods
        self._admission = admission

    def groups(self, resource: Resource, obj: Any) -> tuple[GroupObject, ...]:
        """Return the groups that an object defines: several of a Workload, otherwise one.

        Raises:
            InvalidInputError: If a field cannot be understood.
        """
        read: Mapping[Resource, Callable[[Any], Iterable[GroupObject]]] = {
            resources.POD_GROUPS: _pod_group,
            resources.WORKLOADS: _workload,
            resources.VOLCANO_POD_GROUPS: lambda written: _min_member(GroupSource.VOLCANO, written),
            resources.COSCHEDULING_POD_GROUPS: lambda written: _min_member(GroupSource.COSCHEDULING, written),
            resources.LEADER_WORKER_SETS: self._leader_worker_set,
            resources.JOB_SETS: self._job_set,
        }
        return tuple(read[resource](obj))

    def _leader_worker_set(self, written: wire.LeaderWorkerSet) -> Iterator[GroupObject]:
        spec, where = written.spec.leader_worker_template, "spec.leaderWorkerTemplate"
        size = _count(spec.size, f"{where}.size")
        first = spec.leader_template or spec.worker_template
        leader = self._member(written.metadata, first, LEADER, f"{where}.leaderTemplate")
        worker = self._member(written.metadata, spec.worker_template, WORKER, f"{where}.workerTemplate")
        templates = (leader, msgspec.structs.replace(worker, pods=size - 1)) if size > 1 else (leader,)
        key = written.metadata.annotations.get(labels.LEADER_WORKER_TOPOLOGY)
        group_object = _object(GroupSource.LEADER_WORKER_SET, written.metadata, size)
        yield msgspec.structs.replace(group_object, topology_keys=_keys(key), templates=templates)

    def _job_set(self, written: wire.JobSet) -> Iterator[GroupObject]:
        templates = []
        for i, part in enumerate(written.spec.replicated_jobs):
            where, job = f"spec.replicatedJobs[{i}]", part.template.spec
            pods = _count(job.parallelism, f"{where}.template.spec.parallelism")
            if job.completions is not None:
                pods = min(pods, _count(job.completions, f"{where}.template.spec.completions"))
            member = self._member(written.metadata, job.template, part.name, f"{where}.template.spec.template")
            jobs = _count(part.replicas, f"{where}.replicas")
            templates.append(msgspec.structs.replace(member, jobs=jobs, pods=pods))
        total = _count(sum(member.jobs * member.pods for member in templates), "spec.replicatedJobs")
        key = written.metadata.annotations.get(labels.JOB_SET_TOPOLOGY)
        yield msgspec.structs.replace(
            _object(GroupSource.JOB_SET, written.metadata, total),
            topology_keys=_keys(key),
            starts_in_order=written.spec.startup_policy.startup_policy_order == "InOrder",
            templates=tuple(templates),
        )

    def _member(self, owner: WireMetadata, template: PodTemplate, part: str, field: str) -> MemberTemplate:
        """Return the pod that the API server would make of a template."""
        admitted = self._admission.admit(owner.namespace or "default", template.spec)
        spec = self._pods.spec(admitted.spec, field=f"{field}.spec")
        return MemberTemplate(part=part, labels=template.metadata.labels, spec=spec)


def needed_kinds(pods: Iterable[WirePod]) -> tuple[Resource, ...]:
    """Return the kinds of the objects that say how these pods start together; none for nearly all clusters."""
    kinds: set[Resource] = set()
    for pod in pods:
        metadata, spec = pod.metadata, pod.spec
        if spec.scheduling_group is not None:
            kinds.add(resources.POD_GROUPS)
        if spec.workload_ref is not None:
            kinds.add(resources.WORKLOADS)
        kinds.update(kind for key, kind in _KIND_OF_LABEL.items() if key in metadata.labels)
        if labels.VOLCANO_GROUP in metadata.annotations:
            kinds.add(resources.VOLCANO_POD_GROUPS)
    return tuple(sorted(kinds))


_KIND_OF_LABEL: Final = {
    labels.COSCHEDULING_GROUP: resources.COSCHEDULING_POD_GROUPS,
    labels.LEADER_WORKER_SET: resources.LEADER_WORKER_SETS,
    labels.JOB_SET: resources.JOB_SETS,
}


def _pod_group(written: wire.WirePodGroup) -> Iterator[GroupObject]:
    """Read a PodGroup of `scheduling.k8s.io`; one of policy `basic` asks for no number of pods together."""
    spec = written.spec
    gang = spec.scheduling_policy.gang
    minimum = _count(gang.min_count, "spec.schedulingPolicy.gang.minCount") if gang is not None else 0
    yield msgspec.structs.replace(
        _object(GroupSource.POD_GROUP, written.metadata, minimum),
        priority=spec.priority,
        topology_keys=_keys(*(constraint.key for constraint in spec.scheduling_constraints.topology)),
        disrupts_all=spec.disruption_mode.all is not None,
    )


def _workload(written: wire.WireGroupWorkload) -> Iterator[GroupObject]:
    for i, group in enumerate(written.spec.pod_groups):
        gang = group.policy.gang
        minimum = _count(gang.min_count, f"spec.podGroups[{i}].policy.gang.minCount") if gang is not None else 0
        group_object = _object(GroupSource.WORKLOAD, written.metadata, minimum)
        yield msgspec.structs.replace(group_object, name=f"{group_object.name}/{group.name}")


def _min_member(source: GroupSource, written: wire.WirePodGroup) -> Iterator[GroupObject]:
    yield _object(source, written.metadata, _count(written.spec.min_member, "spec.minMember"))


def _object(source: GroupSource, metadata: WireMetadata, minimum: int) -> GroupObject:
    created = metadata.creation_timestamp
    return GroupObject(
        source=source,
        namespace=metadata.namespace or "default",
        name=metadata.name,
        created_at=None if created is None else in_calendar(created),
        minimum=minimum,
    )


def _keys(*keys: str | None) -> tuple[str, ...]:
    return tuple(labels.normalized(key) for key in keys if key)


def _count(number: int, field: str) -> int:
    if not 0 <= number <= MEMBERS_MAX:
        raise InvalidInputError(f"must be a number of pods up to {MEMBERS_MAX}, not {number}", field=field)
    return number


# The Jobs and StatefulSets that the controllers of JobSets and LeaderWorkerSets make, for manifests without their pods.


def made_of_job_set(job_set: wire.JobSet, pods: Iterable[WirePod]) -> Iterator[wire.Job]:
    """Yield the Jobs of a JobSet without pods, named and marked as by its controller (0.12); none once it is over or leaves."""
    name, namespace = job_set.metadata.name, job_set.metadata.namespace or "default"
    is_over = job_set.status.terminal_state or job_set.metadata.deletion_timestamp is not None
    if is_over or _has_pods(pods, labels.JOB_SET, name, namespace):
        return
    topology = job_set.metadata.annotations.get(labels.JOB_SET_TOPOLOGY)
    notes = {labels.JOB_SET_TOPOLOGY: topology} if topology else {}
    for part in job_set.spec.replicated_jobs:
        for number in range(min(part.replicas, MEMBERS_MAX)):
            job_name = f"{name}-{part.name}-{number}"
            marks = {labels.JOB_SET: name, labels.JOB_SET_PART: part.name, labels.JOB_SET_JOB: str(number)}
            marks[labels.JOB_SET_KEY] = job_name
            spec = part.template.spec
            yield wire.Job(
                metadata=_made_by(job_set.metadata, "JobSet", job_name),
                spec=wire.JobSpec(
                    parallelism=spec.parallelism,
                    completions=spec.completions,
                    suspend=job_set.spec.suspend,
                    template=_apart(_marked(spec.template, marks, notes), topology, labels.JOB_SET_KEY),
                ),
            )


def made_of_leader_worker_set(owner: wire.LeaderWorkerSet, pods: Iterable[WirePod]) -> Iterator[wire.WireWorkload]:
    """Yield the StatefulSets of a LeaderWorkerSet without pods: of each group the leader's, then the workers'."""
    name, namespace = owner.metadata.name, owner.metadata.namespace or "default"
    if owner.metadata.deletion_timestamp is not None or _has_pods(pods, labels.LEADER_WORKER_SET, name, namespace):
        return
    spec, topology = owner.spec.leader_worker_template, owner.metadata.annotations.get(labels.LEADER_WORKER_TOPOLOGY)
    notes = {labels.LEADER_WORKER_SIZE: str(spec.size)} | (
        {labels.LEADER_WORKER_TOPOLOGY: topology} if topology else {}
    )
    for number in range(min(owner.spec.replicas, MEMBERS_MAX)):
        marks = {labels.LEADER_WORKER_SET: name, labels.LEADER_WORKER_GROUP: str(number)}
        marks[labels.LEADER_WORKER_KEY] = f"{name}-{number}"
        leader = spec.leader_template or spec.worker_template
        first = _marked(leader, marks | {labels.LEADER_WORKER_INDEX: "0"}, notes)
        first = _apart(first, topology, labels.LEADER_WORKER_KEY)
        yield wire.WireWorkload(
            metadata=_made_by(owner.metadata, "LeaderWorkerSet", name),
            spec=wire.WorkloadSpec(template=first, ordinals=wire.Ordinals(start=number)),
        )
        if spec.size > 1:
            yield wire.WireWorkload(
                metadata=_made_by(owner.metadata, "LeaderWorkerSet", f"{name}-{number}"),
                spec=wire.WorkloadSpec(
                    replicas=spec.size - 1,
                    template=_marked(spec.worker_template, marks, notes),
                    ordinals=wire.Ordinals(start=1),
                ),
            )


def _has_pods(pods: Iterable[WirePod], key: str, name: str, namespace: str) -> bool:
    return any(
        pod.metadata.labels.get(key) == name and (pod.metadata.namespace or "default") == namespace for pod in pods
    )


def _made_by(owner: WireMetadata, kind: str, name: str) -> WireMetadata:
    reference = OwnerReference(kind=kind, name=owner.name, uid=owner.uid, controller=True)
    return WireMetadata(name=name, namespace=owner.namespace, owner_references=(reference,))


def _marked(template: PodTemplate, marks: Mapping[str, str], notes: Mapping[str, str]) -> PodTemplate:
    metadata = template.metadata
    return PodTemplate(
        metadata=WireMetadata(labels={**metadata.labels, **marks}, annotations={**metadata.annotations, **notes}),
        spec=template.spec,
    )


def _apart(template: PodTemplate, topology: str | None, key: str) -> PodTemplate:
    """Return the template of pods that keep others with another value of the label `key` out of their topology domain.

    That is how the webhooks of JobSet (0.12) and LeaderWorkerSet (0.9) write `exclusive-topology` into the leader. Pods of one
    group are in one domain, so it makes no difference that all of a Job have it here.
    """
    if not topology:
        return template
    other_value = SelectorExpression(key=key, operator="NotIn", values=(template.metadata.labels[key],))
    others = WireLabelSelector(match_expressions=(SelectorExpression(key=key, operator="Exists"), other_value))
    term = wire.WirePodAffinityTerm(
        topology_key=topology, label_selector=others, namespace_selector=WireLabelSelector()
    )
    affinity = template.spec.affinity or wire.Affinity()
    written = affinity.pod_anti_affinity or wire.PodAffinity()
    anti = msgspec.structs.replace(written, required=(*written.required, term))
    affinity = msgspec.structs.replace(affinity, pod_anti_affinity=anti)
    return PodTemplate(metadata=template.metadata, spec=msgspec.structs.replace(template.spec, affinity=affinity))


# ProvisioningRequests.


VALID_UNTIL: Final = "ValidUntilSeconds"
NO_RETRY: Final = "noRetry"
"""Parameters, as the Cluster Autoscaler names them."""
RUNS_FOR: Final = "maxRunDurationSeconds"
"""Parameter for which users of Kueue annotate their Jobs: how long the pods run at most."""

_SECONDS_DIGITS: Final = 9


class RequestTranslator(Templates):
    """Translates the ProvisioningRequests of one cluster at one moment."""

    def request(self, written: WireProvisioningRequest) -> ProvisioningRequest:
        """One request; one of a class that others serve has no pods.

        Raises:
            NotForUsError: If a PodTemplate is missing, or makes no pods.
            InvalidInputError: If a field cannot be understood, or its class is one of ours that this release does not have.
        """
        request = state_of_request(written)
        if not is_served(request):
            return request
        if request.provisioning_class not in CLASSES:
            field = "spec.provisioningClassName"
            raise InvalidInputError(f"{request.provisioning_class} is none of {', '.join(CLASSES)}", field=field)
        created, parameters = request.created_at, written.spec.parameters
        valid_for = _seconds(parameters, VALID_UNTIL)
        request = msgspec.structs.replace(
            request,
            pod_sets=self._pod_sets(written, request.namespace),
            valid_until=None if created is None else created + (VALID_FOR if valid_for is None else valid_for),
            fails_at_once=request.provisioning_class == CHECK_CAPACITY and parameters.get(NO_RETRY) == "true",
        )
        return _in_block(request, parameters) if request.provisioning_class == CAPACITY_BLOCK else request

    def _pod_sets(self, written: WireProvisioningRequest, namespace: str) -> tuple[RequestedPods, ...]:
        pod_sets, total = [], 0
        for index, pod_set in enumerate(written.spec.pod_sets):
            where, name = f"spec.podSets[{index}]", pod_set.pod_template_ref.name
            total += pod_set.count
            if pod_set.count < 1 or total > MEMBERS_MAX:
                problem = f"must be a number of pods from 1 to {MEMBERS_MAX} together, not {pod_set.count}"
                raise InvalidInputError(problem, field=f"{where}.count")
            template = self.named(resources.POD_TEMPLATES, namespace, name, field=f"{where}.podTemplateRef.name")
            spec = self.spec(namespace, template.template, f"PodTemplate {name}: template.spec")
            metadata = template.template.metadata
            pod_sets.append(
                RequestedPods(pods=pod_set.count, labels=metadata.labels, annotations=metadata.annotations, spec=spec)
            )
        if not pod_sets:
            raise InvalidInputError("names no pods", field="spec.podSets")
        return tuple(pod_sets)


def unusable_request(written: WireProvisioningRequest, error: InvalidInputError) -> ProvisioningRequest:
    """Return a request for which `RequestTranslator.request` raised: it says why, and asks for nothing."""
    if isinstance(error, NotForUsError):
        reason = RequestReason.TEMPLATE_NOT_FOUND
    else:
        is_class = error.field == "spec.provisioningClassName"
        reason = RequestReason.UNKNOWN_CLASS if is_class else RequestReason.INVALID
    message = ": ".join(part for part in (error.field, error.problem) if part)
    return msgspec.structs.replace(state_of_request(written), reason=reason, message=message)


def state_of_request(written: WireProvisioningRequest) -> ProvisioningRequest:
    """Return a request without its pods, in the state that its conditions say."""
    metadata = written.metadata
    since = {condition.type: condition for condition in _conditions(written.status)}
    is_true = {kind for kind, condition in since.items() if condition.status == "True"}
    provisioned, revoked = since.get(PROVISIONED), since.get(CAPACITY_REVOKED)
    details = written.status.get("provisioningClassDetails")
    return ProvisioningRequest(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        uid=metadata.uid,
        created_at=None if metadata.creation_timestamp is None else in_calendar(metadata.creation_timestamp),
        provisioning_class=written.spec.provisioning_class_name,
        provisioned_at=provisioned.last_transition_time if provisioned is not None and PROVISIONED in is_true else None,
        has_own_nodes=isinstance(details, dict) and DETAIL in details,
        lost_at=revoked.last_transition_time if revoked is not None and revoked.status == "Unknown" else None,
        is_expired=BOOKING_EXPIRED in is_true,
        is_failed=bool({FAILED, CAPACITY_REVOKED} & is_true),
    )


def _conditions(status: Mapping[str, Any]) -> tuple[WireCondition, ...]:
    """Return the conditions of a status; none if they cannot be read, since others may write anything there."""
    try:
        return msgspec.convert(status.get("conditions") or (), tuple[WireCondition, ...])
    except msgspec.ValidationError:
        return ()


def _in_block(request: ProvisioningRequest, parameters: Mapping[str, str]) -> ProvisioningRequest:
    """Return a request whose pods have to be in the capacity block or reservation that it names."""
    identity = parameters.get(RESERVATION, "")
    if not identity:
        raise InvalidInputError("must name a capacity block or reservation", field=f"spec.parameters.{RESERVATION}")
    room = Requirement.one_of(labels.RESERVATION_ID, identity)
    pod_sets = [
        msgspec.structs.replace(
            pod_set, spec=msgspec.structs.replace(pod_set.spec, node_selector=(*pod_set.spec.node_selector, room))
        )
        for pod_set in request.pod_sets
    ]
    return msgspec.structs.replace(
        request,
        pod_sets=tuple(pod_sets),
        # A block may be booked for months ahead: it is waited for until it ends.
        valid_until=request.valid_until if VALID_UNTIL in parameters else None,
        reservation=identity,
        runs_for=_seconds(parameters, RUNS_FOR) or timedelta(0),
    )


def _seconds(parameters: Mapping[str, str], name: str) -> timedelta | None:
    text = parameters.get(name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > _SECONDS_DIGITS:
        raise InvalidInputError(f"must be a number of seconds, not {text!r}", field=f"spec.parameters.{name}")
    return timedelta(seconds=int(text))
