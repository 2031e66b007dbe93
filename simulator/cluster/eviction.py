"""The eviction subresource of pods: PodDisruptionBudgets decide (Kubernetes, registry/core/pod/storage/eviction)."""

from __future__ import annotations

from typing import Final

from adapters.ports import ConflictError, EvictionBlockedError, SeveralBudgetsError
from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import (
    PROGRAM,
    is_deleting,
    is_ready,
    key_of,
    name_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
)
from simulator.cluster.selectors import selects
from simulator.cluster.store import Store

CALL: Final = "kube:create pods/eviction"
EVICTION: Final = "eviction"


class Evictions:
    """Evicts pods where their PodDisruptionBudget allows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def evict(self, namespace: str, name: str, *, uid: str, by: str = PROGRAM) -> None:
        """Evict a pod.

        Raises:
            NotFoundError: If there is no such pod.
            ConflictError: If its uid differs.
            EvictionBlockedError: If the budget forbids it now; `detail` begins with the budget's name.
            SeveralBudgetsError: If several budgets select the pod, which the API answers with a server error.
        """
        pod = self._store.get(kinds.PODS, name, namespace)
        if uid and uid != uid_of(pod):
            raise ConflictError(CALL, f"{name}: the uid in the precondition differs")
        if not _ignores_budgets(pod):
            self._charge(pod)
        self._store.delete(kinds.PODS, name, namespace=namespace, uid=uid, by=by, cause=EVICTION)

    def budgets_of(self, pod: JsonObject) -> list[JsonObject]:
        """The PodDisruptionBudgets that select the pod."""
        namespace = key_of(pod)[0]
        budgets = self._store.in_namespace(kinds.POD_DISRUPTION_BUDGETS, namespace)
        return [budget for budget in budgets if selects(spec_of(budget).get("selector"), pod)]

    def _charge(self, pod: JsonObject) -> None:
        """Take one disruption from the pod's budget, at once: the budget's controller counts later."""
        budgets = self.budgets_of(pod)
        if len(budgets) > 1:
            raise SeveralBudgetsError(
                CALL, "this pod has more than one PodDisruptionBudget, which eviction does not support"
            )
        if not budgets or _may_go_unhealthy(pod, budgets[0]):
            return
        budget, status = budgets[0], status_of(budgets[0])
        stale = status.get("observedGeneration", 0) < budget["metadata"]["generation"]
        allowed = status.get("disruptionsAllowed", 0)
        if stale or allowed <= 0:
            needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            raise EvictionBlockedError(CALL, f"{name_of(budget)} needs {needs} healthy pods and has {has} currently")
        now = timestamp(self._store.clock.now())
        noted = {**(status.get("disruptedPods") or {}), name_of(pod): now}
        self._store.patch_status(
            kinds.POD_DISRUPTION_BUDGETS, budget, disruptionsAllowed=allowed - 1, disruptedPods=noted
        )


def _ignores_budgets(pod: JsonObject) -> bool:
    return is_deleting(pod) or phase_of(pod) != "Running" or not node_of(pod)


def _may_go_unhealthy(pod: JsonObject, budget: JsonObject) -> bool:
    """A pod that is not ready may be evicted freely under AlwaysAllow, otherwise only while its application is healthy."""
    if is_ready(pod):
        return False
    if spec_of(budget).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = status_of(budget)
    return 0 < int(status.get("desiredHealthy", 0)) <= int(status.get("currentHealthy", 0))
