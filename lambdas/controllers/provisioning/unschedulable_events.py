"""Writes Kubernetes events on pods about why they get no node; few, and never the same twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from adapters.ports import Clock, JsonObject, Kubernetes
from core.model.plan import Unschedulable
from lambdas.controllers.decision_events import with_decision_id
from lambdas.controllers.kube_events import about_pod, in_time, warning, write

PER_RUN: Final = 10
"""The most events of one run; the others are in the run's decisions and follow in later runs."""

REMEMBERED: Final = 10_000


class UnschedulableEvents:
    """Writes FailedScheduling events. The API server refuses a name that exists, so a repeated event costs one call."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._written: set[tuple[str, str]] = set()

    def publish(self, unschedulable: Iterable[Unschedulable], decision: str) -> None:
        """Write an event for each pod and reason that has none yet; `decision` is the id of the first decision with it."""
        events = [self._event(found, decision) for found in unschedulable]
        fresh = [event for event in events if _key(event) not in self._written][:PER_RUN]
        if len(self._written) > REMEMBERED:
            self._written.clear()
        written = write(self._kubernetes, in_time(fresh, self._clock))
        self._written.update(_key(event) for event in fresh[:written])

    def _event(self, found: Unschedulable, decision: str) -> JsonObject:
        namespace, _, pod = found.pod.partition("/")
        message = with_decision_id(f"{found.reason}: {found.message}", decision)
        identity = f"{found.reason}/{found.message}"
        return warning(about_pod(namespace, pod), "FailedScheduling", message, self._clock.now(), identity=identity)


def _key(event: JsonObject) -> tuple[str, str]:
    return event["metadata"]["namespace"], event["metadata"]["name"]
