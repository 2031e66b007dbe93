"""Small random clusters: a few nodes of a few types, pods on them, some budgets and some protection."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import strategies as st

from benchmarks.disruption.teams import of_team
from core import labels
from core.model.node_pool import BALANCED, WHEN_EMPTY, WHEN_EMPTY_OR_UNDERUTILIZED, Budget, Disruption, NodePool
from core.model.plan import DRIFTED, Condition, NodeClaim
from core.model.pod import Owner, Pod
from core.model.snapshot import (
    BALANCED_MOVES,
    THOROUGH_MOVES,
    Node,
    Options,
    PodDisruptionBudget,
    Snapshot,
)
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type

TYPES = tuple(
    a_type(f"t-{cpu}", cpu=str(cpu), memory=f"{4 * cpu}Gi", price=price)
    for cpu, price in ((1, 0.05), (2, 0.11), (4, 0.2), (8, 0.41), (16, 0.79))
)
POOLS = ("blue", "red")


@st.composite
def pools(draw: st.DrawFn, name: str, *, ample: bool) -> NodePool:
    """A NodePool with some policy; it has a budget unless `ample` is set."""
    nodes = "100%" if ample else draw(st.sampled_from(["0", "1", "2", "50%", "100%"]))
    reasons = None if ample else draw(st.sampled_from([None, None, ("Empty",), ("Underutilized", "Drifted")]))
    policy = draw(st.sampled_from([WHEN_EMPTY_OR_UNDERUTILIZED] * 4 + [WHEN_EMPTY, BALANCED]))
    after = draw(st.sampled_from([timedelta(0), timedelta(0), timedelta(hours=1), None]))
    disruption = Disruption(policy=policy, consolidate_after=after, budgets=(Budget(nodes, reasons=reasons),))
    return a_pool(name, disruption=disruption)


@st.composite
def machines(draw: st.DrawFn, index: int, *, drift: bool) -> tuple[NodeClaim, Node, tuple[Pod, ...]]:
    """A node with pods that fit on it."""
    instance_type = draw(st.sampled_from(TYPES))
    name = f"node-{index}"
    claim, node = a_node_of(
        instance_type,
        name,
        pool=draw(st.sampled_from(POOLS)),
        zone=draw(st.sampled_from(ZONES[:2])),
        capacity_type=draw(st.sampled_from([labels.ON_DEMAND, labels.ON_DEMAND, labels.SPOT])),
        annotations=draw(st.sampled_from([{}, {}, {}, {labels.DO_NOT_DISRUPT: "true"}])),
    )
    idle = draw(st.sampled_from([timedelta(hours=2), timedelta(minutes=1)]))
    conditions = dict(claim.conditions)
    if drift and draw(st.integers(0, 4)) == 0:
        conditions[DRIFTED] = Condition("True", "NodePoolDrifted", changed_at=NOW - timedelta(minutes=index))
    claim = msgspec.structs.replace(claim, last_pod_event_at=NOW - idle, conditions=conditions)
    room = instance_type.capacity["cpu"]
    pods: list[Pod] = []
    for number in range(draw(st.integers(0, 3))):
        size = draw(st.sampled_from([250, 500, 900, 1800]))
        if size <= room:
            room -= size
            pods.append(draw(running_pods(f"{name}-{number}", name, size)))
    return claim, node, tuple(pods)


@st.composite
def running_pods(draw: st.DrawFn, name: str, node: str, cpu: int) -> Pod:
    """A ready pod; some are protected, under a PodDisruptionBudget, restricted to a zone, or part of a DaemonSet."""
    kind = draw(st.integers(0, 15))
    return a_pod(
        name,
        cpu=f"{cpu}m",
        memory="256Mi",
        node_name=node,
        phase="Running",
        is_ready=True,
        labels={"app": "guarded"} if kind in (1, 2, 3) else {"app": "web"},
        annotations={labels.DO_NOT_DISRUPT: "true"} if kind == 0 else {},
        owners=(Owner("DaemonSet", "agent", "apps/v1"),) if kind == 4 else (Owner("ReplicaSet", "web", "apps/v1"),),
    )


@st.composite
def worlds(draw: st.DrawFn, *, ample: bool = False, drift: bool = True) -> Snapshot:
    """A snapshot. With `ample`, no budget of NodePools or pods blocks anything."""
    count = draw(st.integers(1, 7))
    drawn_machines = [draw(machines(index, drift=drift)) for index in range(count)]
    pending = [a_pod(f"pending-{n}", cpu="500m", memory="128Mi") for n in range(draw(st.sampled_from([0, 0, 0, 1, 2])))]
    guard = PodDisruptionBudget(
        namespace="default",
        name="guard",
        selector=a_selector(app="guarded"),
        disruptions_allowed=draw(st.integers(0, 3)),
    )
    return a_snapshot(
        types=TYPES,
        node_pools=tuple(draw(pools(name, ample=ample)) for name in POOLS),
        node_claims=tuple(claim for claim, _, _ in drawn_machines),
        nodes=tuple(node for _, node, _ in drawn_machines),
        pods=(*(pod for _, _, bound_pods in drawn_machines for pod in bound_pods), *pending),
        budgets=() if ample else (guard,),
        options=Options(karpenter_moves_only=draw(st.booleans())),
    )


@st.composite
def worlds_of_teams(draw: st.DrawFn) -> tuple[Snapshot, ...]:
    """Two or three clusters whose pods could not go to each other's nodes."""
    options = Options(moves=draw(st.sampled_from([THOROUGH_MOVES, BALANCED_MOVES])))
    snapshots = [of_team(draw(worlds()), f"team{number}") for number in range(draw(st.integers(2, 3)))]
    return tuple(msgspec.structs.replace(snapshot, options=options) for snapshot in snapshots)
