"""Tells on a node, and on the pods that keep it, why it does not go: Kubernetes events, one for each rung and object."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from hashlib import blake2b
from typing import Final

from core.lifecycle.steps import Escalate
from core.manifests import resources as kinds
from lambdas.observability import logger
from lambdas.ports import Clock, ConflictError, JsonObject, Kubernetes, NotFoundError, PortError

PODS_TOLD: Final = 10
"""Pods that get an event of their own at one rung; the node's names the first of all."""

NODE_NAMESPACE: Final = "default"
"""Where Kubernetes keeps the events of nodes."""

_LONGEST: Final = 1024


class DrainEvents:
    """Writes FailedDraining events (Karpenter's name). One that cannot be written is logged: nothing hangs on it."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def tell(self, node: str, step: Escalate) -> None:
        """Tell of one rung."""
        told: Sequence[tuple[JsonObject, str]] = [
            (_reference("Node", node, uid=node), step.message),
            *(
                (_reference("Pod", b.pod.name, b.pod.namespace, b.pod.uid), b.message)
                for b in step.blockers[:PODS_TOLD]
            ),
        ]
        for reference, message in told:
            event = self._event(reference, message, step.rung)
            try:
                self._kubernetes.create(kinds.EVENTS, event, event["metadata"]["namespace"])
            except (ConflictError, NotFoundError):
                continue
            except PortError:
                logger.exception("event could not be written", extra={"node": node})
                return

    def _event(self, reference: JsonObject, message: str, rung: int) -> JsonObject:
        moment = self._clock.now().astimezone(UTC)
        now = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        digest = blake2b(f"{message}/{rung}/{now[:13]}".encode(), digest_size=5).hexdigest()
        namespace = reference.get("namespace", NODE_NAMESPACE)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{reference['name']}.{digest}", "namespace": namespace},
            "involvedObject": reference,
            "reason": "FailedDraining",
            "message": message[:_LONGEST],
            "type": "Warning",
            "source": {"component": "fleetwright"},
            "reportingComponent": "fleetwright",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def _reference(kind: str, name: str, namespace: str = "", uid: str = "") -> JsonObject:
    """What an event is about; `kubectl describe` finds a node's events by its name in place of its UID."""
    reference = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}
    return {**reference, "namespace": namespace} if namespace else reference
