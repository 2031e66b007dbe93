"""Tells users on their pods why no node comes for them: Kubernetes events, few and never the same twice."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from hashlib import blake2b
from typing import Final

from core.manifests import resources as kinds
from core.model.plan import Unschedulable
from lambdas.observability import logger
from lambdas.ports import Clock, ConflictError, JsonObject, Kubernetes, NotFoundError, PortError

PER_RUN: Final = 10
"""Events written in one run; the others are in the run's decisions and come in their turn."""

REMEMBERED: Final = 10_000


class PodNews:
    """Writes FailedScheduling events. The API server refuses a name that exists, so a repeated event costs one call."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._told: set[str] = set()

    def tell(self, unschedulable: Iterable[Unschedulable]) -> None:
        """Write an event for each pod and reason that has none yet."""
        fresh = [(found, self._name(found)) for found in unschedulable]
        fresh = [(found, name) for found, name in fresh if name not in self._told][:PER_RUN]
        if len(self._told) > REMEMBERED:
            self._told.clear()
        for found, name in fresh:
            try:
                self._kubernetes.create(kinds.EVENTS, self._event(found, name), found.pod.partition("/")[0])
            except (ConflictError, NotFoundError):
                logger.debug("event exists already, or its namespace is gone", extra={"event": name})
            except PortError:
                logger.exception("event could not be written", extra={"pod": found.pod})
                return
            self._told.add(name)

    def _name(self, found: Unschedulable) -> str:
        """One name for a pod, a reason and an hour: Kubernetes keeps events for an hour."""
        hour = self._clock.now().strftime("%Y%m%d%H")
        digest = blake2b(f"{found.reason}/{found.message}/{hour}".encode(), digest_size=5).hexdigest()
        return f"{found.pod.partition('/')[2]}.{digest}"

    def _event(self, found: Unschedulable, name: str) -> JsonObject:
        namespace, _, pod = found.pod.partition("/")
        now = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": namespace},
            "reason": "FailedScheduling",
            "message": f"{found.reason}: {found.message}"[:1024],
            "type": "Warning",
            "source": {"component": "fleetwright"},
            "reportingComponent": "fleetwright",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
