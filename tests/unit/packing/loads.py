"""Loads by trying all."""

from __future__ import annotations

import itertools

import numpy as np

from core.packing.problem import Ints, Problem


def all_loads(problem: Problem) -> list[tuple[int, Ints]]:
    """Every load of every type."""
    ranges = [range(int(min(n, fit)) + 1) for n, fit in zip(problem.counts, problem.fit.max(axis=1), strict=True)]
    loads = [np.array(load) for load in itertools.product(*ranges)]
    return [
        (kind, load)
        for kind in range(len(problem.prices))
        for load in loads
        if (load @ problem.requests <= problem.room[kind]).all() and (load <= problem.fit[:, kind]).all()
    ]
