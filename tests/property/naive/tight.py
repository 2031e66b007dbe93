"""Small clusters in which zone rules leave few ways to place all pods.

A few workloads of a few pods each, with anti-affinity, affinity and spreads along zones that refer to one another.
"""

from __future__ import annotations

from random import Random

from core import labels
from core.model.catalogue import Catalogue, InstanceType
from core.model.pod import DO_NOT_SCHEDULE, LabelSelector, Pod, PodAffinityTerm, PodSpec, TopologySpread
from core.model.snapshot import Node, Snapshot
from core.model.values.requirements import Requirement
from tests.builders import NOW, a_pool, a_type
from tests.property.naive.reading import GIB, chance, some_of

APPS = ("a", "b", "c", "d", "e", "f")
ZONES = ("zone-a", "zone-b", "zone-c", "zone-d")
_SIZES = (100, 250, 500, 1000, 1500, 2000, 3500)


def tight_cluster(seed: int) -> Snapshot:
    """One cluster of two to six workloads, one NodePool and two to four zones; all zones offer the same types."""
    draw = Random(f"tight {seed}")  # noqa: S311 - a test's dice
    zones = ZONES[: draw.choice((2, 3, 3, 4))]
    apps = APPS[: draw.randint(2, 6)]
    density = draw.choice((0.3, 0.6, 1.0))
    pods = [pod for app in apps for pod in _workload(draw, app, apps, zones, density)]
    nodes, running = _running(draw, apps, zones)
    return Snapshot(
        now=NOW,
        cluster="tight",
        node_pools=(a_pool(),),
        nodes=nodes,
        pods=(*running, *pods),
        catalogue=Catalogue(default=_types(draw, zones)),
    )


def _types(draw: Random, zones: tuple[str, ...]) -> tuple[InstanceType, ...]:
    """Three to five sizes; the price of a core differs by size, so that small nodes may have the lowest or the highest."""
    types = []
    for number, cpu in enumerate(draw.sample((1, 2, 4, 8, 16), draw.randint(2, 4))):
        price = round(cpu ** draw.choice((0.8, 1.0, 1.0, 1.3)) * draw.choice((0.04, 0.05, 0.06)), 4)
        types.append(
            a_type(
                f"t{number}",
                cpu=str(cpu),
                memory=f"{4 * cpu}Gi",
                price=price,
                zones=zones,
                pods=draw.choice(("4", "30")),
            )
        )
    biggest = a_type("large", cpu="4", memory="16Gi", price=0.3, zones=zones, capacity_types=(labels.ON_DEMAND,))
    return (*types, biggest)


def _workload(draw: Random, app: str, apps: tuple[str, ...], zones: tuple[str, ...], density: float) -> list[Pod]:
    size = draw.choice((1, 2, 2, 3, 4, 6, 9, 14))
    cpu = draw.choice(_SIZES)

    def some(share: float) -> bool:
        return chance(draw, share * density)

    def another() -> str:
        return draw.choice(apps)

    spec = PodSpec(
        requests={"cpu": cpu, "memory": cpu * GIB // 1000, "pods": 1},
        node_selector=(Requirement.one_of(labels.ZONE, *some_of(draw, zones)),) if some(0.15) else (),
        spreads=tuple(_spread(draw, app if chance(draw, 0.8) else another()) for _ in range(1 + some(0.2)))
        if some(0.5)
        else (),
        anti_affinity=tuple(_term(draw, another()) for _ in range(1 + some(0.4))) if some(0.7) else (),
        affinity=(_term(draw, another(), only_zone=True),) if some(0.15) else (),
    )
    return [
        Pod(
            namespace="default", name=f"{app}-{n}", uid=f"uid-{app}-{n}", labels={"app": app}, spec=spec, created_at=NOW
        )
        for n in range(size)
    ]


def _spread(draw: Random, app: str) -> TopologySpread:
    return TopologySpread(
        labels.ZONE,
        draw.choice((1, 1, 1, 2)),
        DO_NOT_SCHEDULE,
        LabelSelector((Requirement.one_of("app", app),)),
        draw.choice((None, None, None, 2, 3)),
        "Honor",
        "Ignore",
    )


def _term(draw: Random, app: str, *, only_zone: bool = False) -> PodAffinityTerm:
    key = labels.ZONE if only_zone or chance(draw, 0.85) else labels.HOSTNAME
    return PodAffinityTerm(key, LabelSelector((Requirement.one_of("app", app),)))


def _running(draw: Random, apps: tuple[str, ...], zones: tuple[str, ...]) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
    """Some full nodes with pods that the rules count."""
    nodes, pods = [], []
    for number in range(draw.choice((0, 0, 0, 1, 2))):
        name = f"node-{number}"
        room = {"cpu": 100, "memory": GIB, "pods": 1}
        labels_of_node = {labels.HOSTNAME: name, labels.ZONE: draw.choice(zones)}
        nodes.append(
            Node(name=name, labels=labels_of_node, capacity=room, allocatable=room, is_ready=True, created_at=NOW)
        )
        app = draw.choice(apps)
        spec = PodSpec(requests={"cpu": 100, "memory": GIB, "pods": 1})
        pods.append(
            Pod(
                namespace="default",
                name=f"run-{number}",
                labels={"app": app},
                spec=spec,
                node_name=name,
                phase="Running",
            )
        )
    return tuple(nodes), tuple(pods)
