"""The status of a cluster at one moment: each NodePool's nodes, their cost, its budgets, and the nodes that use them up."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core import labels
from core.commitments import paid_price
from core.disruption.budgets import BudgetChange, counted_nodes, next_change, remaining, unreadable
from core.model.node_pool import NodePool
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values import quantity
from core.pods import is_pending
from core.pools import node_prices
from core.scheduling.constraints.caps import RemainingCaps
from core.scheduling.new_node import used_by_pool
from core.spending import PeriodState, period_states

GOES = "goes"
NOT_READY = "NotReady"


class CountedNode(msgspec.Struct, frozen=True, order=True):
    """A node that counts against its NodePool's budgets because it is leaving or not Ready."""

    node: str
    why: str


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One NodePool.

    Attributes:
        nodes: Number of nodes, including those that have not joined yet.
        starting: Number of those that are not ready for pods yet.
        pods: Number of pods, without DaemonSet pods and static pods.
        hourly: Nano-dollars per hour of its nodes, less what commitments cover; types that the catalogue lacks count zero.
        spot_hourly: The part of `hourly` for spot capacity.
        budgets: Reason → how many more nodes may be disrupted now, None for any number.
        counted: The nodes that count against the budgets.
        next_change: When the budgets next allow a different number; None if they never do.
        invalid_budget: What is wrong with an unreadable budget, which blocks all disruption; empty if all are readable.
        paused: Why disruption of its nodes is paused, empty if it is not.
        rollout: What its rollout waits for, empty if none is held back.
    """

    name: str
    nodes: int
    starting: int
    pods: int
    hourly: int
    spot_hourly: int
    budgets: dict[str, int | None]
    counted: tuple[CountedNode, ...]
    next_change: BudgetChange | None
    invalid_budget: str = ""
    paused: str = ""
    rollout: str = ""


class CapStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One cap of a Calendar.

    Attributes:
        limits: Resource → its limit at a time; a day or a month may lower the one in dollars an hour.
        used: Resource → what it counts of nodes now.
        periods: Its days and months.
    """

    name: str
    limits: dict[str, int]
    used: dict[str, int]
    periods: tuple[PeriodState, ...] = ()


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole cluster.

    Attributes:
        pools: By name, including deleted NodePools whose nodes still run.
        foreign_nodes: Number of nodes that Fleetwright does not manage.
        pending_pods: Keys of the pods that wait for a node, in order.
        caps: By name.
    """

    pools: tuple[PoolStatus, ...]
    foreign_nodes: int
    pending_pods: tuple[str, ...]
    caps: tuple[CapStatus, ...] = ()

    @property
    def hourly(self) -> int:
        """Nano-dollars per hour of all our nodes."""
        return sum(pool.hourly for pool in self.pools)

    @property
    def spot_hourly(self) -> int:
        """The part of `hourly` for spot capacity."""
        return sum(pool.spot_hourly for pool in self.pools)


def cluster_status(snapshot: Snapshot) -> ClusterStatus:
    """Summarize the cluster of the snapshot."""
    states = state_nodes(snapshot)
    ours: dict[str, list[StateNode]] = {pool.name: [] for pool in snapshot.node_pools}
    for state in states:
        if state.is_managed:
            ours.setdefault(state.node_pool, []).append(state)
    limits_left, counted = remaining(snapshot, states), counted_nodes(snapshot, states)
    node_pools = {pool.name: pool for pool in snapshot.node_pools}
    pools = []
    for name, pool_states in sorted(ours.items()):
        status = _pool(name, pool_states, snapshot)
        pool = node_pools.get(name)
        if pool is not None:
            status = _with_budgets(status, pool, limits_left[name], counted.get(name, 0), snapshot)
        pools.append(status)
    waiting = sorted(pod.key for pod in snapshot.pods if is_pending(pod, requires_mark=False) and not pod.is_daemon)
    return ClusterStatus(
        pools=tuple(pools),
        foreign_nodes=sum(not state.is_managed for state in states),
        pending_pods=tuple(waiting),
        caps=_caps(snapshot, states) if snapshot.calendars else (),
    )


def _caps(snapshot: Snapshot, states: Sequence[StateNode]) -> tuple[CapStatus, ...]:
    caps = {cap.name: cap for calendar in snapshot.calendars for cap in calendar.caps}
    prices = node_prices(snapshot)
    used = dict(RemainingCaps(snapshot, states, (), prices).used)
    for name in (name for name, cap in caps.items() if cap.is_for_all_pods):
        pools = [pool for pool in snapshot.node_pools if name in pool.shared_limits]
        used[name] = quantity.add(*used_by_pool(states, pools, (), prices).values())
    states_of: dict[str, list[PeriodState]] = {name: [] for name in caps}
    for period in period_states(snapshot):
        states_of[period.cap.name].append(period)
    statuses = []
    for name, cap in sorted(caps.items()):
        limits = dict(cap.limits)
        for state in states_of[name]:
            limits[quantity.HOURLY] = min(state.allowed, limits.get(quantity.HOURLY, state.allowed))
        counted = {key: used.get(name, {}).get(key, 0) for key in sorted(limits)}
        statuses.append(CapStatus(name=name, limits=limits, used=counted, periods=tuple(states_of[name])))
    return tuple(statuses)


def _pool(name: str, states: Sequence[StateNode], snapshot: Snapshot) -> PoolStatus:
    prices = [(paid_price(state, snapshot), state.labels.get(labels.CAPACITY_TYPE)) for state in states]
    return PoolStatus(
        name=name,
        nodes=len(states),
        starting=sum(not state.is_initialized for state in states),
        pods=sum(not pod.is_daemon and not pod.is_static for state in states for pod in state.pods),
        hourly=sum(price for price, _ in prices),
        spot_hourly=sum(price for price, kind in prices if kind == labels.SPOT),
        budgets={},
        counted=tuple(sorted(counted for state in states if (counted := _counted(state, snapshot)) is not None)),
        next_change=None,
    )


def _with_budgets(
    status: PoolStatus, pool: NodePool, limits_left: dict[str, int | None], counted: int, snapshot: Snapshot
) -> PoolStatus:
    gate = snapshot.rollouts.get(pool.name)
    return msgspec.structs.replace(
        status,
        budgets=limits_left,
        next_change=next_change(pool, counted, snapshot.now),
        invalid_budget=unreadable(pool),
        paused=snapshot.paused_pools.get(pool.name, ""),
        rollout=gate.message if gate is not None else "",
    )


def _counted(state: StateNode, snapshot: Snapshot) -> CountedNode | None:
    """Return the node if it counts against its NodePool's budgets; a node that is still starting does not."""
    if not state.is_initialized:
        return None
    if state.is_marked_for_deletion(snapshot):
        return CountedNode(state.name, GOES)
    if state.node is not None and not state.node.is_ready:
        return CountedNode(state.name, NOT_READY)
    return None
