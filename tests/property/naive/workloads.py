"""Random workloads: a handful of alike pods each, with every kind of rule that a pod may have."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import msgspec

from core import labels
from core.model.pod import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    TopologySpread,
    VolumeUse,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import Node
from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration
from tests.builders import NOW
from tests.property.naive.reading import (
    APPS,
    FAMILY,
    GIB,
    GPU,
    NAMESPACES,
    NUMBER,
    SPEED,
    TEAM,
    TIER,
    ZONES,
    chance,
    some_of,
)

_KEYS = (
    labels.ZONE,
    labels.ZONE,
    labels.ZONE,
    labels.HOSTNAME,
    labels.HOSTNAME,
    labels.CAPACITY_TYPE,
    labels.ARCH,
    TEAM,
    FAMILY,
)
"""Topology keys, repeated by how often they are drawn."""


def pending_pods(draw: Random, count: int, claims: tuple[PersistentVolumeClaim, ...]) -> tuple[Pod, ...]:
    """Pending pods, in workloads of one to twenty."""
    pods: list[Pod] = []
    number = 0
    calm = draw.choice((0.3, 0.7, 1.0))
    while len(pods) < count:
        size = min(count - len(pods), draw.choice((1, 1, 2, 3, 5, 8, 20)))
        app, namespace = draw.choice(APPS), draw.choice(NAMESPACES)
        spec = random_spec(draw, app, calm)
        held = _volumes(draw, namespace, claims, size)
        spec = msgspec.structs.replace(spec, volumes=held)
        app_labels = {"app": app, "version": draw.choice(("1", "2"))}
        pods += [_pod(draw, namespace, f"{app}-{number}-{index}", app_labels, spec) for index in range(size)]
        number += 1
    return tuple(pods)


def running_pods(draw: Random, nodes: tuple[Node, ...], claims: tuple[PersistentVolumeClaim, ...]) -> tuple[Pod, ...]:
    """Running pods, some with rules of their own, some terminating."""
    pods = []
    for node in nodes:
        for index in range(draw.choice((0, 1, 1, 2, 3))):
            app, namespace = draw.choice(APPS), draw.choice(NAMESPACES)
            spec = msgspec.structs.replace(
                random_spec(draw, app, 0.7), requests={"cpu": 100, "memory": GIB // 16, "pods": 1},
                node_selector=(), required_terms=(),
                volumes=_volumes(draw, namespace, claims, 1) if chance(draw, 0.3) else (),
            )  # fmt: skip
            pods.append(
                Pod(
                    namespace=namespace, name=f"run-{node.name}-{index}", labels={"app": app, "version": "1"}, spec=spec,
                    node_name=node.name, phase=draw.choice(("Running",) * 8 + ("Succeeded", "Pending")),
                    deleted_at=NOW if chance(draw, 0.08) else None,
                    owners=(Owner("ReplicaSet", app, "apps/v1", is_controller=True),),
                )
            )  # fmt: skip
    return tuple(pods)


def _pod(draw: Random, namespace: str, name: str, app_labels: dict[str, str], spec: PodSpec) -> Pod:
    return Pod(
        namespace=namespace,
        name=name,
        uid=f"uid-{name}",
        created_at=NOW - timedelta(seconds=draw.choice((0, 1, 1, 60))),
        labels=app_labels,
        spec=spec,
        is_gated=chance(draw, 0.01),
    )


def random_spec(draw: Random, app: str, calm: float) -> PodSpec:
    def some(share: float) -> bool:
        return chance(draw, share * calm)

    requests = {
        "cpu": draw.choice((0, 100, 500, 1000, 1000, 3900)),
        "memory": draw.choice((0, 1, 2, 8, 16)) * GIB // 4,
        "pods": 1,
    }
    if some(0.1):
        requests[GPU] = 1
    return PodSpec(
        requests=requests,
        node_selector=(_selected(draw),) if some(0.2) else (),
        required_terms=_terms(draw) if some(0.25) else (),
        preferred_terms=tuple(PreferredTerm(draw.randint(1, 100), _term(draw)) for _ in range(draw.randint(1, 2)))
        if some(0.15)
        else (),
        tolerations=_tolerations(draw) if some(0.4) else (),
        spreads=tuple(_spread(draw, app) for _ in range(draw.choice((1, 1, 2)))) if some(0.45) else (),
        affinity=_affinity(draw, app) if some(0.2) else (),
        anti_affinity=(_near(draw, app),) if some(0.25) else (),
        preferred_affinity=(WeightedPodAffinityTerm(50, _near(draw, app)),) if some(0.1) else (),
        preferred_anti_affinity=(WeightedPodAffinityTerm(50, _near(draw, app)),) if some(0.1) else (),
        host_ports=(_port(draw),) if some(0.12) else (),
    )


def _port(draw: Random) -> HostPort:
    address = draw.choice(("0.0.0.0", "10.0.0.1"))  # noqa: S104 - Kubernetes' own notation
    return HostPort(draw.choice((80, 9100)), draw.choice(("TCP", "TCP", "UDP")), address)


def _selected(draw: Random) -> Requirement:
    key, values = draw.choice(
        (
            (labels.ZONE, ZONES),
            (labels.CAPACITY_TYPE, (labels.SPOT, labels.ON_DEMAND)),
            (labels.ARCH, ("amd64", "arm64")),
            (FAMILY, ("a", "b")),
            (TEAM, ("x", "y", "z")),
            (TIER, ("gold", "silver")),
        )
    )
    return Requirement.one_of(key, draw.choice(values))


def _terms(draw: Random) -> tuple[NodeSelectorTerm, ...]:
    return tuple(_term(draw) for _ in range(draw.choice((1, 1, 2, 3))))


def _term(draw: Random) -> NodeSelectorTerm:
    if chance(draw, 0.02):
        return NodeSelectorTerm((Requirement.one_of(labels.NODE_NAME, "node-0"),))
    return NodeSelectorTerm(tuple(_expression(draw) for _ in range(draw.choice((1, 1, 2)))))


def _expression(draw: Random) -> Requirement:
    kind = draw.choice(("zone", "family", "team", "number", "speed", "rank", "selected"))
    if kind == "zone":
        return Requirement.of(labels.ZONE, draw.choice(("In", "NotIn")), some_of(draw, ZONES))
    if kind == "family":
        return Requirement.of(FAMILY, draw.choice(("In", "NotIn")), some_of(draw, ("a", "b", "c")))
    if kind == "team":
        return Requirement.of(TEAM, draw.choice(("In", "NotIn")), some_of(draw, ("x", "y", "z")))
    if kind == "number":
        return Requirement.of(NUMBER, draw.choice(("Gt", "Lt", "Gte", "Lte")), [str(draw.choice((1, 2, 3)))])
    if kind == "rank":
        return Requirement.of("example.com/rank", draw.choice(("Gt", "Lt", "Exists", "DoesNotExist")), _bound(draw))
    if kind == "speed":
        return Requirement.of(draw.choice((SPEED, TEAM, TIER)), draw.choice(("Exists", "DoesNotExist")), ())
    return _selected(draw)


def _bound(draw: Random) -> list[str]:
    return [str(draw.choice((1, 2, 5)))]


def _tolerations(draw: Random) -> tuple[Toleration, ...]:
    return draw.choice(
        (
            (Toleration("dedicated", "Exists"),),
            (Toleration("dedicated", "Equal", "x"),),
            (Toleration("dedicated", "Equal", "x", "NoSchedule"),),
            (Toleration("dedicated", "Equal", "y"),),
            (Toleration(operator="Exists"),),
        )
    )


def _spread(draw: Random, app: str) -> TopologySpread:
    key, skew = draw.choice(_KEYS), draw.choice((1, 1, 1, 2, 3))
    kind = draw.choice((DO_NOT_SCHEDULE, DO_NOT_SCHEDULE, DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
    selector = _selector(draw, app)
    domains = draw.choice((None, None, None, 1, 2, 3, 4))
    return TopologySpread(
        key,
        skew,
        kind,
        selector,
        domains if kind == DO_NOT_SCHEDULE else None,
        draw.choice(("Honor", "Honor", "Ignore")),
        draw.choice(("Ignore", "Ignore", "Honor")),
        ("version",) if chance(draw, 0.2) else (),
    )


def _affinity(draw: Random, app: str) -> tuple[PodAffinityTerm, ...]:
    """One term; sometimes with a second term along another key, for the same pods or for others."""
    first = _near(draw, app)
    if chance(draw, 0.15):
        return (first, msgspec.structs.replace(first, topology_key=draw.choice(_KEYS)))
    return (first,)


def _near(draw: Random, app: str) -> PodAffinityTerm:
    everywhere = draw.choice(
        (None, None, None, None, LabelSelector(), LabelSelector((Requirement.one_of("env", "prod"),)))
    )
    return PodAffinityTerm(
        draw.choice(_KEYS),
        _selector(draw, app),
        namespaces=("bank",) if chance(draw, 0.1) else (),
        namespace_selector=everywhere,
        match_label_keys=("version",) if chance(draw, 0.1) else (),
        mismatch_label_keys=("version",) if chance(draw, 0.05) else (),
    )


def _selector(draw: Random, app: str) -> LabelSelector | None:
    if chance(draw, 0.03):
        return draw.choice((None, LabelSelector()))
    wanted = app if chance(draw, 0.65) else draw.choice(APPS)
    if chance(draw, 0.1):
        return LabelSelector((Requirement.of("app", "NotIn", [wanted]),))
    return LabelSelector((Requirement.one_of("app", wanted),))


def _volumes(
    draw: Random, namespace: str, claims: tuple[PersistentVolumeClaim, ...], size: int
) -> tuple[VolumeUse, ...]:
    if not chance(draw, 0.15):
        return ()
    if size > 1 or chance(draw, 0.4):
        return (VolumeUse("", "data", draw.choice(("zonal", "any", None))),)
    claim_names = [claim.name for claim in claims if claim.namespace == namespace]
    return tuple(VolumeUse(name) for name in draw.sample(claim_names, min(len(claim_names), draw.choice((1, 1, 2)))))
