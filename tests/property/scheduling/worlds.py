"""Random clusters, small enough to be judged by brute force and varied enough to make rules collide."""

from __future__ import annotations

from random import Random

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.node import Node
from core.model.node_pool import NodePool
from core.model.pod import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.policy import DaemonSet
from core.model.requirements import Requirement
from core.model.snapshot import Snapshot
from core.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass
from core.model.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from tests.builders import ZONES, a_pool, a_selector, a_snapshot, a_type

APPS = ("a", "b", "c")
_KEYS = (labels.ZONE, labels.ZONE, labels.HOSTNAME, labels.CAPACITY_TYPE)
_ZONE_A = NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[0]),))


def a_world(seed: int, *, most_pods: int = 24) -> Snapshot:
    """One random cluster; the same seed gives the same one."""
    draw = Random(seed)  # noqa: S311 - a test's dice
    nodes, running = _nodes(draw)
    pending = _pending(draw, most_pods)
    return a_snapshot(
        types=_types(draw),
        node_pools=tuple(_pool(draw, n) for n in range(draw.choice((1, 1, 2, 3)))),
        nodes=nodes,
        pods=(*running, *pending),
        daemon_sets=(_daemon(),) if draw.random() < 0.3 else (),
        volume_claims=(PersistentVolumeClaim(namespace="default", name="disk", storage_class="zonal"),),
        storage_classes=(
            StorageClass(
                name="zonal",
                provisioner="ebs.csi.aws.com",
                binding_mode=WAIT_FOR_FIRST_CONSUMER,
                allowed_topologies=(_ZONE_A,),
            ),
        ),
    )


def shuffled(world: Snapshot, seed: int) -> Snapshot:
    """The same world with every list in another order."""
    draw = Random(seed)  # noqa: S311 - a test's dice
    changes: dict[str, object] = {}
    for name in ("pods", "nodes", "node_claims", "node_pools", "daemon_sets", "volume_claims", "storage_classes"):
        items = list(getattr(world, name))
        draw.shuffle(items)
        changes[name] = tuple(items)
    types = list(world.catalogue.default)
    draw.shuffle(types)
    changes["catalogue"] = msgspec.structs.replace(world.catalogue, default=tuple(types))
    return msgspec.structs.replace(world, **changes)


def _types(draw: Random) -> tuple[InstanceType, ...]:
    sizes = ((2, 4), (4, 8), (4, 32), (8, 16), (16, 64))
    types = [
        a_type(
            f"t{cpu}-{memory}",
            cpu=str(cpu),
            memory=f"{memory}Gi",
            pods=str(draw.choice((4, 10, 30))),
            price=cpu * 0.04 + memory * 0.005,
            zones=ZONES if draw.random() < 0.7 else ZONES[:2],
        )
        for cpu, memory in sizes
    ]
    return (*types, a_type("spot-only", cpu="8", memory="8Gi", price=0.2, capacity_types=(labels.SPOT,)))


def _pool(draw: Random, number: int) -> NodePool:
    requirements = [
        Requirement.one_of(labels.CAPACITY_TYPE, *draw.choice((("on-demand", "spot"), ("on-demand",), ("spot",))))
    ]
    if draw.random() < 0.3:
        requirements.append(Requirement.one_of(labels.ZONE, *draw.sample(ZONES, 2)))
    changes: dict[str, object] = {"weight": draw.choice((0, 0, 10, 50))}
    if draw.random() < 0.3:
        changes["labels"] = {"team": draw.choice("xy")}
    if draw.random() < 0.25:
        changes["taints"] = (Taint("dedicated", draw.choice((NO_SCHEDULE, PREFER_NO_SCHEDULE)), "x"),)
    if draw.random() < 0.25:
        changes["limits"] = draw.choice(({"cpu": 8000}, {"nodes": 2}, {"memory": 40 * 2**30}))
    return a_pool(f"pool-{number}", *requirements, **changes)


def _nodes(draw: Random) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
    nodes, pods = [], []
    for number in range(draw.choice((0, 0, 2, 4))):
        name = f"node-{number}"
        room = {"cpu": 4000, "memory": 8 * 2**30, "pods": 10}
        own = {
            labels.HOSTNAME: name,
            labels.ZONE: draw.choice(ZONES),
            labels.CAPACITY_TYPE: draw.choice(("spot", "on-demand")),
            labels.ARCH: "amd64",
        }
        nodes.append(Node(name=name, labels=own, capacity=room, allocatable=room, is_ready=True))
        for place in range(draw.choice((0, 1, 2))):
            spec = msgspec.structs.replace(_spec(draw, "a"), node_selector=(), volumes=(), required_terms=())
            spec = msgspec.structs.replace(spec, requests={"cpu": 200, "memory": 2**28, "pods": 1})
            pods.append(
                Pod(
                    namespace="default",
                    name=f"run-{number}-{place}",
                    labels={"app": draw.choice(APPS)},
                    spec=spec,
                    node_name=name,
                    phase="Running",
                )
            )
    return tuple(nodes), tuple(pods)


def _pending(draw: Random, most: int) -> tuple[Pod, ...]:
    pods: list[Pod] = []
    while len(pods) < most and draw.random() < 0.85:
        app = draw.choice(APPS)
        spec = _spec(draw, app)
        for _ in range(draw.choice((1, 2, 3, 6))):
            number = len(pods)
            pods.append(
                Pod(namespace="default", name=f"p{number:02}", uid=f"u{number:02}", labels={"app": app}, spec=spec)
            )
    return tuple(pods)


def _spec(draw: Random, own: str) -> PodSpec:
    def selector() -> LabelSelector:
        return a_selector(app=own if draw.random() < 0.6 else draw.choice(APPS))

    def some(chance: float, items: tuple[object, ...]) -> tuple[object, ...]:
        return items if draw.random() < chance else ()

    spreads = tuple(
        TopologySpread(
            draw.choice(_KEYS), draw.choice((1, 1, 2)), draw.choice(("DoNotSchedule", "ScheduleAnyway")), selector()
        )
        for _ in range(draw.choice((0, 0, 0, 1, 2)))
    )
    selected = draw.choice(
        (
            Requirement.one_of(labels.ZONE, draw.choice(ZONES)),
            Requirement.one_of(labels.CAPACITY_TYPE, draw.choice(("spot", "on-demand"))),
            Requirement.one_of("team", draw.choice("xy")),
        )
    )
    other_zone = NodeSelectorTerm((Requirement.of(labels.ZONE, "NotIn", [draw.choice(ZONES)]),))
    soft = WeightedPodAffinityTerm(draw.randint(1, 100), PodAffinityTerm(draw.choice(_KEYS), selector()))
    return PodSpec(
        requests={
            "cpu": draw.choice((100, 500, 1000, 3000)),
            "memory": draw.choice((2**28, 2**30, 3 * 2**30)),
            "pods": 1,
        },
        node_selector=some(0.15, (selected,)),
        required_terms=some(0.15, draw.choice(((_ZONE_A, other_zone), (other_zone,)))),
        tolerations=some(0.25, (Toleration("dedicated", "Exists"),)),
        spreads=spreads,
        affinity=some(0.15, (PodAffinityTerm(draw.choice((labels.ZONE, labels.HOSTNAME)), selector()),)),
        anti_affinity=some(0.2, (PodAffinityTerm(draw.choice(_KEYS), selector()),)),
        preferred_anti_affinity=some(0.1, (soft,)),
        host_ports=some(0.08, (HostPort(draw.choice((80, 81))),)),
    )


def _daemon() -> DaemonSet:
    spec = PodSpec(requests={"cpu": 100, "memory": 2**26, "pods": 1}, tolerations=(Toleration(operator="Exists"),))
    return DaemonSet(namespace="kube-system", name="agent", spec=spec)
