"""Every case of the benchmark: its workload, its time budgets, its number of repetitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.workloads.api_objects import as_sent
from benchmarks.workloads.clusters import existing
from benchmarks.workloads.diverse import diverse
from benchmarks.workloads.ec2 import ec2_catalogue
from benchmarks.workloads.manifests import Workload
from benchmarks.workloads.openb import files_missing, openb_cpu, openb_gpu
from benchmarks.workloads.services import available, lognormal, ruled, skewed

REPEATS: Final = 5
"""Repetitions of the greedy plan; the median counts."""

SEEDS: Final = range(11, 18)
"""Seeds of the workloads that are drawn several times."""

QUICK_BUDGET_MAX: Final = 2.0
"""Cases with longer time budgets are left out of `make bench-quick`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the table, or several: one for each time budget.

    Attributes:
        make: Builds the workload, given the folder with the public data.
        budgets: Seconds that may be spent on improving the first plan.
        peer_repeats: How often Karpenter plans; 0 where it would take too long.
        is_quick: Whether `make bench-quick` runs it.
        needs_trace: Whether it reads the public trace.
    """

    name: str
    make: Callable[[Path], Workload]
    budgets: tuple[float, ...] = (1.0,)
    repeats: int = REPEATS
    peer_repeats: int = 1
    is_quick: bool = False
    needs_trace: bool = False

    def missing(self, data: Path) -> str:
        """Return why the case cannot run here; empty if it can."""
        lacking = files_missing(data) if self.needs_trace else []
        return f"{', '.join(lacking)} not found in the data folder" if lacking else ""


def _on_ec2(make: Callable[..., Workload], *sizes: int, cpus_max: int | None = None) -> Callable[[Path], Workload]:
    more = {} if cpus_max is None else {"cpus_max": cpus_max}
    return lambda data: make(*sizes, ec2_catalogue(data), **more)


def _seeded(name: str, make: Callable[..., Workload], *sizes: int, cpus_max: int | None = None) -> tuple[Case, ...]:
    made = [(seed, _on_ec2(partial(make, seed=seed), *sizes, cpus_max=cpus_max)) for seed in SEEDS]
    return tuple(Case(name=f"again-{name}-{seed}", make=again, peer_repeats=0) for seed, again in made)


def _diverse(pods: int, types: int = 400) -> Callable[[Path], Workload]:
    return lambda _: diverse(pods, types)


CASES: Final = (
    Case(name="diverse-1", make=_diverse(1), peer_repeats=5, is_quick=True),
    Case(name="diverse-50", make=_diverse(50), peer_repeats=5),
    Case(name="diverse-100", make=_diverse(100), peer_repeats=5, is_quick=True),
    Case(name="diverse-500", make=_diverse(500), peer_repeats=3),
    Case(name="diverse-1k", make=_diverse(1_000), peer_repeats=3, is_quick=True),
    Case(name="diverse-2k", make=_diverse(2_000), peer_repeats=2),
    Case(name="diverse-5k", make=_diverse(5_000), is_quick=True),
    Case(name="diverse-10k", make=_diverse(10_000), budgets=(1.5, 20.0)),
    Case(name="diverse-20k", make=_diverse(20_000), budgets=(1.5,)),
    Case(name="diverse-100k", make=_diverse(100_000), budgets=(), repeats=3, peer_repeats=0),
    Case(name="diverse-1k-800", make=_diverse(1_000, 800), peer_repeats=3),
    Case(name="diverse-10k-800", make=_diverse(10_000, 800), budgets=(1.5,)),
    Case(name="lognormal-1k", make=_on_ec2(lognormal, 1_000, 77), peer_repeats=5, is_quick=True),
    Case(name="lognormal-1k-64", make=_on_ec2(lognormal, 1_000, 77, cpus_max=64), peer_repeats=5),
    Case(name="lognormal-10k", make=_on_ec2(lognormal, 10_000, 300), is_quick=True),
    Case(name="lognormal-10k-64", make=_on_ec2(lognormal, 10_000, 300, cpus_max=64)),
    Case(name="skewed-1k", make=_on_ec2(skewed, 1_000), peer_repeats=5, is_quick=True),
    Case(name="skewed-10k", make=_on_ec2(skewed, 10_000)),
    Case(name="skewed-10k-64", make=_on_ec2(skewed, 10_000, cpus_max=64)),
    Case(name="services-500", make=_on_ec2(ruled, 500, 30), is_quick=True),
    Case(name="services-2k", make=_on_ec2(ruled, 2_000, 100), budgets=(1.0, 5.0)),
    Case(name="available-2k", make=_on_ec2(available, 2_000, 100), budgets=(1.0, 5.0)),
    Case(
        name="openb-cpu",
        make=lambda data: openb_cpu(data, ec2_catalogue(data)),
        budgets=(1.0, 5.0),
        is_quick=True,
        needs_trace=True,
    ),
    Case(
        name="openb-gpu", make=lambda data: openb_gpu(data, ec2_catalogue(data)), budgets=(1.0, 5.0), needs_trace=True
    ),
    Case(name="as-sent-10k", make=_on_ec2(as_sent, 10_000, 500), repeats=3, peer_repeats=0),
    Case(name="existing-2k", make=_on_ec2(existing, 2_000, 100), peer_repeats=3, is_quick=True),
)


SEEDED: Final = (
    *_seeded("lognormal-1k", lognormal, 1_000, 77),
    *_seeded("lognormal-1k-64", lognormal, 1_000, 77, cpus_max=64),
    *_seeded("skewed-1k", skewed, 1_000),
    *_seeded("skewed-1k-64", skewed, 1_000, cpus_max=64),
)
"""The smallest workloads with other seeds, on request: with a dozen nodes, chance changes the cost by about a hundredth."""


def budgets_of(case: Case, *, quick: bool) -> list[float]:
    """The time budgets under which a case is planned."""
    return [seconds for seconds in case.budgets if seconds <= QUICK_BUDGET_MAX or not quick]


def selected(only: str, *, quick: bool) -> list[Case]:
    """The requested cases.

    Args:
        only: Names separated by commas; a name that ends in `*` selects all with that prefix. Empty for all.
        quick: Whether only the quick cases are selected, if `only` is empty.

    Raises:
        ValueError: If a name is not known; the message lists the known names.
    """
    if not only:
        return [case for case in CASES if case.is_quick or not quick]
    chosen: list[Case] = []
    for name in only.split(","):
        matching = [case for case in (*CASES, *SEEDED) if _matches(case.name, name)]
        if not matching:
            raise ValueError(f"no case {name!r}; there are {', '.join(case.name for case in CASES)}")
        chosen += [case for case in matching if case not in chosen]
    return chosen


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
