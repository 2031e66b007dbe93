"""Random clusters whose greedy plan can be made much cheaper: pods without topology rules, and pods with all of them."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.pod import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    LabelSelector,
    Pod,
    PodAffinityTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import BEST_EFFORT, STRICT, Options, Snapshot
from core.model.values.requirements import Requirement
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.property.naive.clusters import random_cluster

_RULES = (
    "spreads", "affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity", "host_ports", "required_terms",
    "preferred_terms", "volumes",
)  # fmt: skip


def a_plain_cluster(seed: int, *, steps: int) -> Snapshot:
    """One random cluster; in three of four, pods have no rules."""
    cluster = random_cluster(seed)
    if Random(seed).random() < 0.75:  # noqa: S311 - a test's dice
        plain = dict.fromkeys(_RULES, ())
        pods = (msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **plain)) for pod in cluster.pods)
        cluster = msgspec.structs.replace(cluster, pods=tuple(pods))
    return with_steps(cluster, steps)


def with_steps(cluster: Snapshot, steps: int | None) -> Snapshot:
    """The same cluster with a bound on the steps of the search."""
    return msgspec.structs.replace(cluster, options=msgspec.structs.replace(cluster.options, improve_iterations=steps))


def a_ruled_cluster(seed: int, *, steps: int) -> Snapshot:
    """Services of every size with rules along zones and hostnames; some select other services' pods, some only prefer."""
    draw = Random(seed)  # noqa: S311 - a test's dice
    types = tuple(_type(draw, family, size) for family in ("c", "m", "r") for size in (1, 2, 4, 8, 16))
    names = [f"s{number}" for number in range(draw.randint(2, 8))]
    pods = tuple(pod for name in names for pod in _service(draw, name, names))
    capacity_types = draw.choice(((labels.ON_DEMAND,), (labels.ON_DEMAND, labels.SPOT)))
    limits = draw.choice(({}, {}, {}, {"cpu": 200_000}, {"nodes": 12}))
    choice = Requirement(labels.INSTANCE_TYPE, True, (), None, None, draw.choice((None, None, None, 2, 5)))
    if draw.random() < 0.2:
        types, capacity_types = _with_places(draw, types), (*capacity_types, labels.RESERVED)
    pool = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, *capacity_types), choice, limits=limits)
    claim, node = a_node_of(types[draw.randrange(len(types))], zone=draw.choice(ZONES))
    joined = {"nodes": (node,), "node_claims": (claim,)} if draw.random() < 0.3 else {}
    options = Options(min_values_policy=draw.choice((STRICT, STRICT, BEST_EFFORT)))
    return with_steps(a_snapshot(types=types, pods=pods, node_pools=(pool,), options=options, **joined), steps)


def _with_places(draw: Random, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    """The types; one of them has a little reserved capacity."""
    zone, places = draw.choice(ZONES), draw.randint(0, 3)
    chosen = draw.randrange(len(types))
    name = types[chosen].name
    place = Offering(name, zone, labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=places)
    kind = msgspec.structs.replace(types[chosen], offerings=(*types[chosen].offerings, place))
    return (*types[:chosen], kind, *types[chosen + 1 :])


def _type(draw: Random, family: str, size: int) -> InstanceType:
    gib = {"c": 2, "m": 4, "r": 8}[family]
    price = size * {"c": 0.042, "m": 0.048, "r": 0.063}[family] * draw.uniform(0.95, 1.05)
    arch = draw.choice(("amd64", "amd64", "arm64"))
    return a_type(
        f"{family}-{size}", cpu=str(size), memory=f"{gib * size}Gi", pods="30", price=price, **{labels.ARCH: arch}
    )


def _service(draw: Random, name: str, names: list[str]) -> list[Pod]:
    size = {"cpu": draw.choice(("100m", "250m", "700m", "1500m")), "memory": draw.choice(("128Mi", "1Gi", "3Gi"))}
    rules = _rules(draw, a_selector(app=name if draw.random() < 0.8 else draw.choice(names)))
    if draw.random() < 0.15:
        rules["node_selector"] = (Requirement.one_of(labels.ARCH, draw.choice(("amd64", "arm64"))),)
    count = draw.choice((1, 2, 3, 5, 9, 16))
    return [a_pod(f"{name}-{number}", **size, labels={"app": name}, **rules) for number in range(count)]


def _rules(draw: Random, selector: LabelSelector) -> dict[str, Any]:
    def spread(key: str) -> TopologySpread:
        kind = draw.choice((DO_NOT_SCHEDULE, DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
        return TopologySpread(key, draw.choice((1, 1, 2)), kind, selector)

    kind = draw.choice(("none", "zones", "hosts", "both", "apart", "rather apart", "together", "one zone", "own zones"))
    host, zone = PodAffinityTerm(labels.HOSTNAME, selector), PodAffinityTerm(labels.ZONE, selector)
    return {
        "none": {},
        "zones": {"spreads": (spread(labels.ZONE),)},
        "hosts": {"spreads": (spread(labels.HOSTNAME),)},
        "both": {"spreads": (spread(labels.ZONE), spread(labels.HOSTNAME))},
        "apart": {"anti_affinity": (host,)},
        "rather apart": {"preferred_anti_affinity": (WeightedPodAffinityTerm(100, host),)},
        "together": {"affinity": (host,)},
        "one zone": {"affinity": (zone,)},
        "own zones": {"anti_affinity": (zone,)},
    }[kind]
