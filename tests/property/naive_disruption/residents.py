"""Running pods of random nodes: they fit where they are, and have some of the rules that pods may have."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool
from core.model.plan import NodeClaim
from core.model.pod import (
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    VolumeUse,
)
from core.model.snapshot import ALWAYS_ALLOW, Node, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration
from tests.builders import NOW
from tests.property.naive.node_rules import EBS
from tests.property.naive.places import room_of
from tests.property.naive.reading import APPS, GIB, TEAM, chance, some_of, wants_node
from tests.property.naive.workloads import random_spec

_SPACE: Final = "shop"


class Residents:
    """Makes pods, and keeps the objects that they refer to.

    Attributes:
        calm: No pod is protected.
        plain: Pods have no rules for now.
    """

    def __init__(self, draw: Random, *, calm: bool) -> None:
        self.draw = draw
        self.calm = calm
        self.plain = False
        self.rules = draw.choice((0.0, 0.25, 0.25, 0.6))
        self.volumes: list[PersistentVolume] = []
        self.volume_claims: list[PersistentVolumeClaim] = []
        self._count = 0

    def move_in(self, node: Node, pool: NodePool, kind: InstanceType, count: int, share: float) -> tuple[Pod, ...]:
        """This many pods that together request at most this share of a node."""
        room = room_of(kind)
        cpu, memory = (int(room[name] * share / max(count, 1)) for name in ("cpu", "memory"))
        pods = []
        for _ in range(count):
            size = self.draw.choice((0.5, 0.9, 1.0))
            requests = {"cpu": int(cpu * size) // 10 * 10, "memory": int(memory * size * self.draw.choice((0.2, 0.9)))}
            pods.append(self._resident(node, pool, requests | {"pods": 1}))
        return tuple(pods)

    def pending(self, count: int) -> tuple[Pod, ...]:
        """Pods without a node."""
        sizes = [{"cpu": self.draw.choice((500, 1500, 3000)), "memory": GIB, "pods": 1} for _ in range(count)]
        return tuple(Pod(namespace=_SPACE, name=self._name("pending"), labels={"app": "queue", "version": "1"},
                         spec=PodSpec(requests=requests), created_at=NOW) for requests in sizes)  # fmt: skip

    def budgets(self) -> tuple[PodDisruptionBudget, ...]:
        """PodDisruptionBudgets, with or without a status."""
        draw = self.draw
        if self.calm and chance(draw, 0.8):
            return ()
        budgets = []
        for number in range(draw.choice((0, 0, 1, 1, 2))):
            kind, amount = draw.choice((("max", "1"), ("max", "50%"), ("max", "2"), ("min", "1"), ("min", "50%"),
                                        ("max", "0"), ("min", "100%")))  # fmt: skip
            never = amount in ("0", "100%")
            budgets.append(PodDisruptionBudget(
                namespace=_SPACE, name=f"budget-{number}",
                selector=LabelSelector((Requirement.one_of("app", *some_of(draw, APPS[:3])),)),
                max_unavailable=amount if kind == "max" else None, min_available=amount if kind == "min" else None,
                disruptions_allowed=0 if never else draw.choice((None, None, 0, 1, 2)),
                unhealthy_pod_eviction_policy=ALWAYS_ALLOW if chance(draw, 0.3) else "",
            ))  # fmt: skip
        return tuple(budgets)

    def _resident(self, node: Node, pool: NodePool, requests: dict[str, int]) -> Pod:
        draw = self.draw
        app = draw.choice(APPS)
        spec = PodSpec(requests=requests)
        if not self.plain and chance(draw, 0.6):
            spec = msgspec.structs.replace(random_spec(draw, app, self.rules), requests=requests, volumes=())
            if not wants_node(spec, node.labels):
                spec = msgspec.structs.replace(spec, node_selector=(), required_terms=())
        if pool.labels.get(TEAM):
            wall = (*spec.node_selector, Requirement.one_of(TEAM, pool.labels[TEAM]))
            if not any(r.key == TEAM for r in spec.node_selector):
                spec = msgspec.structs.replace(spec, node_selector=wall)
        if pool.taints and chance(draw, 0.9):
            more = (*spec.tolerations, Toleration("dedicated", "Exists"))
            spec = msgspec.structs.replace(spec, tolerations=more)
        name = self._name(app)
        if not self.plain and chance(draw, 0.08):
            spec = msgspec.structs.replace(spec, volumes=(self._volume(name, node),))
        if chance(draw, 0.1):
            spec = msgspec.structs.replace(spec, priority=draw.choice((-1_000_000_000, 1000, 2_000_000_000)))
        return self._kept(
            Pod(
                namespace=_SPACE, name=name, labels={"app": app, "version": draw.choice(("1", "2"))}, spec=spec,
                node_name=node.name, phase="Running", is_ready=True, created_at=NOW - timedelta(hours=5),
                started_at=NOW - timedelta(hours=2), owners=(Owner("ReplicaSet", app, "apps/v1", is_controller=True),),
            )
        )  # fmt: skip

    def _kept(self, pod: Pod) -> Pod:
        """Sometimes adds a property that makes a pod hard, or easy, to move."""
        draw = self.draw
        what = "" if self.calm and chance(draw, 0.8) else draw.choice((*("",) * 12, "kept", "hours", "over", "junk",
            "cheap", "dear", "going", "done", "unready", "stateful", "bare"))  # fmt: skip
        annotation = {"kept": "true", "hours": "3h", "over": "30m", "junk": "never"}.get(what)
        cost = {"cheap": "-2147483648", "dear": "2147483647"}.get(what)
        changes: dict[str, object] = {}
        if annotation is not None:
            changes["annotations"] = {labels.DO_NOT_DISRUPT: annotation}
        elif cost is not None:
            changes["annotations"] = {labels.POD_DELETION_COST: cost}
        elif what == "going":
            changes["deleted_at"] = NOW
        elif what == "done":
            changes["phase"] = "Succeeded"
        elif what == "unready":
            changes["is_ready"] = False
        elif what == "stateful":
            changes["owners"] = (Owner("StatefulSet", "s", "apps/v1", is_controller=True),)
        elif what == "bare":
            changes["owners"] = ()
        return msgspec.structs.replace(pod, **changes)

    def _volume(self, name: str, node: Node) -> VolumeUse:
        zone = NodeSelectorTerm((Requirement.one_of(labels.ZONE, node.labels[labels.ZONE]),))
        self.volumes.append(PersistentVolume(name=f"pv-{name}", node_terms=(zone,), driver=EBS))
        self.volume_claims.append(
            PersistentVolumeClaim(
                namespace=_SPACE, name=f"pvc-{name}", volume_name=f"pv-{name}", phase="Bound", is_bind_completed=True
            )
        )
        return VolumeUse(f"pvc-{name}")

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}-{self._count}"


# Nodes that have been unhealthy for long enough to be replaced (docs/engineering/handbook/expiry-and-repair.md).


_PATIENCE = {
    ("Ready", "False"): 30, ("Ready", "Unknown"): 30, ("AcceleratedHardwareReady", "False"): 30, ("StorageReady", "False"): 30,
    ("NetworkingReady", "False"): 30, ("KernelReady", "False"): 30, ("ContainerRuntimeReady", "False"): 30,
}  # fmt: skip
"""Condition and status → minutes."""

_KNOWN_FAULTS = (46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158)
"""Numbers of accelerator faults that are certain after ten minutes."""


def node_of(snapshot: Snapshot, claim: NodeClaim) -> Node | None:
    """The node of a claim."""
    return next((node for node in snapshot.nodes if node.provider_id == claim.provider_id), None)


def is_ill(snapshot: Snapshot, claim: NodeClaim) -> bool:
    """Whether a condition of its node has lasted long enough."""
    node = node_of(snapshot, claim)
    for condition in node.conditions if node is not None else ():
        minutes = _PATIENCE.get((condition.type, condition.status))
        if condition.type == "AcceleratedHardwareReady" and any(f"XID{n}" in condition.reason for n in _KNOWN_FAULTS):
            minutes = minutes and 10
        times = [moment for moment in (condition.changed_at, node and node.created_at) if moment is not None]
        rebooting = claim.conditions.get("Rebooting")
        if rebooting is not None and rebooting.status == "False" and rebooting.changed_at is not None:
            times.append(rebooting.changed_at)
        if minutes is not None and times and snapshot.now - max(times) >= timedelta(minutes=minutes):
            return True
    return False


def are_many_ill(snapshot: Snapshot, pool: str) -> bool:
    """Whether more than a fifth of the pool's nodes, rounded up, are unhealthy, for any length of time."""
    pool_nodes = [node for node in snapshot.nodes if node.labels.get(labels.NODEPOOL) == pool]
    pool_nodes = [node for node in pool_nodes if node.labels.get(labels.REGISTERED) == "true"]
    bad = [node for node in pool_nodes if any((c.type, c.status) in _PATIENCE for c in node.conditions)]
    return len(bad) * 5 > len(pool_nodes) + 4 if len(pool_nodes) % 5 else len(bad) * 5 > len(pool_nodes)
