"""Packing problems as arrays, small enough to check by hand or by trying all loads."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from core.packing.columns import Columns
from core.packing.problem import Floats, Ints, Packing, PackingProblem
from core.packing.settings import DEFAULT_SETTINGS

SETTINGS: Final = DEFAULT_SETTINGS
CPU, MEMORY = 1000, 2**30
SIZES = (
    (2, 4, 85),
    (2, 8, 96),
    (2, 16, 126),
    (8, 16, 340),
    (8, 32, 384),
    (8, 64, 504),
    (32, 64, 1360),
    (32, 256, 2016),
)
"""vCPU, GiB and thousandths of a dollar: compute, general and memory machines of three sizes."""

MILLS = 10**6
"""Nano-dollars in a thousandth of a dollar."""


def a_problem(
    requests: list[tuple[float, float]],
    counts: list[int],
    *,
    allowed: list[list[bool]] | None = None,
    per_machine_max: list[int] | None = None,
) -> PackingProblem:
    """Pods by vCPU and GiB on the machines of `SIZES`, each with 110 places."""
    wanted = [(round(cpu * CPU), round(gib * MEMORY), 1) for cpu, gib in requests]
    may = np.ones((len(counts), len(SIZES)), dtype=np.bool_) if allowed is None else np.array(allowed)
    return PackingProblem.of(
        requests=np.array(wanted, dtype=np.int64),
        counts=np.array(counts, dtype=np.int64),
        capacity=np.array([(cpu * CPU, gib * MEMORY, 110) for cpu, gib, _ in SIZES], dtype=np.int64),
        prices=np.array([price * MILLS for _, _, price in SIZES], dtype=np.int64),
        allowed=may,
        pods_per_machine_max=None if per_machine_max is None else np.array(per_machine_max),
    )


def with_small_pods(seed: int, *, items: int = 30, pods: int = 600) -> PackingProblem:
    """Random services: sizes over two orders of magnitude, most of them small."""
    dice = np.random.default_rng(seed)
    cpu = np.clip(np.exp(dice.normal(-1.2, 0.9, items)), 0.05, 7).round(2)
    gib = np.clip(cpu * np.exp(dice.normal(1.0, 0.8, items)), 0.1, 60).round(2)
    weights = dice.dirichlet(np.ones(items))
    counts = 1 + np.floor(weights * pods).astype(int)
    return a_problem(list(zip(cpu.tolist(), gib.tolist(), strict=True)), counts.tolist())


def with_large_pods(seed: int, *, items: int = 20, pods: int = 200) -> PackingProblem:
    """Random pods; a machine holds one to eight of them."""
    dice = np.random.default_rng(seed)
    cpu = dice.choice([1.1, 1.9, 2.7, 3.9, 5.5, 7.9], items)
    gib = (cpu * dice.choice([1.4, 2.9, 4.2, 7.6], items)).round(1)
    counts = dice.multinomial(pods - items, dice.dirichlet(np.ones(items))) + 1
    return a_problem(list(zip(cpu.tolist(), gib.tolist(), strict=True)), counts.tolist())


def with_values(seed: int) -> tuple[PackingProblem, Floats]:
    """Four items, and values of their pods at which some machines are worth their price."""
    dice = np.random.default_rng(seed)
    sizes = [(float(dice.choice([1.1, 1.9, 2.7, 3.9])), float(dice.choice([2, 5, 9]))) for _ in range(4)]
    problem = a_problem(sizes, [3, 2, 4, 2])
    prices = problem.prices[[problem.cheapest_type(load) for load in np.eye(4, dtype=np.int64)]]
    return problem, prices * dice.uniform(0.6, 1.0, 4)


def of_every_size(sizes: int, *, apart: int = 0) -> PackingProblem:
    """Machines of every size at the same price per vCPU, minus a fixed loss each; `apart` pods need a machine each."""
    steps = np.arange(1, sizes + 1)
    capacity = np.stack([1000 * steps - 100, 2048 * steps - 10, np.ones(sizes, dtype=np.int64)], axis=1)
    requests = [(250, 256, 0), (500, 2048, 0), (1000, 512, 0), (1500, 4096, 0), (500, 512, 1)]
    counts = [120, 90, 60, 45, apart]
    present = [i for i, count in enumerate(counts) if count]
    return PackingProblem.of(
        requests=np.array(requests, dtype=np.int64)[present],
        counts=np.array(counts, dtype=np.int64)[present],
        capacity=capacity.astype(np.int64),
        prices=(steps * 314_748_365).astype(np.int64),
        allowed=np.ones((len(present), sizes), dtype=np.bool_),
    )


def of_families(count: int) -> PackingProblem:
    """Machines of four sizes in this many families that differ slightly in capacity and price."""
    rows = [(size, family) for size in (2, 4, 8, 16) for family in range(count)]
    capacity = [(1000 * size - family, 4096 * size - 40 * family, 60) for size, family in rows]
    return PackingProblem.of(
        requests=np.array([(300, 1024, 1), (700, 3072, 1)], dtype=np.int64),
        counts=np.array([200, 100], dtype=np.int64),
        capacity=np.array(capacity, dtype=np.int64),
        prices=np.array([size * (50_000_000 + 500_000 * family) for size, family in rows], dtype=np.int64),
        allowed=np.ones((2, len(rows)), dtype=np.bool_),
    )


def a_market(seed: int) -> PackingProblem:
    """Thirty types of few different capacities, some at the same price, which admit different items."""
    dice = np.random.default_rng(seed)
    sizes, admits = dice.integers(4, 12, (8, 2)), dice.random((3, 4)) < 0.7
    size, pattern = dice.integers(0, 8, 30), dice.integers(0, 3, 30)
    allowed = admits[:, pattern] if seed % 2 else np.repeat(admits[:, [0]], 30, axis=1)
    allowed[:, 0] = True
    return PackingProblem.of(
        requests=dice.integers(1, 5, (3, 2)),
        counts=np.array([5, 4, 3]),
        capacity=sizes[size],
        prices=dice.integers(10, 30, 30),
        allowed=allowed,
    )


def one_pod_per_machine(problem: PackingProblem) -> Packing:
    """The most expensive packing that is still reasonable."""
    single = np.eye(len(problem.counts), dtype=np.int64)
    types = np.array([problem.cheapest_type(load) for load in single])
    return Packing(np.repeat(types, problem.counts), np.repeat(single, problem.counts, axis=0))


def all_columns(problem: PackingProblem) -> Columns:
    """Every load of every type."""
    ranges = [range(int(min(n, fit)) + 1) for n, fit in zip(problem.counts, problem.fit.max(axis=1), strict=True)]
    loads = [np.array(load) for load in itertools.product(*ranges)]
    columns = [
        (type_index, load)
        for type_index in range(len(problem.prices))
        for load in loads
        if (load @ problem.requests <= problem.capacity[type_index]).all()
        and (load <= problem.fit[:, type_index]).all()
    ]
    return Columns.of(
        [type_index for type_index, _ in columns], [load for _, load in columns], items=len(problem.counts)
    )


def best_values(problem: PackingProblem, item_values: Floats) -> Floats:
    """[type], the value of the best load, by trying all loads."""
    best = np.zeros(len(problem.prices))
    columns = all_columns(problem)
    np.maximum.at(best, columns.types, columns.loads @ item_values)
    return best


def cheapest_cost(problem: PackingProblem) -> int:
    """The optimum, by trying every partition of the pods into machines."""
    pods = [item for item, count in enumerate(problem.counts) for _ in range(count)]
    best = None
    for machine_of in itertools.product(range(len(pods)), repeat=len(pods)):
        if any(machine > max(machine_of[:i], default=-1) + 1 for i, machine in enumerate(machine_of)):
            continue  # the same partition with its machines in another order
        loads: Ints = np.zeros((max(machine_of) + 1, len(problem.counts)), dtype=np.int64)
        np.add.at(loads, (list(machine_of), pods), 1)
        types = [problem.cheapest_type(load) for load in loads]
        if min(types) >= 0:
            cost = int(problem.prices[types].sum())
            best = cost if best is None else min(best, cost)
    assert best is not None
    return best
