"""Writes Kubernetes events on a node and on the pods that block its drain.

There is one for each escalation level and object.
"""

from __future__ import annotations

from typing import Final

from adapters.ports import Clock, JsonObject, Kubernetes
from core.lifecycle.steps import Escalate
from lambdas.controllers.kube_events import about_node, about_pod, in_time, warning, write

PODS_WITH_EVENT_MAX: Final = 10
"""The most pods that get an event at one escalation level; the node's event names the first of all."""


class DrainEvents:
    """Writes FailedDraining events (Karpenter's name)."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def publish(self, node: str, step: Escalate) -> None:
        """Write the events of one escalation level."""
        now = self._clock.now()

        def event(about: JsonObject, message: str) -> JsonObject:
            return warning(about, "FailedDraining", message, now, identity=f"{message}/{step.escalation_level}")

        pods = [(found.pod, found.message) for found in step.blockers[:PODS_WITH_EVENT_MAX]]
        events = [
            event(about_node(node), step.message),
            *(event(about_pod(pod.namespace, pod.name, pod.uid), message) for pod, message in pods),
        ]
        write(self._kubernetes, in_time(events, self._clock))
