"""Services as clusters have them: a few large, many small, requests spread widely around a median."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.workloads.ec2 import ec2_cluster, plain_types
from benchmarks.workloads.manifests import HOSTNAME, ZONE, PodShape, Workload, numbered, required_terms, spread
from core.api.objects import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The share of the services with each rule.

    Attributes:
        zone_spread: Spread over zones.
        apart: Replicas on different hosts, by anti-affinity.
        host_spread: Replicas spread over hosts.
        skew_most: Largest maxSkew of such a spread.
    """

    zone_spread: float
    apart: float
    host_spread: float
    skew_most: int


_SOME_RULES: Final = Rules(zone_spread=0.6, apart=0.3, host_spread=0.3, skew_most=2)
_FOR_AVAILABILITY: Final = Rules(zone_spread=1.0, apart=0.5, host_spread=0.2, skew_most=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How requests are drawn: lognormal around medians, CPU and memory correlated.

    Attributes:
        cpu, memory: Medians, in thousandths of a core and MiB.
        sigma: Standard deviation of the logarithm.
        zipf: Exponent of the decline of replica counts.
        most: Largest request, in thousandths of a core and MiB.
    """

    cpu: int
    memory: int
    sigma: float
    correlation: float
    zipf: float
    most: tuple[int, int]


MICRO: Final = Mix(cpu=250, memory=512, sigma=1.0, correlation=0.6, zipf=1.1, most=(8000, 32768))
_MEMORY_HEAVY: Final = Mix(cpu=250, memory=3500, sigma=0.6, correlation=0.8, zipf=0.8, most=(4000, 65536))
_CPU_HEAVY: Final = Mix(cpu=1000, memory=700, sigma=0.6, correlation=0.8, zipf=0.8, most=(8000, 16384))


def lognormal(pods: int, services: int, catalogue: JsonObject, *, cpus_max: int = 0, seed: int = 0) -> Workload:
    """Small services of all sizes, without rules."""
    shapes = drawn_services("s", pods, services, MICRO, seed=seed)
    return Workload(numbered(_pods(shapes)), ec2_cluster(cpus_max), plain_types(catalogue))


def skewed(pods: int, catalogue: JsonObject, *, cpus_max: int = 0, seed: int = 1) -> Workload:
    """Half of the pods request much memory for their CPU, half little; 120 services."""
    shapes = drawn_services("m", pods // 2, 60, _MEMORY_HEAVY, seed=seed)
    shapes += drawn_services("c", pods - pods // 2, 60, _CPU_HEAVY, seed=seed + 7)
    return Workload(numbered(_pods(shapes)), ec2_cluster(cpus_max), plain_types(catalogue))


def ruled(pods: int, services: int, catalogue: JsonObject) -> Workload:
    """Services that spread over zones, keep their replicas on different hosts or spread them over hosts, or both."""
    return _ruled(pods, services, catalogue, _SOME_RULES)


def available(pods: int, services: int, catalogue: JsonObject) -> Workload:
    """Services of teams that follow the usual advice for availability.

    Every service is spread over zones. Half keep their replicas on different hosts; a fifth spread them over hosts, which is
    the same for new nodes; the others have no rule for hosts. The shares follow that advice; sizes and replicas are those of
    the services without rules. Neither was chosen by its effect on planners.
    """
    return _ruled(pods, services, catalogue, _FOR_AVAILABILITY)


def _ruled(pods: int, services: int, catalogue: JsonObject, rules: Rules) -> Workload:
    shapes = drawn_services("s", pods, services, MICRO, seed=0)
    draws = np.random.default_rng(2)
    shapes = [(_with_rules(shape, draws, rules), replicas) for shape, replicas in shapes]
    return Workload(numbered(_pods(shapes)), ec2_cluster(), plain_types(catalogue))


def drawn_services(prefix: str, pods: int, services: int, mix: Mix, *, seed: int) -> list[tuple[PodShape, int]]:
    """Each service's pods and how many replicas it has; `pods` in all."""
    draws = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, services + 1) ** mix.zipf
    replicas = np.maximum(1, np.floor(weights / weights.sum() * pods).astype(int))
    replicas[0] += pods - replicas.sum()
    normal = draws.standard_normal((services, 2))
    normal[:, 1] = mix.correlation * normal[:, 0] + math.sqrt(1 - mix.correlation**2) * normal[:, 1]
    cpu = _rounded(mix.cpu * np.exp(mix.sigma * normal[:, 0]), 10, 10, mix.most[0])
    memory = _rounded(mix.memory * np.exp(mix.sigma * normal[:, 1]), 16, 32, mix.most[1])
    draws.shuffle(replicas)
    return [
        (PodShape(cpu=cpu[i], memory=memory[i], labels={"app": f"{prefix}{i}"}), int(replicas[i]))
        for i in range(services)
    ]


def _rounded(amounts: np.ndarray[tuple[int], np.dtype[np.float64]], step: int, least: int, most: int) -> list[int]:
    """Round requests to values that people write."""
    return [int(amount) for amount in np.clip(np.round(amounts / step) * step, least, most)]


def _pods(services: list[tuple[PodShape, int]]) -> Iterator[PodShape]:
    for shape, replicas in services:
        yield from (shape for _ in range(replicas))


def _with_rules(shape: PodShape, draws: np.random.Generator, rules: Rules) -> PodShape:
    spec: JsonObject = {}
    spreads = []
    if draws.random() < rules.zone_spread:
        spreads.append(spread(ZONE, shape.labels))
    over_hosts = draws.random()
    if over_hosts < rules.apart:
        spec["affinity"] = {"podAntiAffinity": required_terms(HOSTNAME, shape.labels)}
    elif over_hosts < rules.apart + rules.host_spread:
        spreads.append(spread(HOSTNAME, shape.labels, max_skew=int(draws.integers(1, rules.skew_most + 1))))
    if spreads:
        spec["topologySpreadConstraints"] = spreads
    return replace(shape, spec=spec)
