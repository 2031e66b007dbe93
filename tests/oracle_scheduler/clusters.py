"""Random clusters that speak of every rule which the naive judge does not know, for the real kube-scheduler to judge.

Each is the hostile cluster of the same seed with features drawn apart, so that a seed keeps its cluster as features are added.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from core.model.pod import (
    WAIT_FOR_FIRST_CONSUMER,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    StorageClass,
    VolumeRequest,
    VolumeUse,
)
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from tests.property.naive.places import runs_daemon
from tests.property.naive.reading import APPS, FAMILY, ZONES, chance
from tests.property.naive_manifests.clusters import HOSTILE, cluster

Feature = Callable[[Random, Snapshot], Snapshot]
replace = msgspec.structs.replace

WIDE_FROM: Final = 30_000
"""Clusters of earlier seeds keep to the first features, so that they still show the faults that they once found."""

_HAND: Final = "hand"
_ONE_POD: Final = VolumeRequest(size=1, access_modes=("ReadWriteOncePod",))
_ASKED: Final = VolumeRequest(size=10, access_modes=("ReadWriteOnce",))
_FAST: Final = "fast"


def random_cluster(seed: int) -> Snapshot:
    """The cluster of a seed, with some of the features."""
    draw = Random(f"scheduler {seed}")  # noqa: S311 - a test's dice
    hostile = cluster(seed, HOSTILE)
    snapshot = with_all_daemons(with_daemons_somewhere(seed, hostile) if seed >= WIDE_FROM else hostile)
    for feature in (*FEATURES, _held_alone) if seed >= WIDE_FROM else FEATURES:
        if chance(draw, 0.35):
            snapshot = feature(draw, snapshot)
    return snapshot


def with_daemons_somewhere(seed: int, snapshot: Snapshot) -> Snapshot:
    """The cluster, where DaemonSets may run on some nodes alone by their affinity, and hold ports of these."""
    draw = Random(f"daemons {seed}")  # noqa: S311 - a test's dice
    if not chance(draw, 0.25):
        return snapshot
    places = (
        Requirement.of(labels.ZONE, "NotIn", [draw.choice(ZONES)]),
        Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),
        Requirement.of(FAMILY, "In", ["a", "b"]),
        Requirement.of(labels.NODEPOOL, "Exists", ()),
    )
    daemons = tuple(
        replace(
            daemon,
            spec=replace(
                daemon.spec,
                required_terms=tuple(NodeSelectorTerm((one,)) for one in draw.sample(places, draw.randint(1, 2))),
                host_ports=(HostPort(80),) if chance(draw, 0.5) else daemon.spec.host_ports,
            ),
        )
        for daemon in snapshot.daemon_sets
    )
    pods = tuple(pod for pod in snapshot.pods if not pod.is_daemon)
    return replace(snapshot, daemon_sets=daemons, pods=pods)


def with_all_daemons(snapshot: Snapshot) -> Snapshot:
    """The cluster with every pod of its DaemonSets: the planner keeps their room, and the judge sees the others alone."""
    there = {(pod.node_name, owner.name) for pod in snapshot.pods for owner in pod.owners if owner.kind == "DaemonSet"}
    missing = tuple(
        Pod(
            namespace=daemon.namespace,
            name=f"{daemon.name}-{node.name}",
            labels=daemon.labels,
            spec=daemon.spec,
            owners=(Owner("DaemonSet", daemon.name, "apps/v1"),),
            node_name=node.name,
            phase="Running",
        )
        for daemon in snapshot.daemon_sets
        for node in snapshot.nodes
        if (node.name, daemon.name) not in there
        and runs_daemon(daemon, {labels.HOSTNAME: node.name, **node.labels}, node.taints)
    )
    return replace(snapshot, pods=(*snapshot.pods, *missing))


def with_sidecar_ports(seed: int, objects: dict[Resource, list[JsonObject]]) -> dict[Resource, list[JsonObject]]:
    """The objects, where sidecars hold the host ports of some pods."""
    draw = Random(f"sidecars {seed}")  # noqa: S311 - a test's dice
    pods = [_with_sidecar(pod) if chance(draw, 0.5) else pod for pod in objects[resources.PODS]]
    return {**objects, resources.PODS: pods}


def with_unparsable_preferences(
    seed: int, objects: dict[Resource, list[JsonObject]]
) -> dict[Resource, list[JsonObject]]:
    """The objects, where some pods prefer nodes by a term that the scheduler cannot parse: it then scores no node for them."""
    draw = Random(f"preferences {seed}")  # noqa: S311 - a test's dice
    share = 0.1 if chance(draw, 0.3) else 0.0
    pods = [_with_preference(pod, draw) if chance(draw, share) else pod for pod in objects[resources.PODS]]
    return {**objects, resources.PODS: pods}


_SIZES: Final = ("resources", "allocatedResources")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses")

DROPPED_BEFORE: Final[tuple[tuple[str, Resource, tuple[str, ...]], ...]] = (
    ("1.33", resources.PODS, tuple(f"status.{kind}.{name}" for kind in _STATUSES for name in _SIZES)),
    ("1.34", resources.PODS, ("spec.resources",)),
    ("1.34", resources.PERSISTENT_VOLUME_CLAIMS, ("spec.volumeAttributesClassName",)),
    ("1.34", resources.PERSISTENT_VOLUMES, ("spec.volumeAttributesClassName",)),
    ("1.36", resources.PODS, tuple(f"status.{name}" for name in _SIZES)),
    ("1.37", resources.CSI_DRIVERS, ("spec.preventPodSchedulingIfMissing",)),
)
"""Minor version → fields that API servers before it drop, since their gates are off (kubernetes, pkg/features)."""


def as_stored(emulated: str, objects: dict[Resource, list[JsonObject]]) -> dict[Resource, list[JsonObject]]:
    """The objects as the API server of a minor version stores them; all of their fields without a version."""
    stored = dict(objects)
    for version, kind, paths in DROPPED_BEFORE:
        if emulated and _minor(emulated) < _minor(version):
            for path in paths:
                stored[kind] = [_without(obj, path.split(".")) for obj in stored.get(kind, ())]
    return stored


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _without(value: Any, path: list[str]) -> Any:
    if isinstance(value, list):
        return [_without(element, path) for element in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    if len(path) == 1:
        return {key: field for key, field in value.items() if key != path[0]}
    return {**value, path[0]: _without(value[path[0]], path[1:])}


def _with_preference(pod: JsonObject, draw: Random) -> JsonObject:
    values = draw.choice((("Gt", "abc"), ("Lt", "1.5"), ("In", "not a value")))
    expression = {"key": labels.ZONE, "operator": values[0], "values": [values[1]]}
    term = {"weight": draw.randint(1, 100), "preference": {"matchExpressions": [expression]}}
    affinity = pod["spec"].get("affinity") or {}
    by_node = affinity.get("nodeAffinity") or {}
    preferred = [*by_node.get("preferredDuringSchedulingIgnoredDuringExecution", ()), term]
    by_node = {**by_node, "preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {**pod, "spec": {**pod["spec"], "affinity": {**affinity, "nodeAffinity": by_node}}}


def _with_sidecar(pod: JsonObject) -> JsonObject:
    containers: list[dict[str, Any]] = [dict(container) for container in pod["spec"]["containers"]]
    ports = containers[0].pop("ports", None)
    if not ports:
        return pod
    sidecar = {"name": "side", "image": "example.com/side", "restartPolicy": "Always", "ports": ports}
    init = [*pod["spec"].get("initContainers", ()), sidecar]
    return {**pod, "spec": {**pod["spec"], "containers": containers, "initContainers": init}}


def _changed(snapshot: Snapshot, draw: Random, share: float, change: Callable[[Pod], Pod]) -> Snapshot:
    """The cluster with a change of some waiting pods."""
    pods = tuple(change(pod) if not pod.node_name and chance(draw, share) else pod for pod in snapshot.pods)
    return replace(snapshot, pods=pods)


def _of_spec(pod: Pod, **fields: Any) -> Pod:
    return replace(pod, spec=replace(pod.spec, **fields))


def _several_terms(draw: Random, snapshot: Snapshot) -> Snapshot:
    def terms() -> tuple[PodAffinityTerm, ...]:
        app = LabelSelector((Requirement.one_of("app", draw.choice(APPS)),))
        version = LabelSelector((Requirement.one_of("version", draw.choice(("1", "2"))),))
        keys = draw.sample((labels.ZONE, labels.HOSTNAME, labels.ZONE), 2)
        return tuple(PodAffinityTerm(key, selector) for key, selector in zip(keys, (app, version), strict=True))

    return _changed(snapshot, draw, 0.15, lambda pod: _of_spec(pod, affinity=terms()))


def _empty_selectors(draw: Random, snapshot: Snapshot) -> Snapshot:
    def emptied(pod: Pod) -> Pod:
        return _of_spec(pod, spreads=tuple(replace(spread, selector=LabelSelector()) for spread in pod.spec.spreads))

    return _changed(snapshot, draw, 0.3, emptied)


def _shared_claims(draw: Random, snapshot: Snapshot) -> Snapshot:
    claim = PersistentVolumeClaim(namespace="shop", name="shared", storage_class="any", request=_ASKED)
    using = (VolumeUse("shared"),)
    changed = _changed(
        snapshot, draw, 0.15, lambda pod: _of_spec(pod, volumes=using) if pod.namespace == "shop" else pod
    )
    return replace(changed, volume_claims=(*snapshot.volume_claims, claim))


def _one_pod_claims(draw: Random, snapshot: Snapshot) -> Snapshot:
    claim = PersistentVolumeClaim(namespace="shop", name="alone", storage_class="any", request=_ONE_POD)
    using = (VolumeUse("alone"),)
    changed = _changed(
        snapshot, draw, 0.08, lambda pod: _of_spec(pod, volumes=using) if pod.namespace == "shop" else pod
    )
    return replace(changed, volume_claims=(*snapshot.volume_claims, claim))


def _hand_made(draw: Random, snapshot: Snapshot) -> Snapshot:
    storage = StorageClass(name=_HAND, provisioner="kubernetes.io/no-provisioner", binding_mode=WAIT_FOR_FIRST_CONSUMER)
    volumes = tuple(
        PersistentVolume(
            name=f"hand-{number}", storage_class=_HAND, size=draw.choice((5, 10, 20)), phase="Available",
            access_modes=("ReadWriteOnce",), driver="hand.example.com", attributes_class="" if number < 3 else _FAST,
            node_terms=(NodeSelectorTerm((Requirement.one_of(labels.ZONE, draw.choice(ZONES)),)),),
        )
        for number in range(draw.randint(1, 4))
    )  # fmt: skip
    waiting = [pod for pod in snapshot.pods if not pod.node_name and not pod.spec.volumes]
    chosen = {pod.key: f"hand-{pod.name}" for pod in draw.sample(waiting, min(len(waiting), 4))}
    fast = max(chosen.values(), default="")
    claims = tuple(
        PersistentVolumeClaim(
            namespace=pod.namespace, name=chosen[pod.key], storage_class=_HAND,
            request=replace(_ASKED, attributes_class=_FAST if chosen[pod.key] == fast else ""),
        )
        for pod in waiting
        if pod.key in chosen
    )  # fmt: skip
    pods = tuple(
        _of_spec(pod, volumes=(VolumeUse(chosen[pod.key]),)) if pod.key in chosen else pod for pod in snapshot.pods
    )
    return replace(
        snapshot,
        pods=pods,
        volumes=(*snapshot.volumes, *volumes),
        volume_claims=(*snapshot.volume_claims, *claims),
        storage_classes=(*snapshot.storage_classes, storage),
    )


def _selected_nodes(draw: Random, snapshot: Snapshot) -> Snapshot:
    if not snapshot.nodes:
        return snapshot
    claim = PersistentVolumeClaim(
        namespace="shop",
        name="chosen",
        storage_class="any",
        request=_ASKED,
        selected_node=draw.choice(snapshot.nodes).name,
    )
    waiting = [pod for pod in snapshot.pods if pod.namespace == "shop" and not pod.node_name]
    key = draw.choice(waiting).key if waiting else ""
    pods = tuple(_of_spec(pod, volumes=(VolumeUse("chosen"),)) if pod.key == key else pod for pod in snapshot.pods)
    return replace(snapshot, pods=pods, volume_claims=(*snapshot.volume_claims, claim))


def _nominated(draw: Random, snapshot: Snapshot) -> Snapshot:
    if not snapshot.nodes:
        return snapshot
    node = draw.choice(snapshot.nodes).name
    return _changed(
        snapshot,
        draw,
        0.05,
        lambda pod: replace(_of_spec(pod, priority=draw.choice((0, 10))), nominated_node_name=node),
    )


def _daemon_rules(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Rules between waiting pods and the DaemonSets, whose pods have the label `app: daemon` in another namespace."""
    selector = LabelSelector((Requirement.one_of("app", "daemon"),))
    term = PodAffinityTerm(labels.HOSTNAME, selector, namespaces=("kube-system",))
    field = draw.choice(("affinity", "anti_affinity"))
    return _changed(snapshot, draw, 0.1, lambda pod: _of_spec(pod, **{field: (term,)}))


def _daemons_apart(draw: Random, snapshot: Snapshot) -> Snapshot:
    """DaemonSets whose pods keep away from some others: whoever comes second waits."""
    selector = LabelSelector((Requirement.one_of("app", draw.choice(APPS)),))
    term = PodAffinityTerm(draw.choice((labels.HOSTNAME, labels.ZONE)), selector, namespaces=("shop",))
    chosen = {daemon.name for daemon in snapshot.daemon_sets if chance(draw, 0.5)}
    daemons = tuple(
        replace(daemon, spec=replace(daemon.spec, anti_affinity=(term,))) if daemon.name in chosen else daemon
        for daemon in snapshot.daemon_sets
    )
    pods = tuple(
        _of_spec(pod, anti_affinity=(term,)) if chosen & {owner.name for owner in pod.owners} else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, daemon_sets=daemons, pods=pods)


def _node_names(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Alternatives of the node affinity that name nodes (`matchFields`), alone or beside others."""
    if not snapshot.nodes:
        return snapshot

    def named(pod: Pod) -> Pod:
        operator = draw.choice(("In", "In", "NotIn"))
        term = NodeSelectorTerm((Requirement.of(labels.NODE_NAME, operator, [draw.choice(snapshot.nodes).name]),))
        others = pod.spec.required_terms if chance(draw, 0.5) else ()
        return _of_spec(pod, required_terms=(term, *others))

    return _changed(snapshot, draw, 0.1, named)


def _alternatives(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Several alternatives of the required node affinity, of which an existing node may fit a later one."""

    def either(pod: Pod) -> Pod:
        asked = draw.sample(
            (
                Requirement.one_of(labels.ZONE, draw.choice(ZONES)),
                Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),
                Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),
                Requirement.one_of(labels.ARCH, draw.choice(("amd64", "arm64"))),
            ),
            2,
        )
        return _of_spec(pod, required_terms=tuple(NodeSelectorTerm((one,)) for one in asked))

    return _changed(snapshot, draw, 0.15, either)


def _overcommitted(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Nodes with less CPU or memory than their pods request: they take pods that request none of it."""
    # A starting node would have no room for DaemonSets' pods, which the judge puts there in any case.
    started = [
        node for node in snapshot.nodes if labels.INITIALIZED in node.labels or labels.NODEPOOL not in node.labels
    ]
    short = {node.name: draw.choice(("cpu", "memory")) for node in started if chance(draw, 0.5)}
    nodes = tuple(
        replace(node, allocatable={**node.allocatable, short[node.name]: 10}) if node.name in short else node
        for node in snapshot.nodes
    )
    without = _changed(
        snapshot,
        draw,
        0.2,
        lambda pod: _of_spec(pod, requests={**pod.spec.requests, draw.choice(("cpu", "memory")): 0}),
    )
    return replace(without, nodes=nodes)


def _held_alone(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Bound claims of one pod at a time, which pods on nodes may use."""
    claims = tuple(
        replace(claim, request=_ONE_POD) if claim.volume_name and chance(draw, 0.5) else claim
        for claim in snapshot.volume_claims
    )
    return replace(snapshot, volume_claims=claims)


FEATURES: Final[tuple[Feature, ...]] = (
    _several_terms,
    _empty_selectors,
    _shared_claims,
    _one_pod_claims,
    _hand_made,
    _selected_nodes,
    _nominated,
    _daemon_rules,
    _daemons_apart,
    _node_names,
    _alternatives,
    _overcommitted,
)
"""In the order in which they are drawn."""
