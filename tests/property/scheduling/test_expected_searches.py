"""Searched plans of small clusters with many rules, compared with `expected/searches.txt`.

`python -m tests.expected tests.property.scheduling.test_expected_searches` writes the texts. Each plan is judged by the naive
judge, and costs no more than the greedy one. Some are searched as if their zones were large ones: each zone then has a search
of its own, and takes over the loads of others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import pytest

from core import labels
from core.model.plan import Plan, PlannedClaim
from core.model.pod import TopologySpread
from core.model.snapshot import Snapshot
from core.packing.settings import DEFAULT_SETTINGS, LargeZoneSettings
from core.scheduling.planner import Planner
from tests.builders import a_pod, a_selector, a_type
from tests.expected import Expected
from tests.property.naive.left_over import violations
from tests.property.packing.clusters import a_ruled_cluster, with_steps
from tests.rendered import said, wrapped
from tests.unit.packing.problems import SIZES
from tests.unit.scheduling.optimization.clusters import a_cluster

STEPS: Final = 40
RULED: Final = (0, 1, 3, 4, 5, 6, 10, 11, 12, 13, 16, 18, 20, 21, 22, 23)
LARGE: Final = (0, 6, 18, 21, 22)
SPREAD: Final = (12, 30, 60)
"""Numbers of pods that spread over three zones."""

_LARGE_ZONES: Final = msgspec.structs.replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=1))


def spread_cluster(number: int) -> Snapshot:
    """Pods of several sizes, as many in each zone."""
    types = tuple(
        a_type(f"t{cpu}-{gib}", cpu=str(cpu), memory=f"{gib}Gi", price=mills / 1000) for cpu, gib, mills in SIZES
    )
    spread = TopologySpread(labels.ZONE, 1, selector=a_selector(app="a"))
    sizes = [(cpu, gib) for cpu in (1100, 1900, 2700, 3900) for gib in (3, 7, 12)]
    pods = tuple(
        a_pod(f"p{n:02}", cpu=f"{cpu}m", memory=f"{gib}Gi", labels={"app": "a"}, spreads=(spread,))
        for n, (cpu, gib) in enumerate(sizes[i % len(sizes)] for i in range(number))
    )
    return a_cluster(steps=STEPS, types=types, pods=pods)


def cluster(kind: str, number: int) -> Snapshot:
    """The cluster of a case."""
    return spread_cluster(number) if kind.startswith("spread") else a_ruled_cluster(number, steps=STEPS)


@cache
def plan(kind: str, number: int) -> Plan:
    """The searched plan of a case."""
    settings = _LARGE_ZONES if kind.endswith("large") else DEFAULT_SETTINGS
    return Planner(cluster(kind, number), search=settings).plan()


def text(kind: str, number: int) -> str:
    """The cost, and what each new node is for."""
    searched = plan(kind, number)
    cost = f"${searched.cost.hourly} an hour, at least {searched.cost.lower_bound}"
    nowhere = (
        f"; nowhere: {said(tuple(unplaced.pod for unplaced in searched.unschedulable))}"
        if searched.unschedulable
        else ""
    )
    return "\n".join([cost + nowhere, *map(_claim, searched.claims)])


def _claim(claim: PlannedClaim) -> str:
    shown = f"{claim.name}: {said(claim.instance_types)} in {said(claim.zones)} {said(claim.capacity_types)}"
    return wrapped(f"{shown}, {claim.price}, for {said(claim.pods)}")


def _case(kind: str, number: int) -> Callable[[], str]:
    return lambda: text(kind, number)


_CASES: Final = {
    f"{kind} {number}": (kind, number)
    for kind, numbers in (("ruled", RULED), ("ruled large", LARGE), ("spread", SPREAD), ("spread large", SPREAD))
    for number in numbers
}
EXPECTED: Final = Expected(
    Path(__file__).parent / "expected" / "searches.txt", {name: _case(*case) for name, case in _CASES.items()}
)


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(_CASES))
def test_a_searched_plan_is_the_expected_one_breaks_no_rule_and_costs_no_more(name: str) -> None:
    """If this failed, a change would make nodes dearer, or other ones, and nobody would have looked at it."""
    snapshot, searched = cluster(*_CASES[name]), plan(*_CASES[name])
    greedy = Planner(with_steps(snapshot, 0)).plan()
    assert violations(snapshot, searched) == []
    assert (len(searched.unschedulable), searched.cost.hourly) <= (len(greedy.unschedulable), greedy.cost.hourly)
    assert (searched.cost.lower_bound or 0) <= searched.cost.hourly
    assert EXPECTED.cases[name]() == EXPECTED.text(name)
