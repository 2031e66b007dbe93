"""Restarts the Deployment of a pod that cannot be evicted, if its owner opted in and the installation permits it."""

from __future__ import annotations

from typing import Any

from adapters.ports import DeniedError, Kubernetes, PortError
from adapters.run_report import RunReport
from core.lifecycle.draining import surge
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.model.pod import Pod
from core.reasons.decision import DecisionKind
from core.reasons.drain import DrainReason


class Surge:
    """Does nothing unless the setting is on: without it the ClusterRole has no `patch` on Deployments."""

    def __init__(self, kubernetes: Kubernetes, *, is_on: bool) -> None:
        self._kubernetes = kubernetes
        self._is_on = is_on

    def restart(self, pod: Pod, claim: str, report: RunReport) -> None:
        """Restart the pod's Deployment for the drain of `claim`, once; objections are reported, never raised."""
        if not self._is_on or not pod.may_surge:
            return
        try:
            self._restart(pod, claim, report)
        except PortError as error:
            reason = DrainReason.SURGE_DENIED if isinstance(error, DeniedError) else DrainReason.SURGE_FAILED
            report.decide(DecisionKind.DRAIN, pod.key, reason, str(error))

    def _restart(self, pod: Pod, claim: str, report: RunReport) -> None:
        replica_set = self._owner(kinds.REPLICA_SETS, pod.namespace, pod.controller)
        deployment = self._owner(kinds.DEPLOYMENTS, pod.namespace, _controller_of(replica_set))
        if deployment is None:
            report.decide(DecisionKind.DRAIN, pod.key, DrainReason.SURGE_REFUSED, "it has no Deployment")
            return
        if surge.is_restarted(deployment, claim):
            return
        name = deployment.metadata.name
        why = surge.objection(deployment)
        if why:
            report.decide(
                DecisionKind.DRAIN, pod.key, DrainReason.SURGE_REFUSED, f"Deployment {name} is not restarted: {why}"
            )
            return
        self._kubernetes.patch(kinds.DEPLOYMENTS, name, surge.restart(deployment, claim), namespace=pod.namespace)
        report.count("surgeRestarts")
        message = f"Deployment {name} is restarted, so that its new pod runs on another node before this one stops"
        report.decide(DecisionKind.DRAIN, pod.key, DrainReason.SURGE_RESTART, message)

    def _owner(self, kind: Resource, namespace: str, name: str) -> Any:
        """Return one object by listing: the functions may list workloads, and need no further verb for this."""
        if not name:
            return None
        only = f"metadata.namespace={namespace},metadata.name={name}"
        return next(iter(self._kubernetes.list(kind, fields=only).items), None)


def _controller_of(replica_set: Any) -> str:
    """Return the name of a ReplicaSet's Deployment, empty for none."""
    references = replica_set.metadata.owner_references if replica_set is not None else ()
    return next((found.name for found in references if found.controller and found.kind == "Deployment"), "")
