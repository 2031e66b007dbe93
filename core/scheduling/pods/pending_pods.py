"""Selects the pods to plan for: pods that the scheduler could not bind, and virtual pods of capacity buffers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core.model.overlay import CapacityBuffer
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.pods.disposition import is_pending
from core.pods.scheduler_verdict import mark_untried_pods

BUFFER_MARK: Final = "karpenter.sh/capacity-buffer-fake-pod"
BUFFER_NAME: Final = "karpenter.sh/capacity-buffer-name"
BUFFER_NAMESPACE: Final = "karpenter.sh/capacity-buffer-namespace"


def pending_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return pods that wait for a node, and virtual pods of capacity buffers; by key."""
    mark = snapshot.options.requires_unschedulable_mark
    pods = mark_untried_pods(snapshot.pods, snapshot.options) if mark else snapshot.pods
    found = [pod for pod in pods if is_pending(pod, requires_mark=mark)]
    if snapshot.options.feature_gates.capacity_buffer:
        found += [pod for buffer in snapshot.buffers for pod in _virtual_pods(buffer)]
    return tuple(sorted(found, key=lambda pod: pod.key))


def is_virtual(pod: Pod) -> bool:
    """Whether a pod only keeps room free for a capacity buffer."""
    return pod.annotations.get(BUFFER_MARK) == "true"


def buffer_of(pod: Pod) -> str:
    """Return `namespace/name` of a virtual pod's buffer."""
    return f"{pod.annotations[BUFFER_NAMESPACE]}/{pod.annotations[BUFFER_NAME]}"


def _virtual_pods(buffer: CapacityBuffer) -> Iterable[Pod]:
    """Return a buffer's virtual pods, named as in Karpenter."""
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
