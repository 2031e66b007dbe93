"""Random clusters, small enough for judgement by brute force and varied enough to make rules collide.

A seed gives the same cluster on every machine. Most draws favour edge cases: a few sizes that just fit, a few keys that several
rules share.
"""

from __future__ import annotations

from random import Random

import msgspec

from core import labels
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.plan import INITIALIZED, LAUNCHED, REGISTERED, Condition, NodeClaim, ObjectRef
from core.model.pod import HostPort, Owner, PersistentVolume, Pod, PodSpec, VolumeAttachment
from core.model.snapshot import BEST_EFFORT, IGNORE, RESPECT, STRICT, DaemonSet, Namespace, Node, Options, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from tests.builders import NOW
from tests.property.naive.limits import random_storage
from tests.property.naive.node_rules import EBS
from tests.property.naive.places import node_labels, room_of, runs_daemon
from tests.property.naive.reading import CLASS_REF, FAMILY, GIB, GPU, NUMBER, SPEED, TEAM, TIER, ZONES, chance, some_of
from tests.property.naive.workloads import pending_pods, running_pods

_STARTUP = Taint("example.com/agent-not-ready", NO_EXECUTE)
_EVERYTHING = Toleration(operator="Exists")


def random_cluster(seed: int, most_pods: int = 60) -> Snapshot:
    """One random cluster with 5 to `most_pods` pending pods."""
    draw = Random(seed)  # noqa: S311 - a test's dice
    zones = ZONES[: draw.choice((2, 3, 3))]
    types = tuple(_type(draw, number, zones) for number in range(draw.randint(2, 7)))
    pools = tuple(_pool(draw, number, zones) for number in range(draw.choice((1, 1, 2, 2, 3, 4))))
    daemons = tuple(random_daemon(draw, number) for number in range(draw.choice((0, 0, 1, 2))))
    volumes, claims, classes = random_storage(draw, zones)
    nodes, node_claims = _nodes(draw, types, pools)
    running = running_pods(draw, nodes, claims) + daemon_pods(draw, daemons, nodes)
    pending = pending_pods(draw, draw.randint(5, most_pods), claims)
    named = {pod.namespace for pod in (*running, *pending)}
    return Snapshot(
        now=NOW,
        cluster="random",
        pods=(*running, *pending),
        nodes=nodes,
        node_claims=node_claims,
        node_pools=pools,
        daemon_sets=daemons,
        volumes=volumes,
        volume_claims=claims,
        storage_classes=classes,
        attachments=_attachments(draw, nodes, volumes),
        namespaces=tuple(Namespace(name=n, labels={"env": draw.choice(("dev", "prod"))}) for n in sorted(named)),
        catalogue=Catalogue(default=types),
        marked_for_deletion=_marked(draw, node_claims),
        options=Options(
            preference_policy=RESPECT if chance(draw, 0.8) else IGNORE,
            min_values_policy=STRICT if chance(draw, 0.85) else BEST_EFFORT,
        ),
    )


def shuffled(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same cluster with every list in another order."""
    draw = Random(seed)  # noqa: S311 - a test's dice
    changes: dict[str, object] = {}
    for name in snapshot.__struct_fields__:
        value = getattr(snapshot, name)
        if isinstance(value, tuple):
            changes[name] = tuple(draw.sample(value, len(value)))
    types = snapshot.catalogue.default
    mixed = [
        msgspec.structs.replace(kind, offerings=tuple(draw.sample(kind.offerings, len(kind.offerings))))
        for kind in draw.sample(types, len(types))
    ]
    changes["catalogue"] = msgspec.structs.replace(snapshot.catalogue, default=tuple(mixed))
    return msgspec.structs.replace(snapshot, **changes)


def _type(draw: Random, number: int, zones: tuple[str, ...]) -> InstanceType:
    cpu = draw.choice((1, 2, 2, 4, 4, 8, 16))
    memory = cpu * draw.choice((1, 2, 4))
    type_labels: dict[str, tuple[str, ...]] = {
        labels.ARCH: (draw.choice(("amd64", "amd64", "arm64")),),
        labels.OS: ("linux",) if chance(draw, 0.9) else ("linux", "windows"),
        FAMILY: (draw.choice(("a", "b", "c")),),
        NUMBER: (str(draw.choice((1, 2, 3, 10))),),
    }
    if chance(draw, 0.3):
        type_labels[SPEED] = ("fast",)
    capacity = {"cpu": cpu * 1000, "memory": memory * GIB, "pods": draw.choice((3, 8, 30, 110))}
    if chance(draw, 0.2):
        capacity[GPU] = draw.choice((1, 2, 8))
    overhead = {"cpu": 100, "memory": GIB // 4} if chance(draw, 0.5) else {}
    price = cpu * 40_000_000 + memory * 5_000_000 + draw.choice((0, 0, 1, 7)) * 1_000_000
    return InstanceType(
        name=f"type-{number}",
        labels=type_labels,
        capacity=capacity,
        overhead=overhead,
        offerings=_offerings(draw, f"type-{number}", price, zones),
        attach_limit=draw.choice((None, None, 1, 3, 25)),
    )


def _offerings(draw: Random, name: str, price: int, zones: tuple[str, ...]) -> tuple[Offering, ...]:
    offerings = []
    for zone in zones if chance(draw, 0.7) else some_of(draw, zones):
        for capacity_type, share in ((labels.ON_DEMAND, 10), (labels.SPOT, draw.choice((3, 4, 10, 11)))):
            if chance(draw, 0.9):
                offerings.append(Offering(name, zone, capacity_type, price * share // 10, available=chance(draw, 0.9)))
    return tuple(offerings)


def _pool(draw: Random, number: int, zones: tuple[str, ...]) -> NodePool:
    requirements = [r for r in _requirements(draw, zones) if chance(draw, 0.3)]
    pool_labels = {TIER: draw.choice(("gold", "silver"))} if chance(draw, 0.3) else {}
    taints = []
    if chance(draw, 0.25):
        taints.append(Taint("dedicated", draw.choice((NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE)), "x"))
    if chance(draw, 0.1):
        taints.append(Taint("other", PREFER_NO_SCHEDULE))
    return NodePool(
        name=f"pool-{number}",
        labels=pool_labels,
        taints=tuple(taints),
        startup_taints=(_STARTUP,) if chance(draw, 0.2) else (),
        requirements=tuple(requirements),
        node_class=CLASS_REF if chance(draw, 0.9) else ObjectRef("", "", ""),
        limits=_limits(draw),
        weight=draw.choice((0, 0, 0, 10, 50)),
        replicas=1 if chance(draw, 0.04) else None,
        is_ready=None if chance(draw, 0.1) else not chance(draw, 0.04),
    )


def _requirements(draw: Random, zones: tuple[str, ...]) -> list[Requirement]:
    """NodePools with one feature each; the caller picks among them."""
    atleast = draw.choice((None, None, 1, 2, 3))
    return [
        Requirement.of(labels.ZONE, draw.choice(("In", "NotIn")), some_of(draw, zones), 2 if chance(draw, 0.1) else None),
        Requirement.of(labels.CAPACITY_TYPE, "In", some_of(draw, (labels.SPOT, labels.ON_DEMAND))),
        Requirement.of(labels.ARCH, "In", some_of(draw, ("amd64", "arm64"))),
        Requirement.of(labels.OS, "In", ["linux"]),
        Requirement.of(FAMILY, draw.choice(("In", "NotIn")), some_of(draw, ("a", "b", "c"))),
        Requirement.of(labels.INSTANCE_TYPE, "Exists", (), atleast),
        Requirement.of(NUMBER, draw.choice(("Gt", "Lt", "Gte", "Lte")), [str(draw.choice((1, 2, 3)))]),
        Requirement.of(SPEED, draw.choice(("Exists", "DoesNotExist")), ()),
        Requirement.of(TEAM, "In", some_of(draw, ("x", "y", "z"))),
        Requirement.of(TEAM, draw.choice(("Exists", "DoesNotExist")), ()) if chance(draw, 0.5)
        else Requirement.of(TEAM, "NotIn", ["z"]),
        Requirement.of("example.com/rank", draw.choice(("Gt", "Lt", "Gte", "Lte")), [str(draw.choice((1, 2, 5)))]),
    ]  # fmt: skip


def _limits(draw: Random) -> dict[str, int]:
    if not chance(draw, 0.3):
        return {}
    return draw.choice(
        (
            {"cpu": 8000},
            {"cpu": 20000},
            {"nodes": 2},
            {"nodes": 0},
            {"memory": 24 * GIB},
            {"cpu": 16000, "nodes": 3},
            {GPU: 2},
        )
    )


def random_daemon(draw: Random, number: int) -> DaemonSet:
    requests = {"cpu": draw.choice((50, 100, 500)), "memory": draw.choice((0, GIB // 8, GIB // 2)), "pods": 1}
    spec = PodSpec(
        requests=requests,
        tolerations=(_EVERYTHING,) if chance(draw, 0.7) else (),
        node_selector=(Requirement.one_of(labels.ARCH, "amd64"),) if chance(draw, 0.2) else (),
        host_ports=(HostPort(9100),) if chance(draw, 0.3) else (),
    )
    return DaemonSet(namespace="kube-system", name=f"daemon-{number}", labels={"app": "daemon"}, spec=spec)


def daemon_pods(draw: Random, daemons: tuple[DaemonSet, ...], nodes: tuple[Node, ...]) -> tuple[Pod, ...]:
    """The DaemonSets' pods on most of their nodes; the other nodes have none yet."""
    return tuple(
        Pod(
            namespace="kube-system",
            name=f"{daemon.name}-{node.name}",
            labels=daemon.labels,
            spec=daemon.spec,
            owners=(Owner("DaemonSet", daemon.name, "apps/v1"),),
            node_name=node.name,
            phase="Running",
        )
        for daemon in daemons
        for node in nodes
        if chance(draw, 0.7) and runs_daemon(daemon, {labels.HOSTNAME: node.name, **node.labels}, node.taints)
    )


def _nodes(
    draw: Random, types: tuple[InstanceType, ...], pools: tuple[NodePool, ...]
) -> tuple[tuple[Node, ...], tuple[NodeClaim, ...]]:
    nodes, claims = [], []
    for number in range(draw.choice((0, 0, 1, 2, 3, 5, 8))):
        node, claim = _node(draw, f"node-{number}", draw.choice(types), draw.choice((*pools, None)))
        nodes += [node] if node is not None else []
        claims += [claim] if claim is not None else []
    return tuple(nodes), tuple(claims)


def _node(draw: Random, name: str, kind: InstanceType, pool: NodePool | None) -> tuple[Node | None, NodeClaim | None]:
    """A node: unmanaged, ours, ours but not initialized yet, or a claim whose node has not joined."""
    offering = draw.choice(kind.offerings or (Offering(kind.name, ZONES[0], labels.ON_DEMAND, 1),))
    own_labels = next(node_labels(kind, offering, {}))
    del own_labels[labels.REGISTERED], own_labels[labels.INITIALIZED]
    shape = {"capacity": kind.capacity, "allocatable": room_of(kind)}
    limits = {EBS: kind.attach_limit} if kind.attach_limit is not None else {}
    if pool is None:
        extra = {TEAM: draw.choice(("x", "y"))} if chance(draw, 0.5) else {}
        if chance(draw, 0.1):
            del own_labels[labels.ZONE]
        taints = (Taint("dedicated", NO_SCHEDULE, "x"),) if chance(draw, 0.2) else ()
        gone = NOW if chance(draw, 0.05) else None
        return Node(
            name=name, labels={**own_labels, **extra, labels.HOSTNAME: name}, taints=taints, is_ready=True, created_at=NOW,
            deleted_at=gone, attach_limits=limits, **shape,
        ), None  # fmt: skip
    own_labels |= {**pool.labels, labels.NODEPOOL: pool.name}
    for requirement in pool.requirements:
        if requirement.key not in own_labels and requirement.values and not requirement.complement:
            own_labels[requirement.key] = draw.choice(requirement.values)
    state = draw.choice(("ready", "ready", "ready", "booting", "launched", "created"))
    reached = {"created": (), "launched": (LAUNCHED,), "booting": (LAUNCHED, REGISTERED)}
    done = reached.get(state, (LAUNCHED, REGISTERED, INITIALIZED))
    goes = draw.random()
    claim = NodeClaim(
        name=f"{pool.name}-{name}", labels=own_labels, taints=pool.taints, startup_taints=pool.startup_taints,
        resources={"cpu": 500, "memory": GIB, "pods": 2}, node_class=pool.node_class, created_at=NOW,
        provider_id=f"aws:///i-{name}" if state != "created" else "",
        node_name=name if state in ("ready", "booting") else "",
        deleted_at=NOW if goes < 0.05 else None,
        ends_at=NOW if goes < 0.025 else None,
        conditions={condition: Condition("True", changed_at=NOW) for condition in done},
        **(shape if state != "created" else {}),
    )  # fmt: skip
    if state in ("launched", "created"):
        return None, claim
    own_labels = {**own_labels, labels.HOSTNAME: name, labels.REGISTERED: "true"}
    taints = pool.taints
    if state == "ready":
        own_labels[labels.INITIALIZED] = "true"
    else:
        taints = (*taints, *pool.startup_taints, Taint("node.kubernetes.io/not-ready", NO_SCHEDULE))
    return Node(
        name=name, labels=own_labels, taints=taints, provider_id=claim.provider_id, is_ready=state == "ready", created_at=NOW,
        attach_limits=limits, **shape,
    ), claim  # fmt: skip


def _attachments(
    draw: Random, nodes: tuple[Node, ...], volumes: tuple[PersistentVolume, ...]
) -> tuple[VolumeAttachment, ...]:
    if not nodes or not volumes or chance(draw, 0.7):
        return ()
    volume = draw.choice(volumes)
    return (VolumeAttachment(name="attachment", node_name=draw.choice(nodes).name, volume_name=volume.name),)


def _marked(draw: Random, claims: tuple[NodeClaim, ...]) -> tuple[str, ...]:
    launched = [claim.name for claim in claims if claim.provider_id]
    return (draw.choice(launched),) if launched and chance(draw, 0.1) else ()
