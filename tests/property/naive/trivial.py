"""A trivial planner: one node for each pod, the largest first, in the first zone that admits it.

It supports the clusters of `tight` only: one NodePool, every type in every zone, rules along zones and hostnames.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from core import labels
from core.model.plan import Plan
from core.model.pod import LabelSelector, Pod, TopologySpread
from core.model.snapshot import Snapshot

Where = list[tuple[Pod, str]]
"""Pods with their zones; each has its own node."""

ZoneOrder = Callable[[Pod, list[str], Where], list[str]]


class TrivialPlanner:
    """Places the pods of one cluster.

    Attributes:
        waiting: Pods that need a place, the largest first.
        price: Nano-dollars per hour of the cheapest node of every waiting pod.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.zones = sorted({o.zone for kind in snapshot.catalogue.default for o in kind.offerings})
        zone_of = {node.name: node.labels[labels.ZONE] for node in snapshot.nodes}
        self._running = [(pod, zone_of[pod.node_name]) for pod in snapshot.pods if pod.node_name]
        waiting = [pod for pod in snapshot.pods if not pod.node_name]
        self.waiting = sorted(waiting, key=lambda pod: (-pod.spec.requests["cpu"], pod.name))
        self.price = {pod.key: _cheapest(snapshot, pod) for pod in waiting}

    def placed(self, order: ZoneOrder) -> Where:
        """The pods that get a place, in rounds until no further pod does."""
        there = list(self._running)
        queue, before = [pod for pod in self.waiting if self.price[pod.key]], -1
        while len(queue) != before:
            before, waiting = len(queue), []
            for pod in queue:
                admitted = [zone for zone in self.zones if self._admits(pod, zone, there)]
                if admitted:
                    there.append((pod, order(pod, admitted, there)[0]))
                else:
                    waiting.append(pod)
            queue = waiting
        return there[len(self._running) :]

    def _admits(self, pod: Pod, zone: str, there: Where) -> bool:
        if not all(requirement.has(zone) for requirement in pod.spec.node_selector if requirement.key == labels.ZONE):
            return False
        for other, where in there:
            for owner, term, seen in (
                *((pod, term, other) for term in pod.spec.anti_affinity),
                *((other, term, pod) for term in other.spec.anti_affinity),
            ):
                if (
                    owner is not seen
                    and term.topology_key == labels.ZONE
                    and where == zone
                    and _picks(term.selector, seen)
                ):
                    return False
        for term in pod.spec.affinity:
            near = [where for other, where in there if _picks(term.selector, other)]
            if zone not in near and (near or not _picks(term.selector, pod)):
                return False
        return all(self._is_even(pod, zone, there, spread) for spread in pod.spec.spreads)

    def _is_even(self, pod: Pod, zone: str, there: Where, spread: TopologySpread) -> bool:
        allowed = [z for z in self.zones if all(requirement.has(z) for requirement in pod.spec.node_selector)]
        counts = dict.fromkeys(allowed, 0)
        for other, where in there:
            if where in counts and _picks(spread.selector, other):
                counts[where] += 1
        least = min(counts.values()) if len(counts) >= (spread.min_domains or 0) else 0
        return counts[zone] + _picks(spread.selector, pod) - least <= spread.max_skew


def zone_orders(seeds: int) -> list[ZoneOrder]:
    """Ways to choose among zones that admit a pod: by name, emptiest, fullest, most alike pods, at random."""

    def count(where: Where, zone: str, pod: Pod | None = None) -> int:
        return sum(z == zone and (pod is None or other.labels == pod.labels) for other, z in where)

    orders: list[ZoneOrder] = [
        lambda _, zones, __: zones,
        lambda _, zones, __: zones[::-1],
        lambda _, zones, where: sorted(zones, key=lambda z: count(where, z)),
        lambda _, zones, where: sorted(zones, key=lambda z: -count(where, z)),
        lambda pod, zones, where: sorted(zones, key=lambda z: count(where, z, pod)),
        lambda pod, zones, where: sorted(zones, key=lambda z: -count(where, z, pod)),
    ]
    for seed in range(seeds):
        dice = Random(seed)  # noqa: S311 - a test's dice
        orders.append(lambda _, zones, __, dice=dice: dice.sample(zones, len(zones)))  # type: ignore[misc]
    return orders


def _picks(selector: LabelSelector | None, pod: Pod) -> bool:
    return selector is not None and selector.matches(pod.labels)


def _cheapest(snapshot: Snapshot, pod: Pod) -> int:
    fitting = (
        min(offering.price for offering in kind.offerings)
        for kind in snapshot.catalogue.default
        if all(kind.capacity.get(name, 0) >= amount for name, amount in pod.spec.requests.items())
    )
    return min(fitting, default=0)


def beaten(snapshot: Snapshot, plan: Plan, seeds: int = 6) -> list[str]:
    """In what a trivial planner beats a plan: more placed pods, or the same pods at a lower price."""
    trivial = TrivialPlanner(snapshot)
    most = max(len(trivial.placed(order)) for order in zone_orders(seeds))
    on_claims = [key for claim in plan.claims for key in claim.pods]
    placed = len(on_claims) + len(plan.bindings)
    lost = [f"beaten: {most} of {len(trivial.waiting)} pods could have a place, not {placed}"] if placed < most else []
    price, alone = sum(claim.price for claim in plan.claims), sum(trivial.price[key] for key in on_claims)
    return lost + (
        [f"dear: {price} nano-dollars an hour, and {alone} with a node for each pod"] if price > alone else []
    )
