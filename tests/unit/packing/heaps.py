"""Heaps of pods and catalogues of machines as arrays."""

from __future__ import annotations

import numpy as np

from core.packing.problem import Packing, Problem

CPU, MEMORY = 1000, 2**30
SHAPES = (
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


def a_problem(
    requests: list[tuple[float, float]], counts: list[int], allowed: list[list[bool]] | None = None
) -> Problem:
    """Pods by vCPU and GiB on the machines of `SHAPES`, each with 110 places."""
    wanted = [(round(cpu * CPU), round(gib * MEMORY), 1) for cpu, gib in requests]
    may = np.ones((len(counts), len(SHAPES)), dtype=np.bool_) if allowed is None else np.array(allowed)
    return Problem.of(
        requests=np.array(wanted, dtype=np.int64),
        counts=np.array(counts, dtype=np.int64),
        room=np.array([(cpu * CPU, gib * MEMORY, 110) for cpu, gib, _ in SHAPES], dtype=np.int64),
        prices=np.array([price * 10**6 for _, _, price in SHAPES], dtype=np.int64),
        allowed=may,
    )


def a_heap(seed: int, *, classes: int = 30, pods: int = 600) -> Problem:
    """Random services: sizes over two orders of magnitude, most of them small."""
    dice = np.random.default_rng(seed)
    cpu = np.clip(np.exp(dice.normal(-1.2, 0.9, classes)), 0.05, 7).round(2)
    gib = np.clip(cpu * np.exp(dice.normal(1.0, 0.8, classes)), 0.1, 60).round(2)
    weights = dice.dirichlet(np.ones(classes))
    counts = 1 + np.floor(weights * pods).astype(int)
    return a_problem(list(zip(cpu.tolist(), gib.tolist(), strict=True)), counts.tolist())


def one_each(problem: Problem) -> Packing:
    """A machine for every single pod: the dearest way that anyone would defend."""
    single = np.eye(len(problem.counts), dtype=np.int64)
    types = np.array([problem.cheapest(load) for load in single])
    return Packing(np.repeat(types, problem.counts), np.repeat(single, problem.counts, axis=0))


def a_heavy_heap(seed: int, *, classes: int = 20, pods: int = 200) -> Problem:
    """Random pods of which a machine holds one to eight."""
    dice = np.random.default_rng(seed)
    cpu = dice.choice([1.1, 1.9, 2.7, 3.9, 5.5, 7.9], classes)
    gib = (cpu * dice.choice([1.4, 2.9, 4.2, 7.6], classes)).round(1)
    counts = dice.multinomial(pods - classes, dice.dirichlet(np.ones(classes))) + 1
    return a_problem(list(zip(cpu.tolist(), gib.tolist(), strict=True)), counts.tolist())
