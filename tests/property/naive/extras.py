"""Extras of random clusters: overlays, reservations, buffers, default spreads and more.

Their draws are separate from `clusters.random_cluster`, so that a seed found with the plain generator keeps its cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.pod import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    LabelSelector,
    Owner,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpread,
)
from core.model.snapshot import (
    ALWAYS_ALLOW,
    CapacityBuffer,
    FeatureGates,
    NodeOverlay,
    Options,
    PodDisruptionBudget,
    Service,
    Snapshot,
    WorkloadSelector,
)
from core.model.values.requirements import Requirement
from tests.builders import NOW
from tests.property.naive.clusters import random_cluster
from tests.property.naive.limits import with_quotas
from tests.property.naive.reading import APPS, CLASS_REF, DONGLE, FAMILY, GIB, SPEED, TIER, ZONES, chance, some_of

Extra = Callable[[Random, Snapshot], Snapshot]


QUOTAS_FROM: Final = 2_000_000
"""Clusters of earlier seeds have no quotas, so that they still show the faults that they once found."""


def rich_cluster(seed: int, most_pods: int = 60) -> Snapshot:
    """The random cluster of a seed with some of the extras: often none, sometimes several that interact."""
    snapshot = random_cluster(seed, most_pods)
    draw = Random(f"extras of {seed}")  # noqa: S311 - a test's dice
    share = draw.choice((0.0, 0.2, 0.5))
    for extra in EXTRAS:
        if chance(draw, share):
            snapshot = extra(draw, snapshot)
    quota_draw = Random(f"quotas of {seed}")  # noqa: S311 - a test's dice
    return with_quotas(quota_draw, snapshot) if seed >= QUOTAS_FROM and chance(quota_draw, 0.3) else snapshot


def _overlays(draw: Random, snapshot: Snapshot) -> Snapshot:
    """NodeOverlays with prices and capacity; some pods request what only an overlay gives."""
    overlays = tuple(_overlay(draw, number, snapshot) for number in range(draw.choice((1, 2, 4))))
    wants = {id(pod.spec) for pod in snapshot.pods if not pod.node_name and chance(draw, 0.05)}
    pods = tuple(
        _with_spec(pod, requests={**pod.spec.requests, DONGLE: 1}) if id(pod.spec) in wants else pod
        for pod in snapshot.pods
    )
    return msgspec.structs.replace(_gated(snapshot, node_overlay=True), overlays=overlays, pods=pods)


def _overlay(draw: Random, number: int, snapshot: Snapshot) -> NodeOverlay:
    requirements = (
        Requirement.of(labels.ZONE, draw.choice(("In", "NotIn")), some_of(draw, ZONES)),
        Requirement.of(FAMILY, draw.choice(("In", "NotIn")), some_of(draw, ("a", "b", "c"))),
        Requirement.one_of(labels.CAPACITY_TYPE, draw.choice((labels.SPOT, labels.ON_DEMAND))),
        Requirement.one_of(labels.NODEPOOL, draw.choice(snapshot.node_pools).name),
        Requirement.one_of(SPEED, "fast"),
        Requirement.one_of(TIER, "gold"),
        Requirement.one_of(labels.INSTANCE_TYPE, draw.choice(snapshot.catalogue.default).name),
    )
    kind = draw.choice(("price", "percent", "amount", "capacity", "capacity"))
    return NodeOverlay(
        name=f"overlay-{number}",
        requirements=tuple(draw.sample(requirements, draw.choice((0, 1, 1, 2)))),
        price=draw.choice((1_000_000, 90_000_000)) if kind == "price" else None,
        price_adjustment={
            "percent": draw.choice(("-50%", "+10%", "-100%")),
            "amount": draw.choice(("-0.05", "+0.01")),
        }.get(kind),
        capacity={DONGLE: draw.choice((1, 2))} if kind == "capacity" else {},
        weight=draw.choice((0, 0, 10)),
    )


def _reservations(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Reserved capacity of some types in a zone, cheaper than any other offering; some NodePools may use it."""
    types = tuple(_reserved(draw, kind) for kind in snapshot.catalogue.default)
    pools = []
    for pool in snapshot.node_pools:
        kept = tuple(r for r in pool.requirements if r.key != labels.CAPACITY_TYPE)
        chosen = draw.choice(
            (kept, kept, pool.requirements, (*kept, Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED)))
        )
        pools.append(msgspec.structs.replace(pool, requirements=chosen))
    catalogue = msgspec.structs.replace(snapshot.catalogue, default=types)
    gated = _gated(snapshot, reserved_capacity=not chance(draw, 0.1))
    return msgspec.structs.replace(gated, catalogue=catalogue, node_pools=tuple(pools))


def _reserved(draw: Random, kind: InstanceType) -> InstanceType:
    zones = some_of(draw, ZONES) if chance(draw, 0.5) else ()
    more = []
    for zone in zones:
        price, places = draw.choice((1, 1000)), draw.choice((0, 1, 1, 2, 5))
        more.append(
            Offering(kind.name, zone, labels.RESERVED, price, chance(draw, 0.9), f"cr-{kind.name}-{zone}", places)
        )
    return msgspec.structs.replace(kind, offerings=(*kind.offerings, *more))


def _buffers(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Capacity buffers whose virtual pods have no rules; no selector matches them."""
    buffers = tuple(
        CapacityBuffer(
            namespace="spare",
            name=f"buffer-{number}",
            pods=draw.choice((0, 1, 3, 12)),
            labels={"app": "spare"},
            spec=PodSpec(
                requests={"cpu": draw.choice((100, 1000, 3900)), "memory": draw.choice((0, GIB, 4 * GIB)), "pods": 1},
                node_selector=(Requirement.one_of(labels.ARCH, "amd64"),) if chance(draw, 0.3) else (),
            ),
        )
        for number in range(draw.choice((1, 1, 2)))
    )
    return msgspec.structs.replace(_gated(snapshot, capacity_buffer=True), buffers=buffers)


def _default_spreads(draw: Random, snapshot: Snapshot) -> Snapshot:
    """The cluster's default spread constraints, for pods of a Service or a controller without constraints of their own."""
    keys = draw.sample((labels.ZONE, labels.HOSTNAME, labels.CAPACITY_TYPE, labels.ARCH), draw.choice((1, 1, 2)))
    kinds = (DO_NOT_SCHEDULE, DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
    spreads = tuple(TopologySpread(key, draw.choice((1, 2, 5)), draw.choice(kinds)) for key in keys)
    services = tuple(
        Service(namespace=draw.choice(("shop", "bank")), name=f"service-{app}", selector={"app": app})
        for app in some_of(draw, APPS)
    )
    selectors = tuple(
        WorkloadSelector(
            namespace=namespace, kind="ReplicaSet", name=app, selector=LabelSelector((Requirement.one_of("app", app),))
        )
        for namespace in ("shop", "bank")
        for app in some_of(draw, APPS)
    )
    owned = {app: Owner("ReplicaSet", app, "apps/v1", is_controller=True) for app in some_of(draw, APPS)}
    pods = tuple(
        msgspec.structs.replace(pod, owners=(owned[pod.labels["app"]],))
        if pod.labels.get("app") in owned and not pod.owners
        else pod
        for pod in snapshot.pods
    )
    options = msgspec.structs.replace(snapshot.options, default_spreads=spreads)
    return msgspec.structs.replace(
        snapshot, options=options, services=services, workload_selectors=selectors, pods=pods
    )


def _budgets(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Unevictable pods stay on a node that goes; some StatefulSet pods that are being deleted already need a new place."""
    budgets = tuple(
        PodDisruptionBudget(
            namespace="shop",
            name=f"budget-{number}",
            selector=LabelSelector((Requirement.one_of("app", *some_of(draw, APPS)),)),
            max_unavailable=draw.choice((None, "0", "0%", "1")),
            min_available=draw.choice((None, "100%", "1")) if chance(draw, 0.5) else None,
            unhealthy_pod_eviction_policy=ALWAYS_ALLOW if chance(draw, 0.3) else "",
        )
        for number in range(draw.choice((1, 2)))
    )
    launched = [claim.name for claim in snapshot.node_claims if claim.provider_id]
    return msgspec.structs.replace(
        snapshot,
        budgets=budgets,
        pods=tuple(_guarded(draw, pod) if pod.node_name else pod for pod in snapshot.pods),
        marked_for_deletion=tuple(sorted(some_of(draw, launched))) if launched else (),
    )


def _guarded(draw: Random, pod: Pod) -> Pod:
    if chance(draw, 0.15):
        pod = msgspec.structs.replace(
            pod, annotations={labels.DO_NOT_DISRUPT: draw.choice(("true", "1h"))}, started_at=NOW
        )
    if chance(draw, 0.15) and not pod.is_daemon:
        pod = msgspec.structs.replace(pod, owners=(Owner("StatefulSet", "s", "apps/v1", is_controller=True),))
    return msgspec.structs.replace(pod, is_ready=draw.choice((None, True, False)))


def _two_classes(draw: Random, snapshot: Snapshot) -> Snapshot:
    """One EC2NodeClass leaves less allocatable on each type than the other."""
    fewer = tuple(
        msgspec.structs.replace(kind, overhead={"cpu": 300, "memory": GIB}, attach_limit=draw.choice((None, 0, 2)))
        for kind in some_of(draw, snapshot.catalogue.default)
    )
    other = msgspec.structs.replace(CLASS_REF, name="other")
    pools = tuple(
        msgspec.structs.replace(pool, node_class=other) if chance(draw, 0.5) else pool for pool in snapshot.node_pools
    )
    catalogue = Catalogue(snapshot.catalogue.default, {"other": tuple(sorted(fewer, key=lambda kind: kind.name))})
    return msgspec.structs.replace(snapshot, catalogue=catalogue, node_pools=pools)


def _marks(draw: Random, snapshot: Snapshot) -> Snapshot:
    """As in a live cluster: only pods that the scheduler has marked are planned for, and equal pods of their ReplicaSet."""
    marked = (
        msgspec.structs.replace(pod, is_marked_unschedulable=not pod.node_name and chance(draw, 0.6))
        for pod in snapshot.pods
    )
    pods = tuple(_of_replica_set(pod) if chance(draw, 0.5) else pod for pod in marked)
    options = msgspec.structs.replace(snapshot.options, requires_unschedulable_mark=True)
    return msgspec.structs.replace(snapshot, pods=pods, options=options)


def _of_replica_set(pod: Pod) -> Pod:
    owner = Owner("ReplicaSet", pod.labels.get("app", "web"), "apps/v1", is_controller=True)
    return pod if pod.owners else msgspec.structs.replace(pod, owners=(owner,))


def _wide_affinity(draw: Random, snapshot: Snapshot) -> Snapshot:
    """Workloads with an affinity to a pod that has several labels at once."""
    keys = (labels.ZONE, labels.ZONE, labels.HOSTNAME, labels.CAPACITY_TYPE)
    changed: dict[int, PodSpec] = {}
    for pod in snapshot.pods:
        if id(pod.spec) not in changed and not pod.node_name and chance(draw, 0.15):
            app, version = pod.labels.get("app", "web"), draw.choice(("1", "2", pod.labels.get("version", "1")))
            parts = (Requirement.one_of("app", app), Requirement.one_of("version", version))
            terms = tuple(PodAffinityTerm(draw.choice(keys), LabelSelector((part,))) for part in parts)
            changed[id(pod.spec)] = msgspec.structs.replace(pod.spec, affinity=terms)
    pods = tuple(msgspec.structs.replace(pod, spec=changed.get(id(pod.spec), pod.spec)) for pod in snapshot.pods)
    return msgspec.structs.replace(snapshot, pods=pods)


EXTRAS: Final[tuple[Extra, ...]] = (
    _two_classes, _overlays, _reservations, _wide_affinity, _default_spreads, _budgets, _marks, _buffers,
)  # fmt: skip


def _gated(snapshot: Snapshot, **gates: bool) -> Snapshot:
    feature_gates: FeatureGates = msgspec.structs.replace(snapshot.options.feature_gates, **gates)
    options: Options = msgspec.structs.replace(snapshot.options, feature_gates=feature_gates)
    return msgspec.structs.replace(snapshot, options=options)


def _with_spec(pod: Pod, **changes: object) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))
