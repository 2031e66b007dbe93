"""Random clusters of running nodes, each with some of the situations that lead to disruption.

A seed gives the same cluster on every machine. Every situation has its own NodePool, so that several occur in one cluster and
their nodes, budgets and pods interfere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_pool import BALANCED, WHEN_EMPTY, WHEN_EMPTY_OR_UNDERUTILIZED, Budget, Disruption, NodePool
from core.model.plan import DRIFTED, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED, Condition, Hold, NodeClaim
from core.model.pod import Pod
from core.model.snapshot import FeatureGates, Node, NodeCondition, Options, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from tests.builders import NOW
from tests.property.naive.clusters import daemon_pods, random_daemon
from tests.property.naive.places import room_of
from tests.property.naive.reading import CLASS_REF, FAMILY, GIB, TEAM, ZONES, chance
from tests.property.naive_disruption.residents import Residents

_SINCE: Final = NOW - timedelta(days=3)
_SCHEDULES: Final = ("0 0 * * *", "30 23 * * *", "@daily", "@hourly", "*/20 * * * *", "0 9-17 * * 1-5", "15 0 1,20 * 6")


@dataclass(eq=False)
class Machine:
    """One node under construction."""

    kind: InstanceType
    offering: Offering
    claim: NodeClaim
    node: Node
    pods: tuple[Pod, ...] = ()


class World:
    """A cluster under construction.

    Attributes:
        calm: Nothing is protected and budgets are ample, so that every disruptable node is disrupted.
    """

    def __init__(self, seed: int) -> None:
        self.draw = Random(f"disruption {seed}")  # noqa: S311 - a test's dice
        self.calm = chance(self.draw, 0.6)
        self.types = _market(self.draw)
        self.machines: list[Machine] = []
        self.pools: list[NodePool] = []
        self.residents = Residents(self.draw, calm=self.calm)

    def pool(self, name: str, **changes: object) -> NodePool:
        """Add a NodePool. With `wall`, a taint and a node selector keep its pods and all others apart."""
        draw, pool_labels = self.draw, {}
        if chance(draw, 0.4):
            pool_labels = {TEAM: name}
        taints = (Taint("dedicated", NO_SCHEDULE, "x"),) if chance(draw, 0.1) else ()
        fields = {
            "labels": pool_labels, "taints": taints, "disruption": self._disruption(), "requirements": self._requirements(),
            "limits": draw.choice(({}, {}, {}, {"cpu": 48000}, {"nodes": 5})), "weight": draw.choice((0, 0, 0, 20)),
            "termination_grace_period": timedelta(hours=1) if chance(draw, 0.3) else None,
        }  # fmt: skip
        node_pool = NodePool(name=name, node_class=CLASS_REF, is_ready=True, **{**fields, **changes})
        self.pools.append(node_pool)
        return node_pool

    def _disruption(self) -> Disruption:
        draw = self.draw
        after = timedelta(0) if self.calm else draw.choice((*(timedelta(0),) * 4, timedelta(minutes=30), None))
        policy = draw.choice((*(WHEN_EMPTY_OR_UNDERUTILIZED,) * (9 if self.calm else 4), WHEN_EMPTY, BALANCED))
        budgets = (Budget("100%"),) if self.calm or chance(draw, 0.3) else self._budgets()
        return Disruption(policy=policy, consolidate_after=after, budgets=budgets)

    def _budgets(self) -> tuple[Budget, ...]:
        draw, budgets = self.draw, []
        for _ in range(draw.choice((0, 1, 1, 2, 3))):
            reasons = draw.choice((None, None, None, ("Empty",), ("Underutilized", "Drifted"), ("Drifted",), ()))
            schedule = draw.choice((None, None, *_SCHEDULES))
            lasts = None if schedule is None else timedelta(minutes=draw.choice((10, 60, 480)))
            nodes = draw.choice(("0", "1", "1", "2", "10%", "34%", "50%", "100%"))
            budgets.append(Budget(nodes, reasons, schedule, lasts))
        return tuple(budgets)

    def _requirements(self) -> tuple[Requirement, ...]:
        draw, requirements = self.draw, []
        if chance(draw, 0.6):
            requirements.append(Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
        if chance(draw, 0.1):
            requirements.append(Requirement.of(labels.ZONE, "In", ZONES[:2]))
        if chance(draw, 0.1):
            requirements.append(Requirement.of(FAMILY, "NotIn", ("c",)))
        return tuple(requirements)

    def add(self, pool: NodePool, *, cpu: int | None = None, young: bool = False) -> Machine:
        """A node of the pool that is ready for pods; of about that many cores if a number is given."""
        draw = self.draw
        kinds = [kind for kind in self.types if cpu is None or kind.capacity["cpu"] == cpu * 1000] or list(self.types)
        kind = draw.choice(kinds)
        bought = [r for r in pool.requirements if r.key == labels.CAPACITY_TYPE]
        offered = [o for o in kind.offerings if not bought or o.capacity_type == labels.ON_DEMAND] or kind.offerings
        machine = _machine(f"node-{len(self.machines)}", kind, draw.choice(offered), pool, self.idle_since(young=young))
        self.machines.append(machine)
        return machine

    def idle_since(self, *, young: bool) -> datetime:
        """When a pod last came or went."""
        return NOW - (timedelta(minutes=self.draw.choice((1, 29, 30))) if young else timedelta(hours=2))

    def house(self, machine: Machine, pool: NodePool, count: int, share: float) -> None:
        """Pods that together request at most that share of the node."""
        machine.pods += self.residents.move_in(machine.node, pool, machine.kind, count, share)

    def snapshot(self) -> Snapshot:
        """The cluster."""
        draw = self.draw
        if not self.calm:
            for machine in self.machines:
                _hindered(draw, machine)
        nodes = tuple(machine.node for machine in self.machines)
        daemons = tuple(random_daemon(draw, number) for number in range(draw.choice((0, 0, 0, 1))))
        pending = self.residents.pending(draw.choice((0, 0, 0, 1, 3))) if chance(draw, 0.5) else ()
        claims = tuple(machine.claim for machine in self.machines)
        marked = [c.name for c in claims if not self.calm and chance(draw, 0.05)]
        return Snapshot(
            now=NOW,
            cluster="random",
            pods=(*(p for m in self.machines for p in m.pods), *daemon_pods(draw, daemons, nodes), *pending),
            nodes=nodes,
            node_claims=claims,
            node_pools=tuple(self.pools),
            daemon_sets=daemons,
            volumes=tuple(self.residents.volumes),
            volume_claims=tuple(self.residents.volume_claims),
            budgets=self.residents.budgets(),
            catalogue=Catalogue(default=self.types),
            marked_for_deletion=tuple(marked),
            paused_pools={self.pools[0].name: "new nodes do not join"} if not self.calm and chance(draw, 0.05) else {},
            nominated_until={
                draw.choice(nodes).name: NOW + timedelta(seconds=draw.choice((-5, 0, 20)))
            }
            if nodes and not self.calm and chance(draw, 0.2)
            else {},
            options=Options(
                karpenter_moves_only=chance(draw, 0.1),
                ignore_budgets=chance(draw, 0.03),
                feature_gates=FeatureGates(
                    node_repair=chance(draw, 0.9), spot_to_spot_consolidation=chance(draw, 0.5)
                ),
            ),
        )  # fmt: skip


def _market(draw: Random) -> tuple[InstanceType, ...]:
    """Types in several sizes; in some markets large ones cost more per core, in a few there are many types."""
    steep = draw.choice((0.8, 1.0, 1.25, 1.25))
    sizes = [2, 4, 8, 16, 32]
    if chance(draw, 0.25):
        sizes = [2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 16, 16, 16, 32, 32, 32]
    return tuple(_type(draw, number, cpu, steep) for number, cpu in enumerate(sizes))


def _type(draw: Random, number: int, cpu: int, steep: float) -> InstanceType:
    name, memory = f"type-{number}-{cpu}", cpu * draw.choice((2, 4, 4))
    price = round((cpu**steep) * 40_000_000 / 1000) * 1000 + memory * 2_000_000 + draw.choice((0, 0, 3)) * 1_000_000
    offerings = []
    for zone in ZONES:
        if chance(draw, 0.95):
            offerings.append(Offering(name, zone, labels.ON_DEMAND, price, available=chance(draw, 0.95)))
        if chance(draw, 0.9):
            share = draw.choice((30, 40, 70))
            offerings.append(Offering(name, zone, labels.SPOT, price * share // 100, available=chance(draw, 0.9)))
    return InstanceType(
        name=name,
        labels={labels.ARCH: ("amd64",), labels.OS: ("linux",), FAMILY: (draw.choice(("a", "b", "c")),)},
        capacity={"cpu": cpu * 1000, "memory": memory * GIB, "pods": draw.choice((8, 30, 110))},
        overhead={"cpu": 100, "memory": GIB // 4},
        offerings=tuple(offerings) or (Offering(name, ZONES[0], labels.ON_DEMAND, price),),
        attach_limit=draw.choice((None, 2, 25)),
    )


def _machine(name: str, kind: InstanceType, offering: Offering, pool: NodePool, since: datetime) -> Machine:
    claim_labels = {key: values[0] for key, values in kind.labels.items()} | pool.labels
    claim_labels |= {
        labels.INSTANCE_TYPE: kind.name,
        labels.ZONE: offering.zone,
        labels.CAPACITY_TYPE: offering.capacity_type,
    }
    claim_labels |= {labels.NODEPOOL: pool.name}
    shape = {"capacity": kind.capacity, "allocatable": room_of(kind)}
    claim = NodeClaim(
        name=f"{pool.name}-{name}", uid=f"uid-{name}", labels=claim_labels, taints=pool.taints, node_class=CLASS_REF,
        created_at=_SINCE, provider_id=f"aws:///i-{name}", node_name=name, last_pod_event_at=since,
        termination_grace_period=pool.termination_grace_period,
        conditions={c: Condition("True", changed_at=_SINCE) for c in (LAUNCHED, REGISTERED, INITIALIZED)}, **shape,
    )  # fmt: skip
    joined = {labels.HOSTNAME: name, labels.REGISTERED: "true", labels.INITIALIZED: "true"}
    node = Node(
        name=name, provider_id=claim.provider_id, labels=claim_labels | joined, taints=pool.taints, created_at=_SINCE,
        is_ready=True, attach_limits={}, **shape,
    )  # fmt: skip
    return Machine(kind, offering, claim, node)


def _hindered(draw: Random, machine: Machine) -> None:
    """Sometimes adds a property that protects a node, or makes it unmanaged."""
    what = draw.choice((*("",) * 22, "kept", "kept", "young", "false", "booting", "unready", "deleted", "held", "over",
                        "unread", "terminating", "stranger", "orphan"))  # fmt: skip
    node, claim = machine.node, machine.claim
    if what in ("kept", "false", "young"):
        text = {"kept": "true", "false": "false", "young": draw.choice(("1h", "2000h", "90000h", "0s"))}[what]
        node = _with(node, annotations={labels.DO_NOT_DISRUPT: text})
    elif what == "booting":
        kept_labels = {key: value for key, value in node.labels.items() if key != labels.INITIALIZED}
        node = _with(node, labels=kept_labels)
        claim = _with(claim, conditions={c: v for c, v in claim.conditions.items() if c != INITIALIZED})
    elif what == "unready":
        node = _with(node, is_ready=False)
    elif what == "deleted":
        claim = _with(claim, deleted_at=NOW)
    elif what in ("held", "over"):
        until = NOW + timedelta(minutes=5 if what == "held" else -5)
        claim = _with(claim, hold=Hold(until, "DrainBlocked", "its drain came to nothing"))
    elif what == "unread":
        node = _with(node, unreadable="status.capacity: not a quantity")
    elif what == "terminating":
        claim = _with(claim, conditions={**claim.conditions, INSTANCE_TERMINATING: Condition("True", changed_at=NOW)})
    elif what == "stranger":
        node = _with(node, labels={**node.labels, labels.NODEPOOL: "gone"})
        claim = _with(claim, labels={**claim.labels, labels.NODEPOOL: "gone"})
    elif what == "orphan":
        node = _with(node, labels={**node.labels, labels.INSTANCE_TYPE: "unknown"})
    machine.node, machine.claim = node, claim


def _with(item: object, **changes: object) -> object:
    return msgspec.structs.replace(item, **changes)


def _idle(world: World) -> None:
    """Nodes without pods."""
    pool = world.pool("idle")
    for _ in range(world.draw.choice((1, 2, 3))):
        world.add(pool, young=not world.calm and chance(world.draw, 0.3))


def _drifting(world: World) -> None:
    """Nodes, some of which no longer match their NodePool."""
    draw = world.draw
    pool = world.pool("drifting", own_annotations={labels.NODEPOOL_HASH: "new", labels.NODEPOOL_HASH_VERSION: "v4"})
    for number in range(draw.choice((1, 2, 3))):
        machine = world.add(pool, cpu=draw.choice((4, 8)))
        world.house(machine, pool, draw.choice((0, 1, 2, 4)), 0.7)
        if number == 0 or chance(draw, 0.5):
            _drift(draw, machine)


def _drift(draw: Random, machine: Machine) -> None:
    claim = machine.claim
    how = draw.choice(("condition", "condition", "hash", "version", "requirement", "image"))
    if how in ("condition", "image"):
        condition = Condition("True", "AMIDrift", changed_at=NOW - timedelta(minutes=draw.choice((1, 2, 90))))
        claim = _with(claim, conditions={**claim.conditions, DRIFTED: condition})
    elif how in ("hash", "version"):
        version = "v4" if how == "hash" else "v3"
        changed = {labels.NODEPOOL_HASH: "old", labels.NODEPOOL_HASH_VERSION: version}
        claim = _with(claim, annotations={**claim.annotations, **changed})
    else:
        changed = {key: value for key, value in claim.labels.items() if key != FAMILY} | {labels.ZONE: "zone-z"}
        claim = _with(claim, labels=changed)
    machine.claim = claim


def _static(world: World) -> None:
    """A NodePool of a fixed number of nodes, some drifted."""
    draw = world.draw
    count = draw.choice((1, 2, 3))
    wanted = count if chance(draw, 0.85) else count - 1
    limits = draw.choice(({}, {}, {}, {"nodes": count}, {"nodes": count + 1}))
    pool = world.pool("static", replicas=wanted, limits=limits)
    for number in range(count):
        machine = world.add(pool, cpu=4)
        world.house(machine, pool, draw.choice((0, 1, 2)), 0.5)
        if number == 0 or chance(draw, 0.5):
            condition = Condition("True", "NodePoolDrifted", changed_at=NOW - timedelta(minutes=number))
            machine.claim = _with(machine.claim, conditions={**machine.claim.conditions, DRIFTED: condition})


def _sparse(world: World) -> None:
    """Several nodes with few pods."""
    draw = world.draw
    pool = world.pool("sparse")
    for _ in range(draw.choice((2, 3, 4))):
        machine = world.add(pool, cpu=draw.choice((4, 8, 8)), young=not world.calm and chance(draw, 0.2))
        world.house(machine, pool, draw.choice((1, 1, 2)), 0.3)


def _oversized(world: World) -> None:
    """One large node with a small pod, usually behind a wall of its own."""
    draw = world.draw
    pool = world.pool("oversized", labels={TEAM: "oversized"} if chance(draw, 0.8) else {}, limits={})
    world.house(world.add(pool, cpu=draw.choice((16, 32))), pool, draw.choice((1, 2)), 0.1)


def _splittable(world: World) -> None:
    """One or two nodes whose pods fit on small nodes that cost less together."""
    draw = world.draw
    pool = world.pool(
        "splittable", labels={TEAM: "splittable"}, limits={}, taints=(),
        requirements=(Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),),
    )  # fmt: skip
    size = draw.choice((8, 16, 32))
    for _ in range(draw.choice((1, 1, 2))):
        machine = world.add(pool, cpu=size)
        world.residents.plain = True
        world.house(machine, pool, draw.choice((2, 3, 4)), draw.choice((0.85, 0.95)))
        world.residents.plain = False


_AILMENTS: Final = (
    ("Ready", "False"), ("Ready", "Unknown"), ("KernelReady", "False"), ("StorageReady", "False"),
    ("AcceleratedHardwareReady", "False"), ("DiskPressure", "True"),
)  # fmt: skip


def _ill(world: World) -> None:
    """Nodes of which one or several are unhealthy."""
    draw = world.draw
    pool = world.pool("ill")
    sick = 1 if chance(draw, 0.9) else 3
    for number in range(draw.choice((1, 2, 5))):
        machine = world.add(pool, cpu=draw.choice((4, 8)))
        world.house(machine, pool, draw.choice((0, 1, 2)), 0.5)
        if number < sick:
            kind, status = draw.choice(_AILMENTS)
            since = NOW - timedelta(minutes=draw.choice((5, 10, 29, 30, 60, 60, 60, 60)))
            conditions = (NodeCondition(kind, status, since),)
            machine.node = _with(machine.node, conditions=conditions, is_ready=kind != "Ready")


def _aged(world: World) -> None:
    """Nodes near or past their expiration."""
    draw = world.draw
    pool = world.pool("aged")
    for _ in range(draw.choice((1, 2, 3))):
        machine = world.add(pool, cpu=4)
        world.house(machine, pool, draw.choice((0, 1, 2)), 0.5)
        lasting = draw.choice((timedelta(hours=24), timedelta(hours=72), timedelta(hours=73), timedelta(hours=90)))
        machine.claim = _with(machine.claim, expire_after=lasting)


SITUATIONS: Final[tuple[Callable[[World], None], ...]] = (
    _idle, _drifting, _static, _sparse, _oversized, _splittable, _ill, _aged,
)  # fmt: skip
SHARES: Final = (0.15, 0.5, 0.5, 0.35, 0.4, 0.5, 0.7, 0.35)
"""How often each situation is drawn, so that each method finds something in a fifth of the worlds and more."""

FORMER_SHARES: Final = (0.15, 0.4, 0.4, 0.35, 0.4, 0.5, 0.5, 0.35)
"""Those of the worlds whose seeds are kept because they found a fault."""


def random_world(seed: int, shares: Sequence[float] = SHARES) -> Snapshot:
    """The cluster of a seed; `shares` is how often each situation is drawn."""
    world = World(seed)
    chosen = [
        situation_name for situation_name, share in zip(SITUATIONS, shares, strict=True) if chance(world.draw, share)
    ]
    for situation in chosen or [world.draw.choice(SITUATIONS)]:
        situation(world)
    return world.snapshot()


def under_both_policies(world: Snapshot) -> tuple[Snapshot, Snapshot]:
    """The world with a target fleet, and with Karpenter's own moves only: no plan has commands of both."""
    target, moves = (msgspec.structs.replace(world.options, karpenter_moves_only=only) for only in (False, True))
    return msgspec.structs.replace(world, options=target), msgspec.structs.replace(world, options=moves)
