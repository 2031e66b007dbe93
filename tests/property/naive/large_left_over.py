"""The pods that a large plan leaves without a place although a new node would hold them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool
from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from tests.property.naive.large_last_place import can_be_asked, has_rules, refusals
from tests.property.naive.large_room import overfull, total
from tests.property.naive.large_topology import Site
from tests.property.naive.left_over import new_nodes
from tests.property.naive.places import room_of, runs_daemon
from tests.property.naive.promises import is_usable
from tests.property.naive.reading import tolerates, wants_node

_FOUND_MAX = 20


def given_up(snapshot: Snapshot, plan: Plan, sites: list[Site]) -> Iterator[str]:
    """Unplaced pods that could have a new node for themselves after all others; of equal pods, only one, and a few at most.

    NodePool limits are not considered, nor pods of which `can_be_asked` says no.
    """
    pods = {pod.key: pod for pod in snapshot.pods}
    repelling = any(pod.spec.anti_affinity for pod in pods.values())
    asked: set[object] = set()
    found = 0
    for entry in plan.unschedulable:
        pod = pods[entry.pod]
        spec = msgspec.structs.replace(pod.spec, requests={})
        is_ruled = repelling or has_rules(pod)
        of = (pod.namespace, tuple(sorted(pod.labels.items()))) if is_ruled else ()
        kind = repr((spec, sorted(pod.spec.requests.items()), of))
        if kind in asked or not can_be_asked(pod):
            continue
        asked.add(kind)
        there = _place_for(snapshot, pod, sites if is_ruled else None)
        if there:
            found += 1
            yield f"left: {entry.pod} could have {there}"
        if found == _FOUND_MAX:
            return


def new_node_for(snapshot: Snapshot, pool: NodePool, pod: Pod) -> str:
    """A node of the NodePool that would hold the pod alone beside its DaemonSets; empty if there is none."""
    return next((_named(pool, kind, own) for kind, own in nodes_for(snapshot, pool, pod)), "")


def nodes_for(snapshot: Snapshot, pool: NodePool, pod: Pod) -> Iterator[tuple[InstanceType, dict[str, str]]]:
    """Every node of the NodePool, with its labels, that would hold the pod alone beside its DaemonSets."""
    if not is_usable(pool) or not tolerates(pod.spec.tolerations, pool.taints):
        return
    for kind, own in new_nodes(snapshot, pool, pod):
        daemons = [daemon.spec for daemon in snapshot.daemon_sets if runs_daemon(daemon, own, pool.taints)]
        if wants_node(pod.spec, own) and not any(overfull(kind.name, total([pod.spec, *daemons]), room_of(kind))):
            yield kind, own


def _keys(snapshot: Snapshot) -> list[str]:
    """The topology keys of all rules, but for the hostname, which each new node has for itself."""
    terms = [term for pod in snapshot.pods for term in (*pod.spec.affinity, *pod.spec.anti_affinity)]
    return sorted({labels.ZONE, *(term.topology_key for term in terms)} - {labels.HOSTNAME})


def _place_for(snapshot: Snapshot, pod: Pod, sites: list[Site] | None) -> str:
    """A new node for the pod that breaks no rule of these sites, if there are any."""
    keys = _keys(snapshot) if sites is not None else []
    answers: dict[tuple[str | None, ...], bool] = {}
    for pool in snapshot.node_pools:
        for kind, own in nodes_for(snapshot, pool, pod):
            where = tuple(own.get(key) for key in keys)
            if where not in answers:
                answers[where] = sites is None or not any(refusals(snapshot, sites, pod, own))
            if answers[where]:
                return _named(pool, kind, own)
    return ""


def _named(pool: NodePool, kind: InstanceType, own: dict[str, str]) -> str:
    return f"a {kind.name} of {pool.name} in {own[labels.ZONE]}"
