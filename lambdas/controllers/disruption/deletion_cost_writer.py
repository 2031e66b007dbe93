"""Writes deletion costs to pods of nodes that go next, and removes them from others (`steerScaleIn`)."""

from __future__ import annotations

from typing import Final

from adapters.ports import ConflictError, Kubernetes, NotFoundError, PortError
from adapters.run_report import RunReport
from adapters.runtime.observability import logger
from core.disruption.candidates.deletion_costs import deletion_cost_changes, nodes_going_next
from core.manifests.wire import api_resources as kinds
from core.model.plan import StoredTarget
from core.model.snapshot import Snapshot

FAILURES: Final = 3
"""After this many refusals a run stops writing: a deletion cost is only a hint."""


class DeletionCostWriter:
    """Does nothing where the setting is off."""

    def __init__(self, kubernetes: Kubernetes, *, is_on: bool) -> None:
        self._kubernetes = kubernetes
        self._is_on = is_on

    def write(self, snapshot: Snapshot, target: StoredTarget | None, report: RunReport) -> None:
        """Mark the pods of the nodes that the target drains next, and no others."""
        if not self._is_on:
            return
        written = failures = 0
        for change in deletion_cost_changes(snapshot.pods, nodes_going_next(target)):
            body = {"metadata": {"uid": change.uid, "annotations": change.annotations}}
            try:
                self._kubernetes.patch(kinds.PODS, change.name, body, namespace=change.namespace)
                written += 1
            except (NotFoundError, ConflictError):
                continue
            except PortError as error:
                failures += 1
                logger.warning("deletion cost not written", extra={"pod": change.name, "problem": str(error)})
                if failures == FAILURES:
                    break
        report.count("steeredPods", written)
        report.count("failedSteering", failures)
