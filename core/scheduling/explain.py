"""Explains one pod: where it would go, or what every NodePool lacks for it."""

from __future__ import annotations

import msgspec

from core.errors import InvalidInputError
from core.model.snapshot import Snapshot
from core.scheduling.diagnosis import PoolFinding
from core.scheduling.planner import Planner


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of a pod.

    Attributes:
        placed_on: Name of the node or of the new claim that takes it, empty where none does.
        reason, message: Why none does.
        pools: What a new node of each NodePool lacks for it once all other pods have their places; an empty reason means
            that it would do.
    """

    pod: str
    placed_on: str = ""
    reason: str = ""
    message: str = ""
    pools: tuple[PoolFinding, ...] = ()


def explain_pod(snapshot: Snapshot, pod_key: str) -> PodExplanation:
    """Where a pending pod would go and what each NodePool could do for it.

    Args:
        snapshot: The world.
        pod_key: `namespace/name`.

    Raises:
        InvalidInputError: If there is no such pod, or it does not wait for a node.
    """
    if all(pod.key != pod_key for pod in snapshot.pods):
        raise InvalidInputError("no such pod; name it as namespace/name", subject=f"Pod {pod_key}")
    planner = Planner(snapshot)
    verdict = planner.verdict(pod_key)
    if verdict is None:
        raise InvalidInputError(
            "does not wait for a node: it is bound, gated, finished or not planned for", subject=f"Pod {pod_key}"
        )
    placed_on = _place(planner, pod_key)
    return PodExplanation(
        pod=pod_key,
        placed_on=placed_on,
        reason="" if placed_on else verdict.reason,
        message="" if placed_on else verdict.message,
        pools=verdict.pools,
    )


def _place(planner: Planner, pod_key: str) -> str:
    plan = planner.plan()
    for claim in plan.claims:
        if pod_key in claim.pods:
            return claim.name
    return next((binding.node for binding in plan.bindings if binding.pod == pod_key), "")
