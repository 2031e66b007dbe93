"""The burst and the night after it, measured on either side by what the API server says."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from tests.e2e.peer import objects
from tests.e2e.peer.figures import Burst, Halved, Result
from tests.e2e.peer.karpenter_side import Side
from tests.e2e.peer.objects import NANO, Prices


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The longest waits, in seconds.

    Attributes:
        quiet: So long without a change of the nodes is settled: two looks of `disrupt` with what it checks in between.
    """

    running: float = 1200.0
    settled: float = 600.0
    quiet: float = 150.0


POLL_INTERVAL: Final = 1.0


def measure(side: Side, pods: int, prices: Prices, limits: Limits) -> Result:
    """Play one size on a side that is ready for pods and has none."""
    result = Result(side=side.name, pods=pods, taken_at=datetime.now(UTC).isoformat(timespec="seconds"), load=[_load()])
    side.apply_pools(objects.pools())
    deployments = objects.workload(pods)
    result.burst = _burst(side, deployments, prices, limits)
    result.halved = _halve(side, deployments, prices, limits)
    result.failures = side.failures()
    result.load.append(_load())
    return result


def _burst(side: Side, deployments: Sequence[JsonObject], prices: Prices, limits: Limits) -> Burst:
    admin, began = side.admin, time.time()
    admin.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects.NAMESPACE}}, *deployments])
    end = time.monotonic() + limits.running
    while (waiting := _waiting(side)) and time.monotonic() < end:
        time.sleep(POLL_INTERVAL)
    claims, nodes = sorted(side.claims()), admin.list("nodes")
    return Burst(
        first_claim_seconds=_since(began, claims[0]) if claims else 0.0,
        last_claim_seconds=_since(began, claims[-1]) if claims else 0.0,
        last_running_seconds=None if waiting else _since(began, _last_ready(admin.list("pods", objects.NAMESPACE))),
        waiting=waiting,
        pod_seconds=_spreads(_moments(pod, began) for pod in admin.list("pods", objects.NAMESPACE)),
        claim_seconds=_spreads(side.claim_moments()),
        claims=len(claims),
        nodes=len(nodes),
        dollars_per_hour=_dollars(prices.per_hour(nodes)),
        footprint=side.footprint(),
    )


def _halve(side: Side, deployments: Sequence[JsonObject], prices: Prices, limits: Limits) -> Halved:
    """Half of each Deployment's pods go and consolidation begins; wait until the nodes change no more."""
    admin, evictions, began = side.admin, side.evictions(), time.monotonic()
    before = {node["metadata"]["name"] for node in admin.list("nodes")}
    for one in deployments:
        half = {"spec": {"replicas": one["spec"]["replicas"] // 2}}
        admin.patch("deployments.apps", one["metadata"]["name"], half, objects.NAMESPACE)
    for pool in objects.pools():
        admin.patch("nodepools.karpenter.sh", pool["metadata"]["name"], objects.consolidating())
    trail: list[tuple[float, int, float]] = []
    seen: object = None
    changed = began
    while (now := time.monotonic()) < min(changed + limits.quiet, began + limits.settled):
        nodes = admin.list("nodes")
        state = (sorted(node["metadata"]["name"] for node in nodes), sorted(_leaving(nodes)), _waiting(side) > 0)
        if state != seen or _leaving(nodes):
            changed = now
        if state != seen:
            trail.append((round(now - began, 1), len(nodes), _dollars(prices.per_hour(nodes))))
        seen = state
        time.sleep(POLL_INTERVAL)
    nodes = admin.list("nodes")
    return Halved(
        seconds=round(changed - began, 1),
        is_settled=time.monotonic() >= changed + limits.quiet,
        evictions=side.evictions() - evictions,
        launched=sum(1 for node in nodes if node["metadata"]["name"] not in before),
        waiting=_waiting(side),
        nodes=len(nodes),
        dollars_per_hour=_dollars(prices.per_hour(nodes)),
        trail=trail,
        footprint=side.footprint(),
    )


def _waiting(side: Side) -> int:
    """Return the number of desired pods that are not ready, by the Deployments' status."""
    found = side.admin.list("deployments.apps", objects.NAMESPACE)
    return sum(max(0, one["spec"]["replicas"] - one["status"].get("readyReplicas", 0)) for one in found)


def _leaving(nodes: Sequence[JsonObject]) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in nodes
        if "deletionTimestamp" in node["metadata"]
        or any(taint["key"] == labels.DISRUPTED_TAINT for taint in node["spec"].get("taints") or ())
    ]


def _last_ready(pods: Sequence[JsonObject]) -> datetime:
    """Return the time at which the last pod became ready, in whole seconds."""
    return max(
        datetime.fromisoformat(condition["lastTransitionTime"])
        for pod in pods
        for condition in pod["status"]["conditions"]
        if condition["type"] == "Ready"
    )


def _moments(pod: JsonObject, began: float) -> dict[str, float]:
    """Seconds until a pod was bound and ready, whole seconds as Kubernetes keeps them."""
    conditions = {one["type"]: one for one in pod["status"].get("conditions") or () if one["status"] == "True"}
    return {
        name: _since(began, datetime.fromisoformat(conditions[kind]["lastTransitionTime"]))
        for kind, name in (("PodScheduled", "bound"), ("Ready", "ready"))
        if kind in conditions
    }


def _spreads(found: Iterable[dict[str, float]]) -> dict[str, tuple[float, float, float]]:
    """Return minimum, median and maximum for each moment."""
    by_moment: dict[str, list[float]] = defaultdict(list)
    for one in found:
        for moment, seconds in one.items():
            by_moment[moment].append(round(seconds, 1))
    return {moment: (min(all_), median(all_), max(all_)) for moment, all_ in by_moment.items()}


def _since(began: float, then: datetime) -> float:
    return round(then.timestamp() - began, 1)


def _dollars(nano: int) -> float:
    return round(nano / NANO, 4)


def _load() -> float:
    return round(os.getloadavg()[0], 1)
