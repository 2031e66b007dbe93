"""Writes conditions and status to the cluster when they change.

The condition KnownFields, and the status of CapacityBuffers and ProvisioningRequests are computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adapters.observation.observer import ClusterState
from adapters.ports import Clock, JsonObject, Kubernetes, NotFoundError, PortError, reason_of
from adapters.run_report import RunReport
from core import labels
from core.api.objects import generation_of, mapping, name_of, sequence
from core.api.status import conditions
from core.manifests.wire import resources
from core.manifests.wire.objects import WireCapacityBuffer, WireProvisioningRequest
from core.manifests.wire.resources import Resource
from core.model.plan import BufferRoom, Plan
from core.model.pod import GroupSource
from core.model.snapshot import ProvisioningRequest
from core.reasons.code import DecisionKind
from core.reasons.runs import RunReason
from installation.metric_names import UNKNOWN_FIELDS
from lambdas.controllers.events import warning, write

if TYPE_CHECKING:
    from core.provisioning_requests import RequestAnswer, Starting

# Writes the status of users' objects if it differs, and preserves the conditions of other writers.


class Present(msgspec.Struct, frozen=True):
    """An object and its present status."""

    kind: Resource
    name: str
    namespace: str
    generation: int
    status: JsonObject

    @classmethod
    def of(cls, kind: Resource, obj: JsonObject) -> Present:
        """The object of a cluster-wide kind, as listed."""
        return cls(kind, name_of(obj), "", generation_of(obj), mapping(obj.get("status")))


class StatusWriter:
    """Patches the status subresource."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def write(self, present: Present, status: JsonObject) -> bool:
        """Update an object's status; return whether it differed. No error if the object is gone. Raises PortError."""
        merged = {**status, "conditions": self._merged(present, status.get("conditions") or ())}
        if all(present.status.get(name) == value for name, value in merged.items()):
            return False
        body = {"status": {name: _replacing(present.status.get(name), value) for name, value in merged.items()}}
        tolerate_gone(
            lambda: self._kubernetes.patch(
                present.kind, present.name, body, namespace=present.namespace, subresource="status"
            )
        )
        return True

    def _merged(self, present: Present, wanted: Iterable[JsonObject]) -> list[JsonObject]:
        """Merge the new conditions with those of other writers; a condition with an unchanged status keeps its time."""
        written = map(mapping, sequence(present.status.get("conditions")))  # others may write anything there
        conditions = {str(earlier["type"]): earlier for earlier in written if "type" in earlier}
        now = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for entry in wanted:
            before = conditions.get(entry["type"]) or {}
            same = before.get("status") == entry["status"]
            since = before.get("lastTransitionTime", now) if same else now
            conditions[entry["type"]] = {
                **entry,
                "lastTransitionTime": since,
                "observedGeneration": present.generation,
            }
        return [conditions[name] for name in sorted(conditions)]


def _replacing(present: Any, wanted: Any) -> Any:
    """Return the merge patch that replaces a mapping entirely: a merge patch keeps every key that it does not name."""
    if not isinstance(present, dict) or not isinstance(wanted, dict):
        return wanted
    return {**dict.fromkeys(sorted(present.keys() - wanted.keys())), **wanted}


def condition(kind: str, status: str, message: str = "", *, reason: str = "") -> JsonObject:
    """Return a condition; without a given reason it gets the default one."""
    usual = kind if status == "True" else f"{kind}Failed" if status == "False" else "AwaitingReconciliation"
    return {"type": kind, "status": status, "reason": reason or usual, "message": message}


def tolerate_gone(write: Callable[[], None]) -> None:
    """Run the write; ignore an error that the object is gone."""
    try:
        write()
    except NotFoundError:
        return


# Condition KnownFields: fields of an object that this version does not know, and drops.


KNOWN_FIELDS: Final = "KnownFields"


class UnknownFields:
    """Tells people which fields of their objects have no effect: a condition, an event when it changes, and a count."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def condition(self, manifest: JsonObject, about: JsonObject, report: RunReport) -> list[JsonObject]:
        """Return the condition; none for an object without unknown fields that never had any."""
        before = conditions(manifest).get(KNOWN_FIELDS)
        message = self._dropped(manifest, report)
        if not message:
            return [] if before is None else [condition(KNOWN_FIELDS, "True")]
        if before is None or before.message != message:
            self._tell(about, message, report)
        return [condition(KNOWN_FIELDS, "False", message, reason="UnknownField")]

    def _dropped(self, manifest: JsonObject, report: RunReport) -> str:
        """Count the unknown fields, and return what is said of them; empty for none."""
        from core.api.translation import unknown_fields

        unknown = unknown_fields(manifest)
        if unknown:
            report.count(UNKNOWN_FIELDS, len(unknown))
        return f"this version does not know {', '.join(unknown)}, and drops it" if unknown else ""

    def _tell(self, about: JsonObject, message: str, report: RunReport) -> None:
        report.decide(DecisionKind.SKIP, f"{about['kind']} {about['name']}", RunReason.UNKNOWN_FIELD, message)
        identity = f"{about['kind']}/{message}"  # a NodePool and its class often share a name
        event = warning(about, RunReason.UNKNOWN_FIELD, message, self._clock.now(), identity=identity)
        write(self._kubernetes, [event])


# The status of CapacityBuffers.


READY: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
_NOT_FOUND: Final = {
    "spec.podTemplateRef.name": "PodTemplateNotFound",
    "spec.scalableRef.name": "ScalableRefNotFound",
}


class BufferStatus:
    """Writes a status only if it differs from the present one."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._statuses = StatusWriter(kubernetes, clock)

    def write(self, view: ClusterState, plan: Plan, report: RunReport) -> None:
        """Bring the status of every buffer up to date; a failure of one does not affect the others."""
        rooms = {room.buffer: room for room in plan.buffers}
        for written in view.buffers:
            key = _key(written)
            status = _status(written, view, rooms.get(key))
            metadata = written.metadata
            present = Present(
                resources.CAPACITY_BUFFERS, metadata.name, metadata.namespace, metadata.generation, written.status
            )
            try:
                self._statuses.write(present, status)
            except PortError as error:
                report.count("portErrors")
                report.decide(DecisionKind.SKIP, f"CapacityBuffer {key}", reason_of(error), str(error))


def _status(written: WireCapacityBuffer, view: ClusterState, room: BufferRoom | None) -> JsonObject:
    status: JsonObject = {"provisioningStrategy": written.spec.provisioning_strategy}
    key = _key(written)
    read = next((buffer for buffer in view.snapshot.buffers if f"{buffer.namespace}/{buffer.name}" == key), None)
    if read is None:
        problem = next((p for p in view.problems if p.subject == f"CapacityBuffer {key}"), None)
        reason = _NOT_FOUND.get(problem.field if problem else "", "ResolutionFailed")
        message = f"{problem.field}: {problem.problem}" if problem else ""
        not_ready = condition(PROVISIONING, "False", f"not {READY}", reason="NotReadyForProvisioning")
        return {**status, "conditions": [condition(READY, "False", message, reason=reason), not_ready]}
    if written.spec.pod_template_ref is not None:
        status["podTemplateRef"] = {"name": written.spec.pod_template_ref.name}
    ready = condition(READY, "True", "the pod template is known", reason="Resolved")
    provisioning = _provisioning(read.pods, room)
    return {**status, "replicas": read.pods, "conditions": [ready, provisioning]}


def _provisioning(pods: int, room: BufferRoom | None) -> JsonObject:
    """Return the condition Provisioning: True if every pod has room on existing nodes."""
    if not pods:
        return condition(PROVISIONING, "False", "it requests no room", reason="BufferEmpty")
    there = room.on_existing if room is not None else 0
    nowhere = room.without_room if room is not None else 0
    if there == pods:
        return condition(PROVISIONING, "True", f"room for all {pods} pods", reason="FitsExistingCapacity")
    message = f"room for {there} of {pods} pods, launching nodes for {pods - there - nowhere}, no room for {nowhere}"
    return condition(PROVISIONING, "False", message, reason="RequiresNewCapacity")


def _key(written: WireCapacityBuffer | WireProvisioningRequest) -> str:
    return f"{written.metadata.namespace or 'default'}/{written.metadata.name}"


# ProvisioningRequests: `core.provisioning_requests` decides what their conditions say.


class RequestStatus:
    """Writes what a plan means for ProvisioningRequests."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._statuses = StatusWriter(kubernetes, clock)

    def write(self, view: ClusterState, plan: Plan, report: RunReport) -> None:
        """Bring the status of every request up to date; a failure of one does not affect the others."""
        if not view.requests:
            return
        from core.provisioning_requests import answer, late_requests  # most clusters have none

        groups = {group.name: group for group in plan.groups if group.source == GroupSource.PROVISIONING_REQUEST}
        requests = {f"{request.namespace}/{request.name}": request for request in view.snapshot.provisioning_requests}
        late = late_requests(view.snapshot)
        for written in view.requests:
            key = _key(written)
            request = requests.get(key)
            if request is None:
                continue
            wanted = answer(request, view.snapshot, groups.get(key), _starting(request, view), late)
            if wanted is None:
                continue
            try:
                self._write(written, wanted)
            except PortError as error:
                report.count("portErrors")
                report.decide(DecisionKind.SKIP, f"ProvisioningRequest {key}", reason_of(error), str(error))

    def _write(self, written: WireProvisioningRequest, wanted: RequestAnswer) -> None:
        version = written.api_version.rpartition("/")[2] or resources.PROVISIONING_REQUESTS.version
        kind = msgspec.structs.replace(resources.PROVISIONING_REQUESTS, version=version)
        metadata = written.metadata
        status: JsonObject = {
            "conditions": [condition(c.type, c.status, c.message, reason=c.reason) for c in wanted.conditions]
        }
        if wanted.details:
            status["provisioningClassDetails"] = wanted.details
        self._statuses.write(
            Present(kind, metadata.name, metadata.namespace, metadata.generation, written.status), status
        )


def _starting(request: ProvisioningRequest, view: ClusterState) -> Starting:
    """Return the request's nodes that are not ready yet, with the time that nodes of this cluster took lately."""
    from core.provisioning_requests import BOOT, Starting, own_value

    value = own_value(request)
    under_way = [
        record
        for record in view.claims.values()
        if record.plan.labels.get(labels.PROVISIONING_REQUEST) == value
        and record.initialized_at is None
        and record.deletion is None
    ]
    took = sorted(
        record.initialized_at - record.requested_at
        for record in view.claims.values()
        if record.initialized_at is not None
    )
    usual = took[len(took) // 2] if took else BOOT
    return Starting(len(under_way), max((record.requested_at + usual for record in under_way), default=None))


class RoomStatus:
    """Writes what a plan means for objects that ask for room of pods to come."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._writers = (BufferStatus(kubernetes, clock), RequestStatus(kubernetes, clock))

    def write(self, view: ClusterState, plan: Plan, report: RunReport) -> None:
        """Bring the status of every buffer and request up to date."""
        for writer in self._writers:
            writer.write(view, plan, report)
