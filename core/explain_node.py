"""Explanations of nodes: why one goes now or stays, what it costs, and when its budgets change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from core import labels
from core.catalogue.node_class import CAPACITY_BLOCK
from core.cluster_status import PoolStatus, cluster_status
from core.commitments.coverage import coverage_of, paid_price
from core.disruption import disrupt
from core.disruption.conditions.ending_reservations import ending_reservations
from core.explain import Explanation, explain_node
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values.quantity import dollars
from core.reasons.node import NodeReason
from core.scheduling import Planner


def explain_node_now(snapshot: Snapshot, node: str, out_of_time: Callable[[], float] | None = None) -> Explanation:
    """Decide for the snapshot and explain the node's part, its cost, and which nodes use up its NodePool's budgets.

    Args:
        snapshot: The input of the decision.
        node: Name of a node, or of a claim without one.
        out_of_time: As for the explained decision (`disrupt`), so that both agree.
    """
    planner = Planner(snapshot)
    found = explain_node(disrupt(snapshot, planner, out_of_time, proves=False), node)
    state = next((state for state in state_nodes(snapshot) if state.name == node), None)
    if state is None or not state.is_managed:
        return found
    price = f"costs ${dollars(paid_price(state, snapshot)):.4f} an hour in NodePool {state.node_pool}"
    covered = coverage_of(snapshot).nodes.get(node)
    by = " and ".join(covered.taken) if covered is not None else ""
    details = [*found.details, f"{price}, covered by commitment {by}" if by else price]
    details += _of_reservation(state, snapshot)
    if found.reason == NodeReason.PODS_UNSCHEDULABLE:
        details += _of_pods(planner, node)
    if found.reason == NodeReason.BUDGET:
        pools = {pool.name: pool for pool in cluster_status(snapshot).pools}
        details += _of_budgets(pools[state.node_pool])
    return msgspec.structs.replace(found, details=tuple(details))


def _of_reservation(state: StateNode, snapshot: Snapshot) -> Iterator[str]:
    """Return when the node's capacity reservation ends for it, if that is known."""
    identity = state.labels.get(labels.RESERVATION_ID, "")
    ends = (one.reservation_ends for one in snapshot.node_classes)
    leaves = next((known[identity] for known in ends if identity in known), None)
    if leaves is None:
        return
    is_block = state.labels.get(labels.RESERVATION_TYPE) == CAPACITY_BLOCK
    what = (
        f"leaves capacity block {identity}" if is_block else f"is on-demand once capacity reservation {identity} ends,"
    )
    soon = "; consolidation moves no pod to it before" if identity in ending_reservations(snapshot) else ""
    yield f"{what} at {leaves:%Y-%m-%d %H:%M} UTC{soon}"


def _of_pods(planner: Planner, node: str) -> Iterator[str]:
    """Return why the first pod without another place has none. If other nodes leave too, more pods may have no place."""
    results = planner.what_if([node], consolidation=True)
    displaced = set(results.displaced)
    stranded = next((pod for pod in results.plan.unschedulable if pod.pod in displaced), None)
    if stranded is None:
        yield "without the other nodes that go its pods would find places"
        return
    yield f"without this node pod {stranded.pod} lacks a place [{stranded.reason}]"
    yield from (f"  {line}" for line in stranded.message.splitlines())


def _of_budgets(pool: PoolStatus) -> Iterator[str]:
    left = ", ".join(f"{_number(count)} {reason}" for reason, count in sorted(pool.budgets.items()))
    yield f"the budgets let go now: {left}; other nodes come first where that is not 0"
    if pool.counted:
        yield f"places are taken by {', '.join(f'{counted.node} ({counted.why})' for counted in pool.counted)}"
    change = pool.next_change
    if change is not None:
        allowed = ", ".join(f"{_number(count)} {reason}" for reason, count in sorted(change.allowed.items()))
        yield f"the budgets change at {change.at:%Y-%m-%d %H:%M} UTC: {allowed}"


def _number(count: int | None) -> str:
    return "any" if count is None else str(count)
