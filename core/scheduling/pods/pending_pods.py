"""Which pods need a place: those that no scheduler could bind, and those whose node is going."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core.model.overlay import CapacityBuffer
from core.model.pod import Pod
from core.model.policy import ALWAYS_ALLOW, PodDisruptionBudget
from core.model.snapshot import Snapshot
from core.model.values.taints import DISRUPTED, first_untolerated

BUFFER_MARK: Final = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME: Final = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE: Final = "karpenter.sh/capacity-buffer-namespace"


def is_pending(pod: Pod, *, requires_mark: bool) -> bool:
    """Whether a pod waits for a node (Karpenter, IsProvisionable).

    Args:
        pod: The pod.
        requires_mark: Whether the scheduler must have given up on it first.
    """
    unbound = not pod.node_name and not pod.nominated_node_name and not pod.is_gated
    waits = unbound and pod.phase == "Pending" and not pod.is_terminating
    ours = waits and not (pod.owners and (pod.is_daemon or pod.is_static))
    return ours and (pod.is_marked_unschedulable or not requires_mark)


def pending_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Pods that wait for a node, and the virtual ones of capacity buffers; by key."""
    mark = snapshot.options.requires_unschedulable_mark
    found = [pod for pod in snapshot.pods if is_pending(pod, requires_mark=mark)]
    if snapshot.options.feature_gates.capacity_buffer:
        found += [pod for buffer in snapshot.buffers for pod in _virtual_pods(buffer)]
    return tuple(sorted(found, key=lambda pod: pod.key))


def is_virtual(pod: Pod) -> bool:
    """Whether a pod only keeps room free for a capacity buffer."""
    return pod.annotations.get(BUFFER_MARK) == "true"


def buffer_of(pod: Pod) -> str:
    """`namespace/name` of the buffer that a virtual pod stands for."""
    return f"{pod.annotations[BUFFER_NAMESPACE]}/{pod.annotations[BUFFER_NAME]}"


class Evictions:
    """Which pods of a node that goes will need a new place now (Karpenter, IsCurrentlyReschedulable)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._now = snapshot.now
        self._budgets: dict[str, list[PodDisruptionBudget]] = {}
        for budget in sorted(snapshot.budgets, key=lambda b: (b.namespace, b.name)):
            self._budgets.setdefault(budget.namespace, []).append(budget)

    def movable(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        """Those of the pods that are to be planned for elsewhere."""
        return tuple(
            pod
            for pod in pods
            if pod.is_reschedulable and not pod.blocks_disruption(self._now) and not self._is_held(pod)
        )

    def _is_held(self, pod: Pod) -> bool:
        """Whether a disruption budget never lets it go."""
        if not pod.is_active or first_untolerated((DISRUPTED,), pod.spec.tolerations) is None:
            return False
        matching = [
            budget
            for budget in self._budgets.get(pod.namespace, ())
            if budget.selector is not None and budget.selector.matches(pod.labels)
        ]
        if any(b.unhealthy_pod_eviction_policy == ALWAYS_ALLOW for b in matching) and pod.is_ready is False:
            return False
        return len(matching) > 1 or any(_never_allows(budget) for budget in matching)


def _never_allows(budget: PodDisruptionBudget) -> bool:
    return budget.max_unavailable in ("0", "0%") or budget.min_available == "100%"


def _virtual_pods(buffer: CapacityBuffer) -> Iterable[Pod]:
    """Pods that stand for a buffer's room, named as in Karpenter."""
    marks = {BUFFER_MARK: "true", BUFFER_NAME: buffer.name, BUFFER_NAMESPACE: buffer.namespace}
    for number in range(1, buffer.pods + 1):
        name = f"capacity-buffer-{buffer.name}-{number}"
        if name not in buffer.requested:
            yield Pod(
                namespace=buffer.namespace,
                name=name,
                uid=f"{buffer.uid}-{number}",
                spec=buffer.spec,
                labels=buffer.labels,
                annotations=marks,
            )
