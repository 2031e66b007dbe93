"""The cost report of a period: dollars by cause, from launch records and snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.commitments import coverage_of
from core.counterfactual.overrides import ProvenMinimum
from core.ledger.outcome import DecisionOutcome, InstanceLife
from core.model.catalogue import Catalogue
from core.model.plan import Blocked, DisruptionPlan
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values.quantity import MICROSECOND, MICROSECONDS_PER_HOUR
from core.pools import node_price, pool_types, type_of

# The instance hours of a period, and their cost at launch prices.


def lives(outcomes: Iterable[DecisionOutcome]) -> tuple[InstanceLife, ...]:
    """Return each instance once, in the order of their launches.

    A launch record has the exact time; an end record estimates it. The earliest end record counts.
    """
    recorded = [outcome.instance for outcome in outcomes if outcome.instance is not None]
    by_instance: dict[str, InstanceLife] = {}
    for life in sorted(recorded, key=lambda life: (life.ended_at is not None, life.launched_at)):
        counted = by_instance.setdefault(life.instance, life)
        if life.ended_at is not None and (counted.ended_at is None or life.ended_at < counted.ended_at):
            by_instance[life.instance] = msgspec.structs.replace(counted, ended_at=life.ended_at)
    return tuple(sorted(by_instance.values(), key=lambda life: (life.launched_at, life.instance)))


def overlap(life: InstanceLife, since: datetime, until: datetime) -> timedelta:
    """Return how long the instance ran in the period."""
    end = until if life.ended_at is None else min(life.ended_at, until)
    return max(end - max(life.launched_at, since), timedelta(0))


def cost(price: int, span: timedelta) -> int:
    """Return nano-dollars for a price per hour and a span of time."""
    return price * (span // MICROSECOND) // MICROSECONDS_PER_HOUR


# Divides a node by requests: one share per namespace, and one for what no pod requested.


IDLE: Final = "(idle)"
"""The share that no pod requested."""

_COUNTED: Final = ("cpu", "memory")


def node_shares(state: StateNode) -> dict[str, float]:
    """Return namespace → its share of the node; all shares, with `IDLE`, sum to one.

    A pod's share is the larger of its shares of processor and memory. If pods together request more than the node has,
    their shares are scaled down.
    """
    shares: dict[str, float] = {}
    for pod in state.pods:
        shares[pod.namespace] = shares.get(pod.namespace, 0.0) + _share(pod, state)
    total = sum(shares.values())
    if total > 1:
        return {namespace: share / total for namespace, share in sorted(shares.items())}
    return {**dict(sorted(shares.items())), IDLE: 1 - total}


def _share(pod: Pod, state: StateNode) -> float:
    room = state.allocatable
    parts: Sequence[float] = [pod.spec.requests.get(name, 0) / room[name] for name in _COUNTED if room.get(name)]
    return max(parts, default=0.0)


UNSEEN: Final = "(not seen)"
"""The cost of instances before any snapshot shows their node: they boot, or the ledger starts later."""

NODE_POOL: Final = "nodepool"
NAMESPACE: Final = "namespace"
CAPACITY_TYPE: Final = "capacity-type"
INSTANCE_TYPE: Final = "instance-type"
ZONE: Final = "zone"

_FIELDS: Final = {
    NODE_POOL: "node_pool",
    CAPACITY_TYPE: "capacity_type",
    INSTANCE_TYPE: "instance_type",
    ZONE: "zone",
}


class ReportedDecision(msgspec.Struct, frozen=True):
    """The snapshot of a decision, and for a decision of `disrupt` its plan."""

    snapshot: Snapshot
    plan: DisruptionPlan | None = None


class IdleCause(msgspec.Struct, frozen=True, order=True):
    """Why idle capacity was paid for: the reason that kept its nodes, with the sentence that names the object."""

    reason: str
    message: str


class CostReport(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a period.

    Attributes:
        cost: Nano-dollars of all instances at the price of their launch.
        hours: Of all instances together.
        by: Table → name → nano-dollars; each sums to `cost`.
        covered: Nano-dollars of them that commitments cover, as far as snapshots show; None where they name no commitment.
        on_demand: What the same instances would cost on demand, at the last snapshot's prices; None without snapshots.
        idle: Nano-dollars of capacity that no pod requested, as far as snapshots show.
        causes: The same by what kept the nodes, the largest cost first; nodes that nothing kept are left out.
        minimum: The proven minimum of the fleet beside its cost by snapshots, both less what commitments cover, or None.
    """

    cost: int
    hours: float
    instances: int
    by: dict[str, dict[str, int]]
    covered: int | None
    on_demand: int | None
    idle: int
    causes: tuple[tuple[IdleCause, int], ...]
    minimum: ProvenMinimum | None


class ReportBuilder:
    """Add the snapshots of a period in order of time, then get the report."""

    def __init__(self, lives: Sequence[InstanceLife], since: datetime, until: datetime) -> None:
        self._by_id = {life.instance: life for life in lives if overlap(life, since, until)}
        self._recorded = frozenset(self._by_id)
        self._since, self._until = since, until
        self._last: ReportedDecision | None = None
        self._said: DisruptionPlan | None = None
        self._namespaces: Counter[str] = Counter()
        self._causes: Counter[IdleCause] = Counter()
        self._idle = self._covered = self._minimum = self._minimum_cost = 0
        self._has_commitments = False
        self._minimum_over = timedelta(0)
        self._catalogue: Catalogue | None = None

    def see(self, decision: ReportedDecision) -> None:
        """Charge the time since the last snapshot, then take this one as the last."""
        self._charge(decision.snapshot.now)
        self._adopt(decision.snapshot)
        self._has_commitments |= bool(decision.snapshot.options.commitments)
        self._last, self._said = decision, decision.plan or self._said
        self._catalogue = decision.snapshot.catalogue

    def report(self) -> CostReport:
        """The report."""
        self._charge(self._until)
        self._last = None
        by = {name: self._sums(field) for name, field in _FIELDS.items()}
        total = sum(self._cost_of(life) for life in self._lives)
        unseen = total - sum(self._namespaces.values())
        namespaces = dict(self._namespaces) | ({UNSEEN: unseen} if unseen else {})
        return CostReport(
            cost=total,
            hours=sum((overlap(life, self._since, self._until) for life in self._lives), timedelta(0))
            / timedelta(hours=1),
            instances=len(self._lives),
            by={**by, NAMESPACE: _largest_first(namespaces)},
            covered=self._covered if self._has_commitments else None,
            on_demand=self._on_demand(),
            idle=self._idle,
            causes=tuple(sorted(self._causes.items(), key=lambda item: (-item[1], item[0]))),
            minimum=self._proven(),
        )

    @property
    def _lives(self) -> tuple[InstanceLife, ...]:
        return tuple(life for life in self._by_id.values() if overlap(life, self._since, self._until))

    def _adopt(self, snapshot: Snapshot) -> None:
        """Add instances that are older than the ledger: only snapshots show them."""
        types, present = pool_types(snapshot), set[str]()
        for state in state_nodes(snapshot):
            instance = state.provider_id.rpartition("/")[2]
            present.add(instance)
            if state.claim is None or not instance or instance in self._by_id:
                continue
            node_labels = state.labels
            self._by_id[instance] = InstanceLife(
                instance=instance,
                claim=state.claim_name,
                node_pool=state.node_pool,
                instance_type=node_labels.get(labels.INSTANCE_TYPE, ""),
                zone=node_labels.get(labels.ZONE, ""),
                capacity_type=node_labels.get(labels.CAPACITY_TYPE, ""),
                price=node_price(node_labels, type_of(node_labels, types.by_name(state.node_pool))),
                launched_at=state.claim.created_at or snapshot.now,
            )
        for instance in self._by_id.keys() - self._recorded - present:
            life = self._by_id[instance]
            if life.ended_at is None:
                self._by_id[instance] = msgspec.structs.replace(life, ended_at=snapshot.now)

    def _cost_of(self, life: InstanceLife) -> int:
        return cost(life.price, overlap(life, self._since, self._until))

    def _sums(self, field: str) -> dict[str, int]:
        sums: Counter[str] = Counter()
        for life in self._lives:
            sums[getattr(life, field)] += self._cost_of(life)
        return _largest_first(sums)

    def _charge(self, until: datetime) -> None:
        if self._last is None:
            return
        since = max(self._last.snapshot.now, self._since)
        kept = {blocked.node: IdleCause(blocked.reason, blocked.message) for blocked in self._blocked()}
        paid, coverage = 0, coverage_of(self._last.snapshot).nodes
        for state in state_nodes(self._last.snapshot):
            life = self._by_id.get(state.provider_id.rpartition("/")[2])
            if life is None:
                continue
            span = overlap(life, since, until)
            spent = cost(life.price, span)
            uncovered = min(spent, cost(coverage[state.name].price, span)) if state.name in coverage else spent
            self._covered += spent - uncovered
            paid += uncovered
            shares = node_shares(state)
            self._namespaces += Counter({name: int(spent * share) for name, share in shares.items()})
            idle = int(spent * shares.get(IDLE, 0.0))
            self._idle += idle
            if state.name in kept:
                self._causes[kept[state.name]] += idle
        self._charge_minimum(until - since, paid)

    def _blocked(self) -> Sequence[Blocked]:
        return self._said.blocked if self._said is not None else ()

    def _charge_minimum(self, span: timedelta, spent: int) -> None:
        bound = self._said.cost.lower_bound if self._said is not None else None
        if bound is not None and span > timedelta(0):
            self._minimum += cost(bound, span)
            self._minimum_cost += spent
            self._minimum_over += span

    def _proven(self) -> ProvenMinimum | None:
        if not self._minimum_over:
            return None
        return ProvenMinimum(cost=self._minimum, spent=self._minimum_cost, over=self._minimum_over)

    def _on_demand(self) -> int | None:
        if self._catalogue is None:
            return None
        markets = (
            self._catalogue.default,
            *(class_types for _, class_types in sorted(self._catalogue.by_node_class.items())),
        )
        types = {class_types.name: class_types for market in markets for class_types in market}
        total = 0
        for life in self._lives:
            offered = types[life.instance_type].offerings if life.instance_type in types else ()
            prices = [o.price for o in offered if o.zone == life.zone and o.capacity_type == labels.ON_DEMAND]
            total += cost(min(prices, default=life.price), overlap(life, self._since, self._until))
        return total


def _largest_first(costs: dict[str, int]) -> dict[str, int]:
    return dict(sorted(costs.items(), key=lambda item: (-item[1], item[0])))
