"""Karpenter's own scheduling benchmark: the same pods, from the same random draws, and the types of its fake provider.

Source: `makeDiversePods` and `fake.InstanceTypes` of sigs.k8s.io/karpenter. A fifth each: pods without rules, with a zonal
spread, with a spread over hosts, with a zonal affinity to their like, and with an anti-affinity on hosts among all of them.
Labels of the first three kinds come from one pool, so pods without rules count in the others' spreads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.workloads.go_random import GoRandom
from benchmarks.workloads.manifests import (
    HOSTNAME,
    ZONE,
    PodShape,
    Workload,
    node_pool,
    numbered,
    required_terms,
    spread,
)
from core.api.objects import JsonObject

_LETTERS: Final = "abcdefg"
_CPU: Final = (100, 250, 500, 1000, 1500)
_MEMORY: Final = (100, 256, 512, 1024, 2048, 4096)
_KINDS: Final = 5
_OFFERED: Final = (
    ("test-zone-1", "spot"),
    ("test-zone-2", "spot"),
    ("test-zone-1", "on-demand"),
    ("test-zone-2", "on-demand"),
    ("test-zone-3", "on-demand"),
)


def diverse(pods: int, types: int) -> Workload:
    """This many pods on this many fake types."""
    return Workload(numbered(diverse_pods(pods)), [node_pool()], fake_catalogue(types))


def diverse_pods(count: int) -> Iterator[PodShape]:
    """Return the pods in the order in which Go makes them, in a process without earlier draws."""
    draws = GoRandom()
    per_kind = count // _KINDS
    yield from _plain(draws, per_kind)
    yield from _spreading(draws, per_kind, ZONE)
    yield from _spreading(draws, per_kind, HOSTNAME)
    for _ in range(per_kind):
        labels = {"my-affininity": _LETTERS[draws.intn(7)]}
        yield _drawn(draws, labels, {"affinity": {"podAffinity": required_terms(ZONE, labels)}})
    for _ in range(per_kind):
        labels = {"app": "nginx"}
        yield _drawn(draws, labels, {"affinity": {"podAntiAffinity": required_terms(HOSTNAME, labels)}})
    yield from _plain(draws, count - _KINDS * per_kind)


def fake_catalogue(types: int) -> JsonObject:
    """Types of 1, 2, 3 … vCPU with twice as many GiB and ten times as many pods; the price is linear in the size."""
    return {"instanceTypes": [_fake_type(number) for number in range(types)]}


def _plain(draws: GoRandom, count: int) -> Iterator[PodShape]:
    for _ in range(count):
        yield _drawn(draws, _my_label(draws), {})


def _spreading(draws: GoRandom, count: int, key: str) -> Iterator[PodShape]:
    for _ in range(count):
        labels = _my_label(draws)
        yield _drawn(draws, labels, {"topologySpreadConstraints": [spread(key, _my_label(draws))]})


def _my_label(draws: GoRandom) -> dict[str, str]:
    return {"my-label": _LETTERS[draws.intn(7)]}


def _drawn(draws: GoRandom, labels: dict[str, str], spec: JsonObject) -> PodShape:
    cpu = _CPU[draws.intn(len(_CPU))]
    return PodShape(cpu=cpu, memory=_MEMORY[draws.intn(len(_MEMORY))], labels=labels, spec=spec)


def _fake_type(number: int) -> JsonObject:
    cpus, gibibytes = number + 1, 2 * (number + 1)
    price = 0.1 * cpus + 0.1 * (gibibytes << 30) / 1e9
    return {
        "name": f"fake-it-{number}",
        "requirements": {
            "kubernetes.io/arch": ["amd64"],
            "kubernetes.io/os": ["darwin", "linux", "windows"],
            "size": ["large" if cpus > 4 else "small"],
            "integer": [str(cpus)],
            **({"special": ["optional"]} if cpus > 4 else {}),
        },
        "capacity": {"cpu": str(cpus), "memory": f"{gibibytes}Gi", "pods": str(10 * cpus)},
        "overhead": {"cpu": "100m", "memory": "10Mi"},
        "offerings": [
            {"zone": zone, "capacityType": capacity_type, "price": round(price, 9), "available": True}
            for zone, capacity_type in _OFFERED
        ],
    }
