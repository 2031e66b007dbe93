"""Two kinds of random clusters: calm, as most clusters are, and hostile, where rules interfere with each other."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.pod import NodeSelectorTerm, Owner, Pod, PodSpec, PreferredTerm, TopologySpread
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from tests.builders import NOW, a_selector, a_type
from tests.property.naive.clusters import random_cluster, random_daemon
from tests.property.naive.reading import CLASS_REF, FAMILY, GIB, ZONES, chance, some_of

CALM: Final = "calm"
HOSTILE: Final = "hostile"


def cluster(seed: int, difficulty: str) -> Snapshot:
    """The cluster of a seed."""
    draw = Random(f"{difficulty} {seed}")  # noqa: S311 - a test's dice
    snapshot = _calm(draw) if difficulty == CALM else _writable(random_cluster(seed))
    pools = tuple(_lasting(draw, pool) for pool in snapshot.node_pools)
    return msgspec.structs.replace(snapshot, node_pools=pools)


def _lasting(draw: Random, pool: NodePool) -> NodePool:
    """The NodePool with labels, taints and other terms that its claims must carry."""
    return msgspec.structs.replace(
        pool,
        expire_after=draw.choice((None, timedelta(hours=720), timedelta(hours=48))),
        termination_grace_period=draw.choice((None, timedelta(hours=1), timedelta(minutes=5))),
        annotations={"example.com/owner": draw.choice(("a", "b"))} if chance(draw, 0.4) else {},
    )


def _writable(snapshot: Snapshot) -> Snapshot:
    """The cluster without objects that the API server refuses: minValues of excluded values, claims without a class.

    Beside `replicas` it refuses a weight, and limits of anything but nodes.
    """
    pools = []
    for pool in snapshot.node_pools:
        kept = [msgspec.structs.replace(r, min_values=None) if _is_too_much(r) else r for r in pool.requirements]
        is_static = pool.replicas is not None
        pools.append(
            msgspec.structs.replace(
                pool,
                requirements=tuple(kept),
                node_class=CLASS_REF,
                weight=0 if is_static else pool.weight,
                limits={name: amount for name, amount in pool.limits.items() if name == "nodes" or not is_static},
            )
        )
    claims = tuple(msgspec.structs.replace(claim, node_class=CLASS_REF) for claim in snapshot.node_claims)
    return msgspec.structs.replace(snapshot, node_pools=tuple(pools), node_claims=claims)


def _is_too_much(requirement: Requirement) -> bool:
    """Whether its minValues require more values than it lists, or values that it excludes."""
    return bool(requirement.values) and (
        requirement.complement or (requirement.min_values or 0) > len(requirement.values)
    )


def _calm(draw: Random) -> Snapshot:
    """Some Deployments of small pods, one to three NodePools of many types, few rules, nothing impossible on purpose."""
    types = tuple(
        a_type(
            f"type-{number}-{cpu}", cpu=str(cpu), memory=f"{cpu * draw.choice((2, 4, 8))}Gi", pods="110",
            price=round(cpu * 0.04 * draw.choice((0.9, 1.0, 1.2)), 4), zones=ZONES,
        )
        for number, cpu in enumerate((8, 16, 16, 32, 64))
    )  # fmt: skip
    types = tuple(
        msgspec.structs.replace(kind, labels={
            labels.ARCH: ("amd64",), labels.OS: ("linux",), FAMILY: (draw.choice(("a", "b")),)})
        for kind in types
    )  # fmt: skip
    pods: list[Pod] = []
    for number in range(draw.choice((3, 5, 8))):
        pods += _deployment(draw, number)
    return Snapshot(
        now=NOW, cluster="calm", pods=tuple(pods), node_pools=_pools(draw), catalogue=Catalogue(default=types),
        daemon_sets=tuple(random_daemon(draw, number) for number in range(draw.choice((0, 1)))),
    )  # fmt: skip


def _pools(draw: Random) -> tuple[NodePool, ...]:
    on_demand = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)
    pools = [NodePool(name="general", requirements=(on_demand,), node_class=CLASS_REF, is_ready=True)]
    if chance(draw, 0.5):
        pools.append(NodePool(name="heavy", requirements=(), node_class=CLASS_REF, is_ready=True, weight=50))
    if chance(draw, 0.3):
        taint = Taint("spare", PREFER_NO_SCHEDULE)
        pools.append(NodePool(name="avoided", taints=(taint,), node_class=CLASS_REF, is_ready=True, weight=90))
    if chance(draw, 0.3):
        taint = Taint("dedicated", NO_SCHEDULE, "x")
        pools.append(NodePool(name="dedicated", taints=(taint,), node_class=CLASS_REF, is_ready=True, weight=10))
    return tuple(pools)


def _deployment(draw: Random, number: int) -> list[Pod]:
    app = f"app-{number}"
    spec = PodSpec(
        requests={"cpu": draw.choice((250, 500, 900)), "memory": draw.choice((1, 2, 3)) * GIB // 4, "pods": 1},
        node_selector=(Requirement.one_of(labels.ZONE, draw.choice(ZONES)),) if chance(draw, 0.1) else (),
        preferred_terms=_preferred(draw) if chance(draw, 0.4) else (),
        tolerations=(Toleration("dedicated", "Exists"),) if chance(draw, 0.2) else (),
        spreads=(TopologySpread(labels.ZONE, 1, selector=a_selector(app=app)),) if chance(draw, 0.25) else (),
        priority=draw.choice((0, 0, 0, 1000)),
    )
    owner = Owner("ReplicaSet", app, "apps/v1", is_controller=True)
    return [
        Pod(
            namespace="shop", name=f"{app}-{n}", uid=f"uid-{app}-{n}", created_at=NOW, labels={"app": app}, spec=spec,
            owners=(owner,),
        )
        for n in range(draw.choice((10, 20, 40)))
    ]  # fmt: skip


def _preferred(draw: Random) -> tuple[PreferredTerm, ...]:
    requirements = (
        Requirement.of(labels.ZONE, "In", some_of(draw, ZONES[:2])), Requirement.one_of(FAMILY, draw.choice(("a", "b", "c"))),
        Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT), Requirement.of(FAMILY, "NotIn", ["a"]),
    )  # fmt: skip
    chosen = draw.sample(requirements, draw.choice((1, 1, 2)))
    weights = draw.sample((1, 10, 50, 100), len(chosen))
    return tuple(PreferredTerm(w, NodeSelectorTerm((r,))) for w, r in zip(weights, chosen, strict=True))
