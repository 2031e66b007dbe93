"""Nominates a node for the pods planned for it: kube-scheduler tries the node in a pod's status before all others.

Kubernetes lets components outside the scheduler write `status.nominatedNodeName` since 1.35 (NominatedNodeNameForExpectation).
The scheduler treats it as a hint: it counts the pod on that node when it places pods of equal or lower priority, and clears the
hint if the pod fits nowhere or the node is closed to it. It is therefore written only after the node is open.
"""

from __future__ import annotations

from typing import Final

from adapters.ports import ConflictError, Kubernetes, NotFoundError, PortError
from adapters.run_report import RunReport
from adapters.runtime.observability import logger
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.nodes.node_state_reader import NodeStateReader

ALREADY_BOUND: Final = "already bound"
"""Part of the API server's answer (422) if the scheduler bound the pod first, which is not an error."""

FAILURES: Final = 3
"""After this many refusals, the other pods of a claim get no nomination: it is only a hint, and the node waits."""


class Nominator:
    """Nominates pods for the node that was launched for them; does nothing if the setting is off."""

    def __init__(self, kubernetes: Kubernetes, *, is_on: bool) -> None:
        self._kubernetes = kubernetes
        self._is_on = is_on

    def nominate(self, record: ClaimRecord, node: str, reader: NodeStateReader, report: RunReport) -> tuple[str, ...]:
        """Nominate the claim's waiting pods for its node; return the pods whose status now names it.

        Raises:
            PortError: If the pods cannot be listed.
        """
        if not self._is_on or not record.plan.pods:
            return ()
        named: list[str] = []
        failures = 0
        for pod in reader.unbound_pods(frozenset(record.plan.pods)):
            body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
            try:
                if pod.nominated_node_name != node:
                    self._kubernetes.patch(kinds.PODS, pod.name, body, namespace=pod.namespace, subresource="status")
            except (NotFoundError, ConflictError):
                continue
            except PortError as error:
                if ALREADY_BOUND in str(error):
                    continue
                failures += 1
                logger.warning("pod could not be nominated", extra={"pod": pod.key, "problem": str(error)})
                if failures == FAILURES:
                    break
            else:
                named.append(pod.key)
        report.count("nominatedPods", len(named))
        report.count("failedNominations", failures)
        return tuple(named)
