"""Writes the status of CapacityBuffers: for how many pods they keep room, and whether it is ready (as in Karpenter)."""

from __future__ import annotations

from typing import Final

from adapters.observation.cluster_state import ClusterState
from adapters.ports import Clock, JsonObject, Kubernetes, PortError, reason_of
from adapters.run_report import RunReport
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.buffer import WireCapacityBuffer
from core.model.plan import BufferRoom, Plan
from core.reasons.decision import DecisionKind
from lambdas.controllers.status.status_writer import Present, StatusWriter, condition

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
                kinds.CAPACITY_BUFFERS, metadata.name, metadata.namespace, metadata.generation, written.status
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


def _key(written: WireCapacityBuffer) -> str:
    return f"{written.metadata.namespace or 'default'}/{written.metadata.name}"
