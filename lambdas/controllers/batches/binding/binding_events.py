"""Writes an event on each pod that was bound, as kube-scheduler does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from adapters.ports import Clock, Kubernetes
from adapters.runtime.parallel_tasks import RunTasks
from core.lifecycle.binding.turn import DecidedBinding
from lambdas.controllers.kube_events import about_pod, normal, write_together

EVENTS_AT_MOST: Final = 500
"""The most pods of a turn that get an event: events are for people, and each takes a call."""


class BindingEvents:
    """Writes an event `Scheduled` for each bound pod."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock, run_tasks: RunTasks) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._run_tasks = run_tasks

    def publish(self, bindings: Sequence[DecidedBinding]) -> None:
        """Write the events; one that cannot be written is logged."""
        now = self._clock.now()
        events = [_scheduled(binding, now) for binding in bindings[:EVENTS_AT_MOST]]
        write_together(self._kubernetes, events, self._run_tasks)


def _scheduled(binding: DecidedBinding, now: datetime) -> dict[str, object]:
    pod = binding.pod
    message = f"bound to {binding.node}, which was launched for it"
    return normal(about_pod(pod.namespace, pod.name, pod.uid), "Scheduled", message, now, identity=pod.uid)
