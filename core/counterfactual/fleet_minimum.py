"""A proven lower bound on the cost of any fleet for the running pods of a snapshot, if every node is new."""

from __future__ import annotations

import msgspec

from core.counterfactual.simulated_fleet import SimulatedFleet
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.scheduling import schedule


def fleet_minimum(snapshot: Snapshot) -> int | None:
    """Return nano-dollars per hour, None if nothing is proven.

    Unlike the bound of a disruption plan it holds for any fleet: no node is kept because something protects it. Nodes
    without a NodeClaim stay and count zero. Waiting pods are left out: the recorded fleet, with which the bound is
    compared, does not pay for them.
    """
    foreign = tuple(state.node for state in state_nodes(snapshot) if state.claim is None and state.node is not None)
    running = tuple(pod for pod in snapshot.pods if pod.node_name)
    without = msgspec.structs.replace(snapshot, node_claims=(), nodes=foreign, pods=running)
    simulated = SimulatedFleet(without).in_snapshot(without, snapshot.now, karpenter_moves_only=False)
    return schedule(simulated).cost.lower_bound
