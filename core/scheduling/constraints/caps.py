"""Keeps a plan within the caps of Calendars: what nodes for the pods of a namespace or a team may take at a time.

A node counts for the caps that select its pods, by their share of what all pods request that it is launched for. The share is
decided with the launch and stays until the instance is gone, whatever pods come later. A claim counts at its largest type.

Few plans come near a cap: the finished plan is only compared with them. If it exceeds one, its claims keep only types nearer in
size to their cheapest one. If even these exceed it, the plan is made again with types for which the cap has room; then again
without the least important pods under the cap, which are held back. Each time fewer pods are left, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Final, NamedTuple

from core import labels
from core.model.node_pool import GROUP_COUNTER, NO_ON_DEMAND_FALLBACK, Cap
from core.model.plan import NodeClaim, Unschedulable
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements
from core.pools import charges_of, holder, share_in, share_of
from core.reasons.pods import PodReason
from core.scheduling.instance_types import unmet
from core.scheduling.new_node import InFlightClaim, NodeClaimTemplate, Room, is_cap, largest_amount, room_of
from core.scheduling.primitives import IMPOSSIBLE, TypeMask
from core.spending import buys_no_on_demand, spending_of

TIMES: Final = (4, 2, 1)
"""Bounds on what a claim's types take of a capped resource, as multiples of its cheapest type's, from the loosest on."""

PARTIAL_PLANS_MAX: Final = 6
"""How many plans may keep some pods of a claim that exceeds a cap, in the hope of a smaller node; later ones keep none."""

Pins = dict[str, Requirements]
"""Key of a pod → requirements on its node beside its own."""

_LATE: Final = datetime.max.replace(tzinfo=UTC)


class _Charged(NamedTuple):
    """A claim of the plan, its types, and the share that each cap counts of it, in millionths."""

    claim: InFlightClaim
    types: TypeMask
    shares: dict[str, int]

    def amounts(self, cap: Cap) -> dict[str, int]:
        """Return what the cap counts of the claim at the most."""
        types = self.claim.template.types
        largest = {name: largest_amount(types, self.types, name) for name in sorted(cap.limits)}
        return share_in(largest, self.shares[cap.name])


class RemainingCaps:
    """What nodes and stored claims leave of each cap that counts nodes by their pods."""

    def __init__(
        self,
        snapshot: Snapshot,
        states: Iterable[StateNode],
        unlaunched: Iterable[NodeClaim],
        price_of: Callable[[StateNode], int],
    ) -> None:
        self.caps = {cap.name: cap for pool in snapshot.node_pools for cap in pool.caps}
        used: dict[str, dict[str, int]] = {name: {} for name in self.caps}
        if self.caps:
            for state in states:
                _count(used, state.claim, _amounts_of(state, snapshot, price_of))
            for claim in unlaunched:
                _count(used, claim, {**claim.resources, quantity.NODES: 1})
        self.used = used
        self._snapshot = snapshot
        self.rooms: dict[str, Room] = {name: room_of(cap.limits, used[name]) for name, cap in sorted(self.caps.items())}

    def shares(self, claim: InFlightClaim) -> dict[str, int]:
        """Return cap → the share that it counts of a claim of the plan; caps that count nothing are left out."""
        pods, counting = claim.pods, claim.template.pool.caps
        total = _requests(pods)
        parts = {cap.name: [pod for pod in pods if cap.selects(pod.namespace, pod.labels)] for cap in counting}
        return {name: share_of(_requests(part), total) for name, part in parts.items() if part}

    def exceeded_by(self, claims: Sequence[InFlightClaim]) -> list[Cap]:
        """Restrict the claims of a plan so that they exceed no cap together; else return the caps that they exceed."""
        if not self.caps:
            return []
        charged = self._charged(claims)
        exceeded = self._exceeded(charged)
        if not exceeded:
            return []
        restricted = charged
        for times in TIMES:
            restricted = [_nearer(charge, exceeded, times) for charge in charged]
            if not self._exceeded(restricted):
                for charge in restricted:
                    charge.claim.allowed &= charge.types
                return []
        return self._exceeded(restricted)

    def sizes(
        self, exceeded: Iterable[Cap], templates: Sequence[NodeClaimTemplate], claims: Sequence[InFlightClaim]
    ) -> Pins:
        """Return key of a pod → the instance types that its cap has room for, so that no node outgrows them.

        Pods of a cap that has room for no type are left out.
        """
        pins: dict[str, Requirements] = {}
        for cap in exceeded:
            names = sorted({name for template in templates for name in self._types_with_room(cap, template)})
            pin = Requirements([Requirement.one_of(labels.INSTANCE_TYPE, *names)])
            pods = [pod for claim in claims for pod in claim.pods if names and cap.selects(pod.namespace, pod.labels)]
            pins |= {pod.key: pins[pod.key].merged(pin.values()) if pod.key in pins else pin for pod in pods}
        return pins

    def _types_with_room(self, cap: Cap, template: NodeClaimTemplate) -> tuple[str, ...]:
        """Return the names of a NodePool's types of which the cap has room for a node.

        All types, if the cap does not count the NodePool's nodes, or if minValues need them.
        """
        types, mask = template.types, template.mask
        if cap in template.pool.caps and not template.min_values:
            for name, amount in self.rooms[cap.name].items():
                if name != quantity.NODES:
                    mask &= types.room.capacities(name).at_most(max(0, amount))
        return types.names(mask)

    def held(
        self, exceeded: Iterable[Cap], claims: Sequence[InFlightClaim], *, keeps_part: bool
    ) -> dict[str, Unschedulable]:
        """Return the pods to hold back so that the others' claims exceed no cap; at least one.

        Args:
            exceeded: The caps, as of `exceeded_by`.
            claims: Those of the plan.
            keeps_part: Whether some pods of a claim that exceeds a cap may stay, for smaller nodes.
        """
        exceeded = tuple(exceeded)
        restricted = [_nearer(charge, exceeded, TIMES[-1]) for charge in self._charged(claims)]
        held: dict[str, Unschedulable] = {}
        for cap in exceeded:
            held |= self._held(cap, restricted, keeps_part=keeps_part)
        return held

    def _charged(self, claims: Iterable[InFlightClaim]) -> list[_Charged]:
        return [_Charged(claim, claim.fitting_types, self.shares(claim)) for claim in claims]

    def _exceeded(self, charged: Iterable[_Charged]) -> list[Cap]:
        after = {name: dict(room) for name, room in self.rooms.items()}
        charging = set[str]()
        for charge in charged:
            for name in charge.shares:
                charging.add(name)
                for resource, amount in charge.amounts(self.caps[name]).items():
                    after[name][resource] -= amount
        return [self.caps[name] for name in sorted(charging) if any(amount < 0 for amount in after[name].values())]

    def _held(self, cap: Cap, charged: Iterable[_Charged], *, keeps_part: bool) -> dict[str, Unschedulable]:
        """Return the pods that the cap has no room for: those of the claims with the least important pods."""
        room, held = dict(self.rooms[cap.name]), dict[str, Unschedulable]()
        under = [charge for charge in charged if cap.name in charge.shares]
        for charge in sorted(
            under,
            key=lambda charge: (min(map(_importance, charge.claim.pods)), charge.claim.index),
        ):
            amounts = charge.amounts(cap)
            if all(amount <= room[name] for name, amount in amounts.items()):
                room = {name: room[name] - amounts[name] for name in room}
                continue
            pods = sorted((p for p in charge.claim.pods if cap.selects(p.namespace, p.labels)), key=_importance)
            kept = _kept(len(pods), room, amounts) if keeps_part else 0
            why = _why(cap, room, amounts, spending_of(self._snapshot, cap.name) if cap.periods else "")
            held |= {pod.key: Unschedulable(pod.key, PodReason.BUDGET_EXHAUSTED, why) for pod in pods[kept:]}
            if kept:
                room = dict.fromkeys(room, 0)
        return held


def without_fallback(claims: Iterable[InFlightClaim], excluded: AbstractSet[str]) -> dict[str, str]:
    """Return key of a pod → the cap by which its node must not be bought on demand; `excluded` pods are left out.

    Concerned are nodes that may be spot ones: what runs on demand only is no fallback. Pods that still have a node are left
    out: they wait once they have lost it.
    """
    saved: dict[str, str] = {}
    for claim in claims:
        table, kinds = claim.template.types.table, (labels.SPOT, labels.ON_DEMAND)
        if claim.template.pool.saving_caps and all(
            table.with_value(claim.reqs, labels.CAPACITY_TYPE, kind) != IMPOSSIBLE for kind in kinds
        ):
            pods = [pod for pod in claim.pods if not pod.node_name and pod.key not in excluded]
            caps = {pod.key: buys_no_on_demand(claim.template.pool.saving_caps, pod) for pod in pods}
            saved |= {key: cap.name for key, cap in caps.items() if cap is not None}
    return saved


def why_no_fallback(snapshot: Snapshot, pod: str, cap: str) -> Unschedulable:
    """Return why a pod has no node that no spot capacity is found for."""
    message = (
        f"cap {cap}: {spending_of(snapshot, cap)}: with {NO_ON_DEMAND_FALLBACK}, no on-demand node is bought for the pod, "
        "and there is no spot capacity for it now"
    )
    return Unschedulable(pod, PodReason.BUDGET_EXHAUSTED, message)


def beyond(pod: str, counter: str) -> Unschedulable:
    """Return why a pod has no node whose claim a counter of limits refused: other runs were faster."""
    is_of_cap = is_cap(counter.removeprefix(GROUP_COUNTER))
    reason = PodReason.BUDGET_EXHAUSTED if is_of_cap else PodReason.LIMIT_REACHED
    return Unschedulable(pod, reason, f"the limits of {holder(counter)} are used up")


def _amounts_of(state: StateNode, snapshot: Snapshot, price_of: Callable[[StateNode], int]) -> dict[str, int]:
    """Return what caps count of a node: while it leaves, only what it costs, until it is gone."""
    price = {quantity.HOURLY: max(state.capacity.get(quantity.HOURLY, 0), price_of(state))}
    return price if state.is_marked_for_deletion(snapshot) else {**state.capacity, quantity.NODES: 1, **price}


def _count(used: Mapping[str, dict[str, int]], claim: NodeClaim | None, amounts: Mapping[str, int]) -> None:
    for cap, share in charges_of(claim.annotations if claim is not None else {}).items():
        if cap in used:
            used[cap].update(quantity.add(used[cap], share_in(amounts, share)))


def price_for(claim: InFlightClaim, pod: Pod) -> int:
    """Return a pod's share of the price of a claim of the plan, in nano-dollars an hour."""
    share = share_of(_requests([pod]), _requests(claim.pods))
    return -(-claim.price * share // quantity.PPM)


def _requests(pods: Iterable[Pod]) -> dict[str, int]:
    requests: dict[str, int] = {}
    for pod in pods:
        for name, amount in {quantity.PODS: 1, **pod.spec.requests}.items():
            requests[name] = requests.get(name, 0) + amount
    return requests


def _importance(pod: Pod) -> tuple[int, datetime, str]:
    """The most important pod is the smallest: by priority, then age."""
    return -pod.spec.priority, pod.created_at or _LATE, pod.key


def _nearer(charge: _Charged, exceeded: Sequence[Cap], times: int) -> _Charged:
    """Return a claim that an exceeded cap counts with types near its cheapest one; all of them if minValues need more."""
    caps = [cap for cap in exceeded if cap.name in charge.shares]
    claim, types, kept = charge.claim, charge.claim.template.types, charge.types
    cheapest = next(iter(types.offerings.positions_in_price_order(charge.types, claim.reqs)), None)
    if not caps or cheapest is None:
        return charge
    for name in sorted({name for cap in caps for name in cap.limits if name != quantity.NODES}):
        kept &= types.room.capacities(name).at_most(times * types.types[cheapest].capacity.get(name, 0))
    return charge if unmet(types, kept, claim.min_values, claim.reqs) else charge._replace(types=kept)


def _kept(pods: int, room: Mapping[str, int], amounts: Mapping[str, int]) -> int:
    """Return how many of a claim's pods smaller nodes may hold in the room that is left; fewer than all.

    It is twice their part of the claim, since small nodes fit the last pods better; the next plan holds back what is too much.
    """
    parts = (-(-2 * pods * max(0, room[name]) // amount) for name, amount in amounts.items() if amount > room[name])
    return min(pods - 1, *parts)


def _why(cap: Cap, room: Mapping[str, int], amounts: Mapping[str, int], note: str) -> str:
    """Return which limit of the cap leaves too little, and what would free it; `note` if that is a period's."""
    name = next((name for name in sorted(amounts) if amounts[name] > room[name]), min(amounts))
    unit = "$" if name == quantity.HOURLY else ""
    remaining, limit, amount, lacking = (
        f"{unit}{quantity.render(max(0, value), name)}"
        for value in (room[name], cap.limits[name], amounts[name], amounts[name] - room[name])
    )
    what = "that cost" if unit else "with"
    counted = f"{lacking} an hour" if unit else f"{lacking} {name}"
    spent = f"{note}: " if note and name == quantity.HOURLY else ""
    return (
        f"cap {cap.name}: {spent}its limit {name} leaves {remaining} of {limit}, and a node for the pod may take {amount}: "
        f"a node comes once others {what} {counted} have left, or the cap is raised"
    )
